"""
`decide`: one cycle of the scheduler, six phases on one screen.

A function of a frozen snapshot and nothing else: the service calls it every turn, the simulator on
a virtual clock, `whatif` to tell what would happen. A memory that is handed in saves time.
"""

from __future__ import annotations

from bastion.scheduler.explain.verdicts import explain
from bastion.scheduler.phases.again import outset_after, outset_without
from bastion.scheduler.phases.borrow import borrow
from bastion.scheduler.phases.guarantee import guarantee
from bastion.scheduler.phases.planned_starts import plan_starts, take_over_plans
from bastion.scheduler.phases.promises import fulfil, stand_by, start_others
from bastion.scheduler.plan import Plan
from bastion.scheduler.snapshot import Snapshot
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.memory import Memory
from bastion.scheduler.state.outset import Outset
from bastion.scheduler.state.policy_choice import Parts, chosen


def decide(snapshot: Snapshot, now: float, memory: Memory | None = None) -> Plan:
    """
    What should be done now: who starts, who is stopped for whom, who waits and why.

    Deterministic, and stable: with its own promises and plans handed back, the same state gives
    the same plan. Every job of the snapshot that is queued or admitted has exactly one verdict;
    those that are draining or done hold nothing and have none.

    Args:
        snapshot: Everything it may know.
        now: Seconds of the store's clock.
        memory: Of the caller, who hands the same one in each time: records that have not changed
            are not looked into again. The plan is the same without it, or with any other.
    """
    return decide_with(chosen(snapshot.quota.scheduler), snapshot, now, memory)


def decide_with(parts: Parts, snapshot: Snapshot, now: float, memory: Memory | None = None) -> Plan:
    """`decide` with other parts than the quota file names."""
    memory = memory or Memory()
    outset: Outset | None = Outset(given=snapshot, snapshot=snapshot)
    while outset is not None:
        draft = Draft(outset, now, parts, memory)
        outset = outset_after(draft) if _goes_through(draft) else outset_without(draft)
    # 6. Explain: every job leaves with a verdict.
    return explain(draft)


PHASES = (
    # 1. Ledger and 2. order: who holds what, what is free, who waits, in which order.
    Draft.survey,
    # 3. Guarantee: standing promises first, then gangs within their project's share.
    stand_by,
    fulfil,
    take_over_plans,
    guarantee,
    start_others,
    # 4. Plan: a start in the future for the oldest blocked gang of each pool.
    plan_starts,
    # 5. Borrow: everybody else, on what is left idle.
    borrow,
)


def _goes_through(draft: Draft) -> bool:
    """Whether nothing came out late that must be known from the beginning."""
    for phase in PHASES:
        phase(draft)
        if draft.void or draft.instead or draft.is_overtaken:
            return False
    return True
