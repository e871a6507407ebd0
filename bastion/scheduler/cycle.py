"""
`decide`: one cycle of the scheduler, six phases on one screen.

It depends on a frozen snapshot and nothing else: the service calls it every turn, the simulator
calls it on a virtual clock, and `whatif` calls it to answer what would happen. A memory passed in
saves time.
"""

from __future__ import annotations

from dataclasses import replace

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
    snapshot: Snapshot, now: float, memory: Memory | None = None, *, explains: bool = True
) -> Plan:
    """
    Decide what to do now: which jobs start, which are preempted for which, and which wait and why.

    The result is deterministic and stable: given its own promises and plans back, the same state
    gives the same plan. Every job of the snapshot that is queued or admitted gets exactly one
    verdict. Draining and done jobs hold nothing and get none.

    Args:
        snapshot: The whole input.
        now: In seconds of the store's clock.
        memory: Kept by the caller from one cycle to the next, so that unchanged records are not
            read again. The plan is the same without it, and with any other.
        explains: As in `decide_with`.
    """
    return decide_with(chosen(snapshot.quota.scheduler), snapshot, now, memory, explains=explains)


def decide_with(
    parts: Parts,
    snapshot: Snapshot,
    now: float,
    memory: Memory | None = None,
    *,
    explains: bool = True,
) -> Plan:
    """
    Run `decide` with other parts than the quota file names.

    Without `explains`, jobs for which nothing is done get no verdict: finding what each waits for
    takes more time than everything else.
    """
    memory = memory or Memory()
    last = memory.standstill
    if last is not None and not last.holds(parts, snapshot, now, explains=explains):
        last = memory.standstill = None
    if last is not None and not memory.is_next_checked:
        memory.skip()
        return last.plan
    draft = _surveyed(parts, snapshot, now, memory)
    for phase in PHASES:
        phase(draft)
    # 6. Explain: every job leaves with a verdict.
    plan = explain(draft) if explains else outline(draft)
    memory.standstill = standstill_of(draft, plan, explains=explains)
    draft.close()
    if last is not None and last.plan != plan:
        memory.problems.append("the plan for a state that had not changed was another")
    return plan


def decide_plainly(snapshot: Snapshot, now: float) -> Plan:
    """
    Decide what to do now without any search: for a state in which `decide` fails.

    Jobs start where they fit, and promises that hold are kept. Nothing else is promised or planned,
    no victim is chosen, no gang grows or shrinks, and jobs that wait get no verdict.
    """
    draft = _surveyed(
        chosen(snapshot.quota.scheduler), replace(snapshot, planned=()), now, Memory()
    )
    draft.search.turn_off()
    for phase in PLAIN_PHASES:
        phase(draft)
    plan = outline(draft)
    draft.close()
    return plan


def _surveyed(parts: Parts, snapshot: Snapshot, now: float, memory: Memory) -> Draft:
    """1. Ledger and 2. order: what is held, what is free, and which gangs wait, in order."""
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
    # 3. Guarantee: first existing promises and plans, then gangs within their project's share.
    stand_by,
    take_over_plans,
    spare_victims,
    fulfil,
    plan_ahead,
    guarantee,
    start_others,
    # 4. Plan: a future start for the oldest blocked gang of each pool.
    plan_starts,
    # 5. Borrow: all other gangs, on idle capacity.
    borrow,
    # Spare victims that are no longer needed because devices became free.
    spare_victims_again,
    # Grown gangs shrink for jobs that their user's limit blocks; other gangs grow.
    shrink,
    grow,
    # Victims keep running until the remaining promises are due, but not into maintenance.
    let_victims_run_on,
    vacate,
)
PLAIN_PHASES = (stand_by, fulfil, guarantee, start_others, borrow, let_victims_run_on, vacate)
"""Those of `decide_plainly`."""
