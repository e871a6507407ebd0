"""The agent as a program while the folder of its bucket is away."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from pathlib import Path

import pytest

from bastion.agent.keeper.fake import Script
from bastion.clock import VirtualClock
from bastion.store.folder.watch import REMOVED_S, Pause
from bastion.store.memory import Fault, Operation
from tests.bastion.agent.real_machine import Machine, shell
from tests.rigs.agent import Rig, job, start

LINES = 8


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """Run a machine with an agent."""
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
    """Once the bucket is back, it has the end and log of a job that ended in the meantime."""
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


class Removed(Pause):
    """The watch of a bucket that is deleted on request."""

    def __init__(self) -> None:
        super().__init__(VirtualClock())
        self.is_so = False

    def is_removed(self) -> bool:
        """See `Watch`."""
        return self.is_so


def test_an_agent_without_a_bucket_ends_when_nothing_runs() -> None:
    """It ends a minute after the folder was deleted, and never before its job has ended."""
    watch = Removed()
    runs_s = 3 * REMOVED_S

    def faults(_operation: Operation, _key: str) -> Fault | None:
        return Fault.BEFORE if watch.is_so else None

    rig = Rig(lambda _: Script(runs_s=runs_s), faults=faults, watch=watch)
    rig.bucket.spec(job("train"))
    rig.bucket.instruct(start())
    rig.pass_s(1)
    watch.is_so = True
    rig.pass_s(runs_s - 2, step_s=0.5)
    assert not rig.is_finished()
    rig.pass_s(20, step_s=0.5)
    assert rig.is_finished()
    assert rig.said[-1].startswith("the bucket's folder was deleted")


def test_an_agent_outlasts_a_bucket_that_comes_back() -> None:
    """If the bucket is restored within the minute, the count starts over."""
    watch = Removed()
    rig = Rig(lambda _: Script(runs_s=inf), watch=watch)
    for _ in range(2):
        watch.is_so = True
        rig.pass_s(REMOVED_S - 5, step_s=0.5)
        watch.is_so = False
        rig.pass_s(1)
    assert not rig.is_finished()


@pytest.mark.parametrize("is_watched", [False, True])
def test_an_agent_that_news_wakes_polls_seldom_and_starts_at_once(is_watched: bool) -> None:
    """A watched folder is read rarely from the start, and no instruction is delayed."""

    class News(Pause):
        """Reports that there is news."""

        is_there = False

        def fileno(self) -> int:
            """See `Watch`."""
            return 7

        def has_news(self) -> bool:
            """See `Watch`."""
            return self.is_there

        def hears(self) -> bool:
            """See `Watch`."""
            return self.is_there

    looks: list[str] = []

    def faults(operation: Operation, key: str) -> Fault | None:
        if operation == "read" and key.startswith("instructions/"):
            looks.append(key)
        return None

    watch = News(VirtualClock())
    rig = Rig(lambda _: Script(runs_s=inf), faults=faults, watch=watch if is_watched else None)
    rig.pass_s(0.5, step_s=0.001)
    looks.clear()
    rig.pass_s(1, step_s=0.001)
    assert len(looks) < 15 if is_watched else len(looks) > 40
    rig.bucket.spec(job("train"))
    rig.bucket.instruct(start())
    watch.is_there = is_watched
    rig.pass_s(0.002 if is_watched else 0.1, step_s=0.001)
    assert rig.executions() == 1
