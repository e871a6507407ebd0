"""Bringing the code of a job: what passes by itself costs no attempt."""

from __future__ import annotations

from pathlib import Path

import pytest

from bastion.agent.settings import AgentSettings
from bastion.agent.setup import code_setup as set_up
from bastion.clock import VirtualClock
from bastion.spec import GitRef
from bundler.errors import BundleError, UnreachableError

REF = GitRef(url="https://example.org/x.git", commit="1" * 40)


@pytest.mark.parametrize(
    ("answers", "tries", "slept_s"),
    [
        ([UnreachableError("away"), None], 2, 2.0),
        ([UnreachableError("away")] * 3, 3, 10.0),
        ([BundleError("refused our key")], 1, 0.0),
    ],
)
def test_an_unreachable_repository_is_retried(
    answers: list[BundleError | None],
    tries: int,
    slept_s: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It fails after two retries; an error that no retry can change is raised at once."""
    asked: list[BundleError | None] = []

    def fetch_commit(*_: object, **__: object) -> Path:
        asked.append(answers[len(asked)])
        if asked[-1] is not None:
            raise asked[-1]
        return tmp_path

    monkeypatch.setattr("bundler.clone.fetch_commit", fetch_commit)
    clock = VirtualClock()
    began = clock.monotonic()
    try:
        assert set_up._clone(REF, AgentSettings(machine="m"), tmp_path, clock) == tmp_path
    except BundleError as error:
        assert error is answers[-1]
    assert (len(asked), clock.monotonic() - began) == (tries, slept_s)
    assert asked[-1] is answers[-1]
