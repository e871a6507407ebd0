"""
Phases 1 and 2: what each gang holds, what is free, and which gangs wait, in order.

The state of the last cycle is updated with what has changed since. A gang is in line, or set aside
with a reason.

This module must not know what fits now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from bastion.scheduler.policies.admission import admit_all
from bastion.scheduler.queue.eligibility import LineAside, wait_or_queue
from bastion.scheduler.queue.lines import Lines
from bastion.scheduler.queue.order import Entry, Line, LineKey, Standing, place_of, stand
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.holders.classes import may_stand, promised_by
from bastion.scheduler.state.holders.shares import Shares
from bastion.scheduler.state.holders.user_limits import UserLimits
from quota.amounts import Amounts


def survey(draft: Draft) -> None:
    """Fill `draft` with the state before any decision."""
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
    """Derive the classes without the `void` promises, by gang: they use no share."""
    if draft.newcomers.keys().isdisjoint(void):
        return
    for name in void:
        draft.newcomers.pop(name, None)
    draft.class_of_promise = draft.occupancy.classify_again(
        draft.parts.classify, list(draft.newcomers.values()), _victims(draft, void)
    )


def _victims(draft: Draft, void: Collection[str]) -> set[str]:
    """Return what promises within the share will have stopped, by name; without `void` ones."""
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
    lines = memory.line_up_only(others) if is_failing else memory.line_up(others)
    draft.aside = dict(waiting.aside)
    if draft.parts.admission is not admit_all or memory.limits_users or draft.budgets:
        lines.leave(_held_back(draft, lines, others))
    draft.lines, draft.backlogs = lines.by_project(), lines.backlogs


def _held_back(
    draft: Draft, lines: Lines, others: Sequence[Standing]
) -> Mapping[Line, list[Entry]]:
    """Return what is left of lines with gangs blocked by budgets, admission or users' limits."""
    quota, shares = draft.snapshot.quota, draft.shares
    able = [
        line
        for found in lines.by_project().values()
        for line in found
        if draft.beyond(line.shape) is None
    ]
    left = _within_budget(draft, able, others) if draft.budgets else {}
    waiting = [(line, left.get(line, line.entries)) for line in able]
    grown = (each for each in draft.occupancy.elastic.values() if each.is_grown)
    used = Amounts.sum(map(shares.held, shares.names()))
    used = used - draft.spare(grown)  # that is given back to waiting gangs
    gangs = (entry.gang for _, entries in waiting for entry in entries)
    over_load = draft.parts.admission(gangs, quota, used)
    draft.aside.update(over_load)
    free = [(line, _without(entries, over_load)) for line, entries in waiting]
    first = {*draft.standing, *(planned.gang[0] for planned in draft.snapshot.planned)}
    draft.user_limits = UserLimits(quota, free, draft.running.values(), draft.asks, first)
    for kept_out in draft.user_limits.kept_out():
        _set_aside(draft, kept_out)
    out = over_load.keys() | draft.user_limits.over
    for line, entries in waiting:
        some = _without(entries, out)
        if len(some) < len(entries):
            left[line] = some
    return left


def _set_aside(draft: Draft, aside: LineAside) -> None:
    """Set gangs of several jobs aside one by one: each may have another next wall."""
    line, entries, reason = aside
    alone = [entry for entry in entries if not entry.gang[0].gang]
    if alone:
        draft.lines_aside.append(LineAside(line, alone, reason))
    if len(alone) < len(entries):
        gangs = (entry.gang for entry in entries if entry.gang[0].gang)
        draft.aside.update((job.id, reason) for gang in gangs for job in gang)


def _without(entries: list[Entry], names: Collection[str]) -> list[Entry]:
    return [each for each in entries if each.gang[0].id not in names] if names else entries


def _within_budget(
    draft: Draft, able: Iterable[Line], others: Sequence[Standing]
) -> dict[Line, list[Entry]]:
    """Return what is left of lines blocked by budgets: the gangs for which others may stop."""
    ready = {} if draft.memory.failing else draft.memory.ready
    promised = (ready[name] for name in draft.standing if name in ready)
    begun: dict[LineKey, list[Entry]] = {}
    for key, _, entry in (*others, *promised):
        if _has_begun(draft, entry):
            begun.setdefault(key, []).append(entry)
    left: dict[Line, list[Entry]] = {}
    for line, reason in draft.budgets.kept_out(able, draft.asks).items():
        left[line] = sorted(begun.get(line.own_key, ()), key=place_of)
        names = {entry.gang[0].id for entry in left[line]}
        _set_aside(draft, LineAside(line, _without(line.entries, names), reason))
    return left


def _has_begun(draft: Draft, entry: Entry) -> bool:
    """Whether others stop for this gang, or other jobs of it already run."""
    job = entry.gang[0]
    return job.id in draft.standing or not draft.of_job.keys().isdisjoint(job.gang)
