"""
Reserve devices for waiting gangs, and give reservations up.

This module must not know why.
"""

from __future__ import annotations

from dataclasses import replace

from bastion.scheduler.phases.reservations.lending import count, lend, shut
from bastion.scheduler.queue.order import Gang
from bastion.scheduler.state.decisions import PlannedStop
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.holders.running import Running
from bastion.scheduler.state.reservation import Reserved


def reserve(draft: Draft, reserved: Reserved) -> None:
    """
    Close devices for a waiting gang.

    Its charge immediately counts against the tiers, and a promise's against its project, except for
    what the gangs it waits for will give back by then: that would count twice.
    """
    kept = draft.promised if reserved.is_promise else draft.plans
    kept[reserved.name] = reserved
    draft.reservations.end_drain(reserved.gang)
    draft.revised += 1
    is_firm = not reserved.is_promise or draft.promises[reserved.name].within_share
    is_kept = reserved.is_promise and is_firm and reserved.name in draft.standing
    is_shared = is_kept and not draft.has_own_place(reserved.name)
    draft.reservations.add(reserved, is_firm=is_firm, is_shared=is_shared)
    shut(draft, reserved)
    if reserved.holds_quota:
        count(draft, reserved)


def give_up(draft: Draft, reserved: Reserved) -> None:
    """Permanently open what is closed for a gang that keeps waiting: it no longer holds."""
    lend(draft, reserved)
    drop(draft, reserved)
    draft.revised += 1
    draft.search.loosened.add(reserved.project)  # others of it waited behind this
    draft.search.has_opened = True
    if reserved.is_promise:
        del draft.promises[reserved.name]
        draft.standing.pop(reserved.name, None)
        draft.wait_again(reserved.gang)
    else:
        spare_for(draft, reserved)


def forget_plan(draft: Draft, gang: Gang) -> None:
    """Open what was planned for `gang`: something better was done for it."""
    plan = draft.plans.get(gang[0].id)
    if plan is not None:
        spare_for(draft, plan)
        lend(draft, plan)
        drop(draft, plan)


def drop(draft: Draft, reserved: Reserved) -> None:
    """Forget a reservation that is lent: its gang starts, or it is void."""
    reserved.is_dropped = True
    draft.reservations.remove(reserved)
    if not reserved.is_promise:
        del draft.plans[reserved.name]
        return
    del draft.promised[reserved.name]
    for running in reserved.victims:
        if draft.victims[running.name].by == reserved.name:
            _spare(draft, running)


def spare_for(draft: Draft, plan: Reserved) -> dict[str, PlannedStop]:
    """Spare the gangs to be rotated only for `plan`; return their planned stops."""
    told = {name: stop for name, stop in draft.victims.items() if stop.by == plan.name}
    for name in told:
        _spare(draft, draft.running[name])
    return told


def _spare(draft: Draft, running: Running) -> None:
    """Let a victim continue, unless another promise needs it gone as well."""
    stop = draft.victims.pop(running.name)
    for other in draft.promised.values():
        if running in other.victims:
            is_firm = draft.promises[other.name].within_share
            draft.victims[running.name] = replace(stop, by=other.name, is_firm=is_firm)
            return
