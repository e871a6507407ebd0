"""A leader's cycles leave enough of its lease to renew it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bastion.clock import VirtualClock
from bastion.scheduler.cycle import PHASES, PLAIN_PHASES, decide
from bastion.scheduler.effort import STEP_S, STEPS, Effort
from bastion.scheduler.plan import Plan, Verdicts
from bastion.scheduler.snapshot import Snapshot
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.memory.memory import Memory
from bastion.service.config.settings import CLOUD, LOCAL, NEAR, Pace
from bastion.service.decide.cycles import RETRY_S, Cycles
from bastion.service.journal import Journal
from benchmarks.decide import NOW
from benchmarks.shapes import Shape, state_of
from tests.bastion.scheduler.world import World, machines_of, quota_of
from tests.rigs.leader import Rig

FEW = 30
"""So few steps that not everything after them can be considered."""
HARD = Shape(jobs=200, machines=20, users=200, priorities=5, has_own_limits=True, holding=0.3)
NOTHING = Plan(verdicts=Verdicts({}), promises=(), planned=(), new_machines=())


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the steps that each cycle may take, in place of the cycle."""
    found: list[int] = []

    def counted(snapshot: Snapshot, now: float, memory: Memory) -> Plan:
        del now, memory
        found.append(snapshot.steps)
        return NOTHING

    monkeypatch.setattr("bastion.service.decide.cycles.decide", counted)
    return found


@pytest.mark.parametrize("pace", [LOCAL, NEAR, CLOUD])
def test_the_searches_of_a_turn_are_over_in_a_sixth_of_the_lease(
    pace: Pace, steps: list[int]
) -> None:
    """This holds for any number of cycles, with steps as slow as permitted."""
    ttl_s = pace.ttl_s
    cycles = Cycles(ttl_s, Journal("b", VirtualClock(), out=None))
    snapshot = state_of(HARD)
    for _ in range(2):
        cycles.begin_turn()
        for _ in range(12):
            cycles.plan(snapshot, NOW)
    first, second = steps[:12], steps[12:]
    assert first == second
    assert sum(first) * STEP_S <= ttl_s / 6 + 12 * STEP_S
    assert 1_000 < first[0] <= STEPS


def test_a_leader_gives_each_turn_what_its_lease_allows(steps: list[int]) -> None:
    """In every turn, the first cycle may take the same number of steps."""
    rig = Rig()
    for _ in range(3):
        rig.submit()
        rig.turn()
    assert len(steps) >= 3
    assert set(steps) == {min(STEPS, int(rig.pace.ttl_s / 12 / STEP_S))}


def test_a_cycle_takes_no_more_steps_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a search in progress is finished; the same state would take many more steps."""
    spent = 0

    def count(self: Effort, steps: int = 1) -> None:
        nonlocal spent
        spent += steps
        self.left -= steps

    monkeypatch.setattr(Effort, "spend", count)
    state = state_of(HARD)
    holding = sum(job.is_admitted for job in state.jobs.values())
    found = []
    for most in (FEW, STEPS):
        spent = 0
        plan = decide(replace(state, steps=most), NOW + 1_000)
        found.append(spent)
        assert bool(plan.considered) == (most == FEW)
    assert found[0] <= FEW + 4 * holding + 10
    assert found[1] > 2 * found[0]


def test_a_fault_in_what_is_told_keeps_no_job_from_starting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The cycle is repeated without reasons, and the fault is reported."""

    def fails(draft: Draft) -> Plan:
        raise IndexError(f"{len(draft.running)} run")

    monkeypatch.setattr("bastion.scheduler.cycle.explain", fails)
    rig = Rig()
    job = rig.submit()
    rig.turn()
    assert rig.job(job).is_admitted
    assert any("IndexError" in problem for problem in rig.journal.problems)


def fails(draft: Draft) -> None:
    """Fail, as a phase with a fault does."""
    raise AssertionError(f"{len(draft.promises)} promises")


def test_a_fault_in_a_phase_keeps_no_job_from_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cycle is repeated without searches, and both failures are reported."""
    monkeypatch.setattr("bastion.scheduler.cycle.PHASES", (*PHASES, fails))
    rig = Rig()
    job = rig.submit()
    rig.turn()
    assert rig.job(job).is_admitted
    reported = [problem for problem in rig.journal.problems if "0 promises" in problem]
    assert [problem.partition(":")[0] for problem in reported] == [
        "scheduler",
        "scheduler without reasons",
    ]


def test_a_fault_in_a_promise_keeps_no_job_from_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The promises are given up, and what they kept may be used."""
    world = World(quota_of({"gpu": 8}, {"A": {"gpu": 1.0}}), machines_of(1, gpu=8))
    world.ask("A", "low", gpu=8, priority=5)
    world.cycle()
    world.ask("A", "high", gpu=8, priority=1)
    world.cycle()
    assert world.plan.promises

    def fails_with_promises(draft: Draft) -> None:
        if draft.promises:
            fails(draft)

    monkeypatch.setattr("bastion.scheduler.cycle.PHASES", (fails,))
    monkeypatch.setattr(
        "bastion.scheduler.cycle.PLAIN_PHASES", (*PLAIN_PHASES, fails_with_promises)
    )
    journal = Journal("b", VirtualClock(), out=None)
    plan = Cycles(LOCAL.ttl_s, journal).plan(world.snapshot(), world.now)
    assert plan is not None
    assert plan.promises == ()
    assert [problem.partition(":")[0] for problem in journal.problems] == [
        "scheduler",
        "scheduler without reasons",
        "scheduler without searches",
    ]


def test_a_failing_cycle_is_tried_again_and_shown_until_it_succeeds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing else changes meanwhile; the log has it once a minute, and says when it is over."""
    monkeypatch.setattr("bastion.scheduler.cycle.PHASES", (*PHASES, fails))
    rig = Rig()
    rig.start()
    rig.journal.drain()
    for _ in range(150):
        rig.turn()
        assert len(rig.journal.problems) == 2
    assert rig.journal.drain().count("scheduler: internal error") == 2
    monkeypatch.setattr("bastion.scheduler.cycle.PHASES", PHASES)
    rig.turn(int(RETRY_S) + 2)
    assert rig.journal.problems == ()
    assert "scheduler: works again after 2m" in rig.journal.drain()


def test_each_failure_of_a_cycle_is_logged_with_its_own_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A later one does not repeat the earlier ones."""
    monkeypatch.setattr("bastion.scheduler.cycle.PHASES", (fails,))
    monkeypatch.setattr("bastion.scheduler.cycle.PLAIN_PHASES", (fails,))
    rig = Rig()
    rig.submit()
    rig.turn()
    assert len(rig.journal.problems) == 4
    assert [problem.count("Traceback") for problem in rig.journal.problems] == [1, 1, 1, 1]


def test_a_launch_that_may_not_wait_is_refused_without_a_reason_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two start, and the third would be in the queue otherwise."""
    monkeypatch.setattr("bastion.scheduler.cycle.PHASES", (*PHASES, fails))
    rig = Rig()
    asked = [rig.launch(name, h100=8, when_busy="fail") for name in ("one", "two")]
    rig.turn()
    assert all(rig.job(rig.answer(each).jobs[0]).is_admitted for each in asked)
    third = rig.launch("three", h100=8, when_busy="fail")
    rig.turn()
    assert not rig.answer(third).accepted
    assert rig.answer(third).problems == (
        "main: cannot start now, and a bug of the scheduler hides why: bastion status shows it",
    )
