"""
Phase 3: gangs within their project's share start, or get a promise with a deadline.

Rules: whether a gang is within the share is asked of the project's total usage, both classes. All
such gangs of all projects are looked at, so a big one that is not never hides a small one behind
it. What is promised is closed to everybody else from the same cycle on.

It must not know how borrowers are ordered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from bastion.scheduler.phases.awaited import awaited, by_end
from bastion.scheduler.phases.starting import could_borrow, may_yield, take_back
from bastion.scheduler.preemption.victims import (
    Allows,
    Found,
    find,
    furthest_above_first,
    is_legal,
    least_lost,
    stop_at,
)
from bastion.scheduler.promise import Promise
from bastion.scheduler.queue.order import Gang, Line, Projects, Queue, ids_of, usage_of
from bastion.scheduler.queue.shape import Shape
from bastion.scheduler.reasons.reason import Outranked, PreemptReason, Reclaimed, Yielded
from bastion.scheduler.state.decisions import Doom
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.footprint import Footprint, pairs_of
from bastion.scheduler.state.reservation import Reserved
from bastion.scheduler.state.running import Running
from quota.amounts import Amounts


def guarantee(draft: Draft) -> None:
    """Admit, or promise to, every waiting gang within its project's share, as far as it fits."""
    made = len(draft.promises)
    late = {name: _late(draft, lines) for name, lines in draft.lines.items()}
    _go_through(draft, draft.lines)
    if any(late.values()):
        _go_through(draft, late)
    if len(draft.promises) > made:  # whoever is stopped may leave more than he is stopped for
        look_again(draft)


def _late(draft: Draft, lines: list[Line]) -> list[Line]:
    """Gangs that are to be looked at last, taken out of `lines`."""
    found = []
    for line in lines if draft.outset.late else ():
        late = [entry for entry in line.waiting if ids_of(entry[3]) in draft.outset.late]
        if late:
            found.append(line.of(late))
            for entry in late:
                line.remove(entry[3])
    return found


def look_again(draft: Draft) -> None:
    """Go once more through the gangs for whom no victims were found, while that helps anybody."""
    is_better = True
    while is_better and draft.hopeless:
        made = len(draft.promises)
        lines = {name: _without_victims(draft, name) for name in draft.rest}
        before = draft.hopeless.copy()
        draft.hopeless.clear()
        _go_through(draft, lines)
        draft.hopeless |= before  # some are beyond the share only while a promise stands
        is_better = len(draft.promises) > made


def _without_victims(draft: Draft, project: str) -> list[Line]:
    """Lines of `project` for whom no victims were found, taken out of what is passed on."""
    rest = draft.rest[project]
    found = [line for line in rest if not line.is_over and line.key in draft.hopeless]
    draft.rest[project] = [line for line in rest if line not in found]
    return found


def _go_through(draft: Draft, waiting: Mapping[str, list[Line]]) -> None:
    queues, shapes = {}, {}
    for project, lines in waiting.items():
        within, beyond = _divide(draft, project, lines)
        draft.rest.setdefault(project, []).extend(beyond)
        queues[project] = queue_of(draft, project, within)
        shapes[project] = _foremost(within)
    projects = Projects(queues, draft.shares.dominant)
    made = len(draft.promises)
    while (name := projects.pop()) is not None:
        queue, rest = queues[name], draft.rest[name]
        while (line := queue.pop()) is not None:
            if not _may_be_within(draft, name, line.shape):
                rest.append(line)
                shapes[name] = [s for s in shapes[name] if _may_be_within(draft, name, s)]
                if not shapes[name] and len(draft.promises) == made:
                    rest.extend(queue.drain())  # what is beyond the share stays so
            elif start_or_promise(draft, line):
                queue.spend(line.user, spent(draft, line))
                line.at += 1
                queue.put(line)
                projects.put(name)
                break
            else:
                rest.append(line)


def _foremost(lines: list[Line]) -> list[Shape]:
    """Of every form that of the highest priority: if it is beyond the share, so are the others."""
    found: dict[int, Shape] = {}
    for line in lines:
        shape = line.shape
        if shape.form not in found or shape.priority < found[shape.form].priority:
            found[shape.form] = shape
    return list(found.values())


def _divide(draft: Draft, project: str, lines: list[Line]) -> tuple[list[Line], list[Line]]:
    """Lines that are within the share, and those that are beyond it for the whole cycle."""
    known: dict[tuple[int, int], bool] = {}
    fitting = set()
    for shape in {id(line.shape): line.shape for line in lines}.values():
        key = shape.form, shape.priority if draft.reserved else 0  # some give way to priority
        if key not in known:
            known[key] = _may_be_within(draft, project, shape)
        if known[key]:
            fitting.add(id(shape))
    within: list[Line] = []
    beyond: list[Line] = []
    for line in lines:
        (within if id(line.shape) in fitting else beyond).append(line)
    return within, beyond


