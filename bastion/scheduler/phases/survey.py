"""
Phases 1 and 2: what each gang holds, what is free, which gangs wait, and in which order.

Rules: what the last cycle left is brought up to date with what has moved since. A gang is in line,
or set aside with a reason.

It must not know what fits now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from bastion.scheduler.policies.admission import admit_all
from bastion.scheduler.queue.eligibility import wait_or_queue
from bastion.scheduler.queue.order import Standing, stand
from bastion.scheduler.reasons.reason import WaitingReason
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.holders.classes import may_stand, promised_by
from bastion.scheduler.state.holders.shares import Shares
from bastion.scheduler.state.holders.user_limits import UserLimits
from quota.amounts import Amounts


def survey(draft: Draft) -> None:
    """Fill `draft` with everything that stands before anything is decided."""
    snapshot, held = draft.snapshot, draft.occupancy
    moved = draft.memory.take_in(snapshot)
    promised = promised_by(snapshot.promises, snapshot.jobs, draft.cost_of)
    void = {each.name for each in promised if not may_stand(snapshot.quota, each)}
    draft.newcomers = {each.name: each for each in promised}
    draft.class_of_promise = held.classify(
        draft.parts.classify, moved, promised, _victims(draft, void)
    )
    draft.running = held.running
    draft.lowest = held.lowest.copy()
    draft.shares = Shares(snapshot.quota, held.held)
    draft.capacity.begin_cycle(snapshot.seq)
    _line_up(draft)


def classify_again(draft: Draft, void: Collection[str]) -> None:
    """Derive the classes without the promises that are `void`, by gang: they take up no share."""
    if draft.newcomers.keys().isdisjoint(void):
        return
    for name in void:
        draft.newcomers.pop(name, None)
    draft.class_of_promise = draft.occupancy.classify_again(
        draft.parts.classify, list(draft.newcomers.values()), _victims(draft, void)
    )


def _victims(draft: Draft, void: Collection[str]) -> set[str]:
    """What promises within the share will have stopped, by name; those that are `void` apart."""
    of_job, promises = draft.occupancy.of_job, draft.snapshot.promises
    firm = [each for each in promises if each.within_share and each.gang[0] not in void]
    named = [job for each in firm for job, _ in each.victims]
    return {of_job[job].name for job in named if job in of_job}


def _line_up(draft: Draft) -> None:
    memory = draft.memory
    is_failing = bool(memory.failing)
    judged = draft.snapshot.jobs if is_failing else memory.unsure
    waiting = wait_or_queue(draft.snapshot, draft.now, judged, is_failing=is_failing)
    others = [stand(gang, draft.shapes, draft.rank) for gang in waiting.gangs]
    if draft.parts.order.is_lasting and not is_failing:
        others = memory.keep_ready(others)
    held_back: Mapping[str, WaitingReason] = {}
    standing: Sequence[Standing] = others
    if draft.parts.admission is not admit_all or memory.limits_users or draft.budgets:
        standing = others if is_failing else [*memory.ready.values(), *others]
        held_back = _held_back(draft, standing)
    draft.aside = {**waiting.aside, **held_back}
    if is_failing or held_back:
        lines = memory.line_up_some(e for e in standing if e.entry.gang[0].id not in held_back)
    else:
        lines = memory.line_up(others)
    draft.lines, draft.backlogs = lines.by_project(), lines.backlogs


def _begun(draft: Draft, standing: Iterable[Standing]) -> set[str]:
    """Gangs, by their first job, for which others stop, or of which other jobs run already."""
    gangs = (each.entry.gang[0] for each in standing)
    joining = {job.id for job in gangs if not draft.of_job.keys().isdisjoint(job.gang)}
    return {*draft.standing, *joining}


def _held_back(draft: Draft, standing: Sequence[Standing]) -> Mapping[str, WaitingReason]:
    """What budgets, admission and the limits of users keep out of the queue."""
    quota, shares = draft.snapshot.quota, draft.shares
    grown = (each for each in draft.occupancy.elastic.values() if each.is_grown)
    used = Amounts.sum(map(shares.held, shares.names()))
    used = used - draft.spare(grown)  # that is given back to what waits
    able = [each for each in standing if draft.beyond(each.shape) is None]
    found: dict[str, WaitingReason] = {}
    if draft.budgets:
        found.update(draft.budgets.kept_out(able, draft.asks, _begun(draft, able)))
    able = [each for each in able if each.entry.gang[0].id not in found]
    found.update(draft.parts.admission((each.entry.gang for each in able), quota, used))
    free = [each for each in able if each.entry.gang[0].id not in found]
    first = {*draft.standing, *(planned.gang[0] for planned in draft.snapshot.planned)}
    draft.user_limits = UserLimits(quota, free, draft.running.values(), draft.asks, first)
    found.update(draft.user_limits.kept_out())
    return found
