"""
`decide`: one cycle of the scheduler, six phases on one screen.

A function of a frozen snapshot and nothing else: the service calls it every turn, the simulator on
a virtual clock, `whatif` to tell what would happen. A memory that is handed in saves time.
"""

from __future__ import annotations

from bastion.scheduler.explain.verdicts import explain, outline
from bastion.scheduler.forecast.drift import standstill_of
from bastion.scheduler.phases.borrow import borrow
from bastion.scheduler.phases.growth import grow
from bastion.scheduler.phases.guarantee import guarantee
from bastion.scheduler.phases.maintenance import vacate
from bastion.scheduler.phases.planned_starts import plan_ahead, plan_starts, take_over_plans
from bastion.scheduler.phases.promises import fulfil, stand_by, start_others
from bastion.scheduler.phases.proposals import spare_victims, spare_victims_again
from bastion.scheduler.phases.reservations.new_promise import let_victims_run_on
from bastion.scheduler.phases.shrinkage import shrink
from bastion.scheduler.phases.survey import survey
from bastion.scheduler.plan import Plan
from bastion.scheduler.snapshot import Snapshot
from bastion.scheduler.state.consistency import difference
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.memory.memory import Memory
from bastion.scheduler.state.memory.policy_choice import Parts, chosen


def decide(
    snapshot: Snapshot, now: float, memory: Memory | None = None, *, tells: bool = True
) -> Plan:
    """
    Decide what to do now: which jobs start, which are preempted for which, which wait and why.

    Deterministic, and stable: with its own promises and plans handed back, the same state gives
    the same plan. Every job of the snapshot that is queued or admitted has exactly one verdict;
    those that are draining or done hold nothing and have none.

    Args:
        snapshot: Everything it may know.
        now: Seconds of the store's clock.
        memory: Kept by the caller from one cycle to the next: records that have not changed are
            not read again. The plan is the same without it, or with any other.
        tells: As in `decide_with`.
    """
    return decide_with(chosen(snapshot.quota.scheduler), snapshot, now, memory, tells=tells)


def decide_with(
    parts: Parts,
    snapshot: Snapshot,
    now: float,
    memory: Memory | None = None,
    *,
    tells: bool = True,
) -> Plan:
    """
    `decide` with other parts than the quota file names.

    Without `tells` jobs for which nothing is done have no verdict: to find out what each waits for
    takes more time than everything else.
    """
    memory = memory or Memory()
    last = memory.standstill
    if last is not None and not last.holds(parts, snapshot, now, tells=tells):
        last = memory.standstill = None
    if last is not None and not memory.is_next_checked:
        memory.skip()
        return last.plan
    draft = _surveyed(parts, snapshot, now, memory)
    for phase in PHASES:
        phase(draft)
    # 6. Explain: every job leaves with a verdict.
    plan = explain(draft) if tells else outline(draft)
    memory.standstill = standstill_of(draft, plan, tells=tells)
    draft.close()
    if last is not None and last.plan != plan:
        memory.problems.append("the plan for a state that had not changed was another")
    return plan


def _surveyed(parts: Parts, snapshot: Snapshot, now: float, memory: Memory) -> Draft:
    """1. Ledger and 2. order: holders, what is free, which gangs wait, in which order."""
    draft = Draft(snapshot, now, parts, memory)
    survey(draft)
    if memory.is_check_due:
        fresh = Draft(snapshot, now, parts, Memory())
        survey(fresh)
        problem = difference(draft, fresh)
        if problem:
            memory.problems.append(problem)
            return fresh
    return draft


PHASES = (
    # 3. Guarantee: what was promised and planned first, then gangs within their project's share.
    stand_by,
    take_over_plans,
    spare_victims,
    fulfil,
    plan_ahead,
    guarantee,
    start_others,
    # 4. Plan: a start in the future for the oldest blocked gang of each pool.
    plan_starts,
    # 5. Borrow: all other gangs, on what is left idle.
    borrow,
    # No victim is told to stop for what became free meanwhile.
    spare_victims_again,
    # Grown gangs give back to jobs that their user's limit keeps out; others grow.
    shrink,
    grow,
    # Victims run on until the promises are due that are left, and into no maintenance.
    let_victims_run_on,
    vacate,
)
