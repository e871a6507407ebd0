"""
Phase 5: everybody else, on what others leave idle.

Rules: the project that borrowed least lately comes first. Nobody is stopped for a borrower, but
lower priority inside one project. A gang that does not fit blocks no other: what must not be taken
is closed already, for promises and planned starts.

It must not know why anything is closed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from bastion.scheduler.phases.carried import stopped_now
from bastion.scheduler.phases.guarantee import is_in_vain, keep_promise, look_again, queue_of, spent
from bastion.scheduler.phases.planned_starts import plan_again, start_borrowing
from bastion.scheduler.phases.starting import may_yield, newest
from bastion.scheduler.preemption.victims import find, least_lost, yields_to
from bastion.scheduler.queue.order import Gang, Line, Projects, Queue
from bastion.scheduler.queue.shape import Shape
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.reservation import Reserved
from bastion.scheduler.state.running import Running
from quota.amounts import Amounts


def borrow(draft: Draft) -> None:
    """Admit every other waiting gang that fits, and note those that do not."""

    def score(project: str) -> float:
        ahead = draft.shares.borrowed(project) * draft.options.borrow_slice_s
        return draft.snapshot.decayed.get(project, 0.0) + ahead

    queues: dict[str, Queue] = {}
    projects = Projects((name for name, lines in draft.rest.items() if lines), score)
    made = len(draft.promises)
    outranks_none: set[tuple[str, int]] = set()
    hopeless: set[tuple[str, int]] = set()
    blocked = draft.blocked
    while (name := projects.pop()) is not None:
        if name not in queues:
            queues[name] = queue_of(draft, name, _hopeful(draft, name))
        queue = queues[name]
        while (line := queue.pop()) is not None:
            if line.key in hopeless and not line.fail_when_busy:
                blocked.append(line)
            elif _start(draft, line.head, line.shape) or _outrank(draft, line, outranks_none):
                queue.spend(line.user, spent(draft, line))
                draft.forget_plan(line.head)
                line.at += 1
                queue.put(line)
                projects.put(name)
                break
            else:
                blocked.append(line)
                if not line.fail_when_busy:
                    hopeless.add(line.key)  # equal gangs of its project fare no better
    if draft.is_deferred:
        _reclaim_again(draft)
    while True:
        before = len(draft.promises)
        _outrank_again(draft, is_better=before > made)
        if len(draft.promises) > made and draft.hopeless:
            _reclaim_again(draft)
        if len(draft.promises) == before:
            break
        made = before
    plan_again(draft)
    draft.discount_plans()


def _hopeful(draft: Draft, project: str) -> list[Line]:
    """The lines of `project` for which something might be done; the others are blocked."""
    lines = draft.rest[project]
    roomy: dict[int, bool] = {}
    hopeful = set()
    for shape in {id(line.shape): line.shape for line in lines}.values():
        if shape.form not in roomy:
            roomy[shape.form] = not draft.is_too_full(
                shape, guaranteed=False
            ) and draft.shares.may_borrow(project, shape.asked)
        # Whoever is gone again in time may use what is closed for others.
        is_short = shape.max_runtime_s is not None and (draft.reserved or draft.plans)
        if roomy[shape.form] or is_short or _has_lower(draft, project, shape):
            hopeful.add(id(shape))
    found: list[Line] = []
    for line in lines:
        (found if id(line.shape) in hopeful else draft.blocked).append(line)
    return found


def _outrank_again(draft: Draft, *, is_better: bool) -> None:
    """
    Look once more who can outrank.

    Whoever is stopped may leave more than he is stopped for; and who needed nobody's stop, because
    enough comes free anyway, may need it now that others took of that.
    """
    lines = draft.blocked
    if not is_better:
        begun = {project for project, started in draft.admitted_by.items() if started}
        lines = [
            line
            for line in lines
            # Nobody lower was there when it was looked at, and somebody has started since.
            if line.key in draft.patient or (line.project in begun and line.key not in draft.asked)
        ]
    while lines:
        before = len(draft.promises)
        outranks_none: set[tuple[str, int]] = set()
        for line in lines:
            while not line.is_over and _outrank(draft, line, outranks_none):
                draft.forget_plan(line.head)
                line.at += 1
        lines = draft.blocked if len(draft.promises) > before else []
    draft.blocked = [line for line in draft.blocked if line.at < len(line.gangs)]


def _reclaim_again(draft: Draft) -> None:
    """Whoever gives way to higher priority may leave room for a gang within its own share."""
    draft.is_open = False
    draft.rest = {}
    for line in draft.blocked:
        draft.rest.setdefault(line.project, []).append(line)
    look_again(draft)
    draft.is_open = True
    draft.blocked = [line for line in draft.blocked if line.at < len(line.gangs)]


def _start(draft: Draft, gang: Gang, shape: Shape) -> bool:
    """Start on what is open, or for a short while on what is closed for a later time."""
    if start_borrowing(draft, gang, shape):
        return True
    if shape.max_runtime_s is None:
        return False
    end = draft.now + shape.max_runtime_s + shape.grace_s
    reserved = [*draft.reserved.values(), *draft.plans.values()]
    closed = [each for each in reserved if each.until >= end and each.gang is not gang]
    if not closed:
        return False
    others = [each for each in reserved if each not in closed]
    draft.set_apart(closed, others)
    done = start_borrowing(draft, gang, shape)
    if done:
        draft.borrows(draft.admitted[-1])
        new = newest(draft)
        for each in closed:  # who is gone by then is one of those for whom it waits
            if each.footprint.meets(new.footprint):
                each.waits = (new, *each.waits)
    draft.put_back(closed, others)
    return done


def _outrank(draft: Draft, line: Line, outranks_none: set[tuple[str, int]]) -> bool:
    """Promise the devices of lower priority of the same project, if that lets it start."""
    if line.key in outranks_none:
        return False
    outranks_none.add(line.key)
    if line.fail_when_busy or not _has_lower(draft, line.project, line.shape):
        return False
    own = draft.plans.get(line.head[0].id)
    if line.head[0].id in draft.outset.vain or (own is not None and _is_due(draft, own)):
        return False
    spared = draft.spare_for(own) if own else {}
    if own is not None:
        draft.lend(own)  # what is kept for it already needs nobody's stop
    others = [plan for plan in draft.plans.values() if plan is not own]
    for plan in others:
        draft.discount(plan)  # nobody is stopped for the room of a planned start of others
        plan.holds_quota = False
    done = _promise_lower(draft, line)
    for plan in others:
        plan.holds_quota = True
        draft.count(plan)
    if own is not None:
        draft.call_in(own)
    if done:
        outranks_none.discard(line.key)
    else:
        draft.doomed.update(spared)
    return done


def _is_due(draft: Draft, plan: Reserved) -> bool:
    """Whether somebody may have been rotated for it: to stop others too would gain no more."""
    return any(plan.until <= draft.now + running.grace_s for running in plan.waits)


def _has_lower(draft: Draft, project: str, shape: Shape) -> bool:
    """Whether anybody runs who might yield to it."""
    policy = draft.parts.preemption
    if policy.follows_order:
        return True
    return policy.outranks and draft.lowest_priority(project) > shape.priority


def _promise_lower(draft: Draft, line: Line) -> bool:
    gang, shape = line.head, line.shape
    follows = draft.parts.preemption.follows_order
    near = draft.staying(None if follows else line.project)
    new = may_yield(draft, gang, shape.priority, follows_order=follows)
    lower = [running for running in chain(near, new) if yields_to(draft, running, gang, shape)]
    if not lower:
        return False
    draft.asked.add(line.key)
    lower.sort(key=lambda running: (-running.priority, least_lost(draft, running)))

    def may_have(units: Amounts, gone: Sequence[Running]) -> bool:
        with draft.shares.without(gone):
            # What others keep of their shares is kept from borrowers, not from a share.
            return draft.shares.may_borrow(line.project, units) or draft.shares.is_within(
                line.project, units
            )

    with draft.shares.without(draft.departing()):
        found = find(draft, shape, lower, may_have, guaranteed=False)
        if found is None:
            return False
        with draft.shares.without(found.victims):
            may_borrow = draft.shares.may_borrow(line.project, found.placed.total)
    stopped = stopped_now(draft)
    leaving = [r for r in draft.departing(firm=True) if r.is_leaving or r.name in stopped]
    with draft.shares.without([*found.victims, *leaving]):
        within_share = draft.shares.is_within(line.project, found.placed.total)
    if not found.victims and not within_share:
        draft.patient.add(line.key)
        return False
    if not (may_borrow or within_share):
        return False
    if not within_share and is_in_vain(draft, gang, found.victims):
        return False
    keep_promise(draft, gang, shape, found, within_share=within_share)
    return True