def _may_be_within(draft: Draft, project: str, shape: Shape, *, later: bool = False) -> bool:
    """
    Whether it may be within the share; what whole machines cost is known when they are found.

    `later` as in `Draft.outranked`.
    """
    if shape.takes_whole and not shape.asked:
        return True
    if draft.shares.is_within(project, shape.asked):
        return True
    lower = draft.outranked(project, shape.priority, later=later)
    for each in lower:
        draft.discount(each)
    is_within = bool(lower) and draft.shares.is_within(project, shape.asked)
    for each in lower:
        draft.count(each)
    return is_within


def queue_of(draft: Draft, project: str, lines: list[Line]) -> Queue:
    """The waiting gangs of `project` in its own order."""
    fair = draft.parts.order.between_users and draft.shares.project(project).order == "fair"
    if project not in draft.usage_by_user:
        decayed = draft.snapshot.decayed_by_user if fair else {}
        draft.usage_by_user[project] = usage_of(decayed, project)
    return Queue(lines, draft.usage_by_user[project], between_users=fair)


def spent(draft: Draft, line: Line) -> float:
    """
    What one more gang of `line` adds to its user's usage, in the units of decayed usage.

    It is counted as if it had run for one slice already; else one user would get everything that
    is free in one cycle, as usage only grows while time passes.
    """
    return draft.shares.weight(line.shape.asked) * draft.options.borrow_slice_s


def start_or_promise(draft: Draft, line: Line) -> bool:
    """Whether something was done for the head of `line`."""
    gang, shape = line.head, line.shape
    project = gang[0].project

    def allows(charge: Amounts) -> bool:
        return draft.shares.is_within(project, charge)

    if draft.try_admit(gang, shape, allows, guaranteed=True):
        return True
    lower = draft.outranked(project, shape.priority)
    within = [r for r in lower if draft.promises[r.name].within_share and draft.is_within(r)]
    weak = [*draft.weak(project), *lower]
    for each in weak:
        draft.lend(each)
    done = bool(weak) and draft.try_admit(gang, shape, allows, guaranteed=True)
    if not done and not gang[0].fail_when_busy:
        done = _promise(draft, line)
    for each in weak:
        draft.call_in(each)
    if done:
        broken = [each for each in within if not draft.is_within(each)]
        draft.void.update(draft.promises[each.name].gang for each in broken)
    return done


def _promise(draft: Draft, line: Line) -> bool:
    gang, shape = line.head, line.shape
    if line.key in draft.hopeless:
        return False
    allows = _is_within(draft, gang[0].project)
    found = find(draft, shape, _legal(draft, gang, shape), allows, guaranteed=True)
    if found is None or _rather_borrows(draft, gang[0].project, shape, found):
        draft.hopeless.add(line.key)
        return False
    keep_promise(draft, gang, shape, found, within_share=True)
    return True


def _rather_borrows(draft: Draft, project: str, shape: Shape, found: Found) -> bool:
    """
    Whether a gang need not stop those `found`: whole machines are free, though beyond its share.

    Phase 5 lets it start there; if another was faster, it is looked at once more after that.
    """
    if not (shape.takes_whole and found.victims and draft.is_open):
        return False
    if not could_borrow(draft, project, shape):
        return False
    draft.is_deferred = True
    return True


def _is_within(draft: Draft, project: str) -> Allows:
    """Whether a charge is within the share of `project`: no victim makes room in that."""

    def allows(units: Amounts, _: Sequence[Running]) -> bool:
        return draft.shares.is_within(project, units)

    return allows


def _legal(draft: Draft, gang: Gang, shape: Shape) -> Iterator[Running]:
    """Borrowers of other projects first, then lower priority of its own."""
    project = gang[0].project
    policy = draft.parts.preemption
    lower = [r for r in draft.staying(project, firm=True) if r.priority > shape.priority]
    lower += may_yield(draft, gang, shape.priority, follows_order=False)
    lower.sort(key=lambda r: (-r.priority, least_lost(draft, r)))
    return chain(
        furthest_above_first(draft, but=project) if policy.reclaims else (),
        lower if policy.outranks else (),
    )


