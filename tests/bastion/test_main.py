"""`python -m bastion`: a wrong call says what a right one is."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from bastion.__main__ import default_machines_dir, main


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    """What `serve` makes of signals is undone after each test."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["serve"], ["serve", "a", "b"]])
def test_a_wrong_call_is_told(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Arguments that mean nothing are an exit code of 2, with what would mean something."""
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith("usage: python -m bastion ")


def test_a_root_that_cannot_be_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """A root of an unknown scheme is one line on stderr, no traceback, and an exit code of 1."""
    assert main(["serve", "ftp://nowhere"]) == 1
    err = capsys.readouterr().err
    assert "ftp" in err
    assert "Traceback" not in err


def test_machines_live_apart_from_the_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each root has a folder of its own for local machines, under the user's state."""
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    one, two = default_machines_dir("file:///a"), default_machines_dir("file:///b")
    assert one != two
    assert one == default_machines_dir("file:///a")
    assert one.is_relative_to(Path("/state/bastion"))
