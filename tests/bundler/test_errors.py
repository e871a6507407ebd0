"""The errors of the bundler behave like all errors that users meet."""

from __future__ import annotations

import pickle

import pytest

from bastion.errors import BastionError
from bundler.errors import BuildError, BundleError, ChangedError, InvalidCodeError


@pytest.mark.parametrize(
    "error",
    [
        BundleError("no git on this machine", hint="install git"),
        InvalidCodeError("exclude: 3", "root: 4"),
        ChangedError("a.py"),
        BuildError("it failed", hint="look", output=("one", "two")),
    ],
)
def test_an_error_reaches_another_process_whole(error: BundleError) -> None:
    """One `except BastionError` catches it there, with all its attributes."""
    there = pickle.loads(pickle.dumps(error))
    assert isinstance(there, BastionError)
    assert (type(there), str(there), there.hint) == (type(error), str(error), error.hint)
    assert there.__dict__ == error.__dict__