def is_in_vain(draft: Draft, gang: Gang, going: Sequence[Running]) -> bool:
    """
    Whether one of another project has a right to what `going` leave for `gang`, and takes it.

    What is closed for `gang` itself is open already.

    It waits within its share, and nobody may be stopped for it but borrowers: where `going` stand
    on their share, their own project would have stopped them for somebody else.
    """
    safe = [running for running in going if not (running.is_borrowed or running.is_leaving)]
    if not safe or not draft.hopeless:
        return False
    others = (lines for name, lines in draft.rest.items() if name != gang[0].project)
    return any(
        _would_take(draft, line, gang, going)
        for line in chain.from_iterable(others)
        if line.key in draft.hopeless and not line.is_over
    )


def _would_take(draft: Draft, line: Line, gang: Gang, going: Sequence[Running]) -> bool:
    """Whether the head of `line`, within its share, could start once `going` have gone."""
    if not _may_be_within(draft, line.project, line.shape, later=True):
        return False
    weak = [each for each in draft.weak(line.project) if each.gang is not gang]
    weak += draft.outranked(line.project, line.shape.priority, later=True)
    for each in weak:
        draft.lend(each)
    legal = _legal(draft, line.head, line.shape)
    allows = _is_within(draft, line.project)
    found = find(draft, line.shape, legal, allows, guaranteed=True, going=going)
    for each in weak:
        draft.call_in(each)
    return found is not None


def keep_promise(
    draft: Draft, gang: Gang, shape: Shape, found: Found, *, within_share: bool
) -> None:
    """
    Make the promise that `found` allows, and say to its victims what will happen.

    Those among them who start in this cycle do not, and it begins again with the promise.
    """
    name = gang[0].id
    found = replace(found, victims=take_back(draft, gang, found.victims))
    for victim in found.victims:
        stop = stop_at(draft, victim)
        doom = doom_of(draft, victim, gang, shape, stop, is_firm=within_share)
        draft.doomed[victim.name] = doom
    waits = _waits(draft, gang, shape, found, within_share=within_share)
    deadline = max([draft.now, *(draft.ends_at(running) for running in waits)])
    victims = (*found.victims, *_shared(draft, gang, shape, found))
    draft.capacity.make_again(found.placed.placements)
    reserved = Reserved(
        gang=gang,
        shape=shape,
        placed=found.placed,
        until=deadline,
        is_promise=True,
        victims=victims,
        waits=waits,
    )
    draft.promises[name] = Promise(
        gang=tuple(job.id for job in gang),
        placements=found.placed.placements,
        deadline=deadline,
        victims=victims_of(draft, victims),
        made_at=draft.now,
        within_share=within_share,
    )
    draft.reserve(reserved)


def _waits(
    draft: Draft, gang: Gang, shape: Shape, found: Found, *, within_share: bool
) -> list[Running]:
    """Whom the promise that `found` allows waits for: nobody else has to end for it."""
    sure = [*found.ending, *found.victims]
    others = by_end(draft, found.departing)
    wanted = Footprint(pairs_of(shape.parts, found.placed.placements))
    project = gang[0].project
    waits = awaited(draft, project, wanted, found.placed, sure, others, within_share=within_share)
    assert waits is not None, "it fits once all of them have ended: so it was found"
    return waits


def _shared(draft: Draft, gang: Gang, shape: Shape, found: Found) -> list[Running]:
    """
    Victims of earlier promises whose devices it needs too, as far as they are its own by right.

    If the earlier promise is fulfilled otherwise, they are still to be stopped for this one. Those
    of other projects are not while its own project holds too much, though it will not for long.
    """
    within_share = draft.shares.is_within(gang[0].project, found.placed.total)
    wanted = Footprint(pairs_of(shape.parts, found.placed.placements))
    return [
        running
        for running in found.ending
        if not running.is_leaving
        and running.footprint.meets(wanted)
        and is_legal(draft, running, gang, shape, within_share=within_share)
    ]


def victims_of(draft: Draft, victims: Sequence[Running]) -> tuple[tuple[str, float], ...]:
    """(job, stop time) of every job of `victims`."""
    return tuple((job, draft.doomed[v.name].stop_at) for v in victims for job in v.ids)


def doom_of(
    draft: Draft, victim: Running, gang: Gang, shape: Shape, stop: float, *, is_firm: bool
) -> Doom:
    """What `victim` has to expect, and why."""
    reason: PreemptReason
    if victim.project == gang[0].project and victim.priority > shape.priority:
        reason = Outranked(by=gang[0].id, priority=victim.priority, theirs=shape.priority)
    elif draft.shares.is_within(gang[0].project, shape.asked):
        reason = Reclaimed(by=gang[0].id, project=gang[0].project, units=shape.asked)
    else:
        reason = Yielded(by=gang[0].id, order=draft.options.order)
    return Doom(
        by=gang[0].id,
        stop_at=stop,
        end_at=stop + victim.grace_s,
        reason=reason,
        is_firm=is_firm,
    )
