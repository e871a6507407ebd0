"""The agent as a program, while the folder of its bucket is away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bastion.agent.real_machine import Machine, shell
from tests.rigs.agent import start

LINES = 8


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """A machine whose agent runs."""
    made = Machine(tmp_path)
    made.begin()
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("is_mount_point", [False, True])
def test_what_ended_while_the_bucket_was_away_is_told(
    machine: Machine, tmp_path: Path, is_mount_point: bool
) -> None:
    """End and log of a job that ended meanwhile stand in the bucket when it is back."""
    may_end, has_ended = tmp_path / "may_end", tmp_path / "has_ended"
    count = f"for n in $(seq {LINES}); do echo line $n; done"
    machine.bucket.spec(
        shell(f"echo begun; while ! test -e {may_end}; do sleep 0.05; done; {count}; >{has_ended}")
    )
    machine.bucket.instruct(start())
    machine.until(lambda: "begun" in machine.bucket.log().decode())
    away = machine.root.rename(tmp_path / "away")
    if is_mount_point:
        machine.root.mkdir()
    may_end.touch()
    machine.until(lambda: has_ended.exists() and "out of reach" in machine.log())
    if is_mount_point:
        assert list(machine.root.iterdir()) == []
        machine.root.rmdir()
    assert not machine.root.exists()
    away.rename(machine.root)
    machine.until(lambda: "drained" in machine.bucket.told())
    end = machine.bucket.end()
    assert end is not None
    assert end.codes == (0,)
    lines = machine.bucket.log().decode().splitlines()
    assert lines == ["begun", *(f"line {n + 1}" for n in range(LINES))]
