"""Any order of writes by the bastion and of failures keeps the agent's promises."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bastion.agent.keeper.fake import Reaction, Script
from bastion.errors import ConflictError
from bastion.machine import Instruction
from bastion.store.memory import Fault
from tests.rigs.agent import OF, Rig, job, start, stop

SCRIPT = Script(
    output=((0.0, b"begun\n"), (2.0, b"half\n")),
    runs_s=4.0,
    on_notice=Reaction(after_s=0.5, code=1, signal=None),
)
Step = Literal[
    "start", "stop", "revoke", "go", "no go", "agent", "keeper", "strays", "away", "back", "wait"
]
STEPS: tuple[Step, ...] = (
    "start",
    "stop",
    "revoke",
    "go",
    "no go",
    "agent",
    "keeper",
    "strays",
    "away",
    "back",
    "wait",
)


class Schedule:
    """One machine and a bastion that does anything at any time."""

    def __init__(self) -> None:
        self.is_away = False
        self.batches: dict[int, int] = {}
        self.rig = Rig(lambda _: SCRIPT, faults=self._fault)
        self.rig.bucket.spec(job())

    def do(self, step: Step) -> None:
        """Do one step, then let a little time pass."""
        rig = self.rig
        steps: dict[Step, Callable[[], object]] = {
            "start": lambda: self.instruct(start(barrier=True)),
            "stop": lambda: self.instruct(stop(grace_s=1.0)),
            "revoke": lambda: rig.bucket.put_claim(None),
            "go": lambda: rig.bucket.go("10.0.0.1"),
            "no go": rig.bucket.go,
            "agent": rig.restart,
            "keeper": lambda: self.kill_keeper(leaves_strays=False),
            "strays": lambda: self.kill_keeper(leaves_strays=True),
            "away": lambda: self.be_away(is_away=True),
            "back": lambda: self.be_away(is_away=False),
            "wait": lambda: rig.pass_s(1.0, step_s=0.1),
        }
        with suppress(ConflictError):  # an existing object stays
            steps[step]()
        rig.pass_s(0.1, step_s=0.05)

    def instruct(self, *instructions: Instruction) -> None:
        """Write the next batch of the living keeper."""
        life = self.rig.keeper.life
        self.batches[life] = self.batches.get(life, 0) + 1
        self.rig.bucket.instruct(*instructions, life=life, number=self.batches[life])

    def kill_keeper(self, *, leaves_strays: bool) -> None:
        """Kill the keeper; agent and store must exist to start a new life."""
        self.is_away = False
        self.rig.keeper.crash(leaves_strays=leaves_strays)
        self.rig.restart()

    def be_away(self, *, is_away: bool) -> None:
        """Take the store away, or bring it back."""
        self.is_away = is_away

    def finish(self) -> None:
        """Repair everything, and stop what still runs."""
        self.is_away = False
        self.rig.pass_s(3, step_s=0.1)
        self.instruct(stop(grace_s=1.0))
        self.rig.pass_s(8, step_s=0.1)

    def _fault(self, operation: str, _: str) -> Fault | None:
        if not self.is_away:
            return None
        return Fault.AFTER if operation == "create" else Fault.BEFORE


def check(steps: list[Step]) -> None:
    """Play `steps`; every promise holds."""
    schedule = Schedule()
    for step in steps:
        schedule.do(step)
    schedule.finish()
    rig = schedule.rig
    claim, end = rig.bucket.claim(), rig.bucket.end()
    assert rig.executions() <= 1
    assert not rig.keeper_home.living(rig.clock.monotonic())
    if "go" not in steps:
        assert rig.executions() == 0
    if claim is None:
        assert rig.executions() == 0
        assert end is None
        return
    assert end is not None
    assert "ended" in rig.bucket.told()
    if rig.executions():
        assert end.kind in ("exited", "lost")
        assert len(rig.bucket.log()) == end.sizes[0]
        assert b"begun\nhalf\n".startswith(rig.bucket.log())
    else:
        assert end.codes == ()
    assert rig.keeper.attempts() == ()
    assert rig.bucket.told(OF)[-1] == "drained"


@settings(max_examples=60)
@given(st.lists(st.sampled_from(STEPS), max_size=9).map(lambda steps: ["start", *steps]))
def test_any_schedule_keeps_every_promise(steps: list[Step]) -> None:
    """At most one start, none without claim and go, one end, every byte, nothing left behind."""
    check(steps)


@pytest.mark.prove
@settings(max_examples=3000)
@given(st.lists(st.sampled_from(STEPS), max_size=14))
def test_any_long_schedule_keeps_every_promise(steps: list[Step]) -> None:
    """The same holds for thousands of longer schedules, even those that start late or never."""
    check(steps)
