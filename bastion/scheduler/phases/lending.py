"""
What is closed for waiting gangs, opened for a moment to ask what would be; and the other way round.

All is as before when a context ends. It must not know what is asked meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.reservation import Reserved


@contextmanager
def closed(draft: Draft, drained: Sequence[Reserved]) -> Iterator[None]:
    """Close what is drained for a moment, and let it hold its room in the quota."""
    for each in drained:
        draft.shut(each)
        draft.count(each)
    try:
        yield
    finally:
        for each in drained:
            draft.discount(each)
            draft.open(each)


@contextmanager
def lent(draft: Draft, weak: Sequence[Reserved], kept: Sequence[Reserved] = ()) -> Iterator[None]:
    """
    Open what is `weak` for a moment; what is `kept`, and closed, is not opened with it.

    Promises are closed again before plans: what both need is closed for as long as the promise is.
    """
    with reopened(draft, kept):
        for each in weak:
            draft.lend(each)
    try:
        yield
    finally:
        with reopened(draft, kept):
            for each in sorted(weak, key=lambda each: (not each.is_promise, each.number)):
                draft.call_in(each)


@contextmanager
def reopened(draft: Draft, reserved: Iterable[Reserved]) -> Iterator[None]:
    """Open for a moment what is `reserved`, and closed; then it is closed for what is left."""
    shut = [each for each in reserved if each.hold is not None]
    for each in shut:
        draft.open(each)
    try:
        yield
    finally:
        for each in shut:
            draft.shut(each)


@contextmanager
def called_in(draft: Draft, plans: Sequence[Reserved]) -> Iterator[None]:
    """Close for a moment what is lent."""
    for plan in plans:
        draft.call_in(plan)
    try:
        yield
    finally:
        for plan in plans:
            draft.lend(plan)


@contextmanager
def counted(draft: Draft, plans: Sequence[Reserved]) -> Iterator[None]:
    """Let planned starts hold their room in the quota for a moment, as promises do."""
    for plan in plans:
        plan.holds_quota = True
        draft.count(plan)
    try:
        yield
    finally:
        for plan in plans:
            draft.discount(plan)
            plan.holds_quota = False


@contextmanager
def discounted(draft: Draft, held: Sequence[Reserved]) -> Iterator[None]:
    """Let promises, or planned starts that hold their room in the quota, leave it for a moment."""
    for each in held:
        draft.discount(each)
    try:
        yield
    finally:
        for each in held:
            draft.count(each)


def count_plans(draft: Draft) -> None:
    """Let all planned starts hold their room in the quota: nothing borrows it."""
    for plan in draft.plans.values():
        if not plan.holds_quota:
            plan.holds_quota = True
            draft.count(plan)


def discount_plans(draft: Draft) -> None:
    """Let no planned start hold its room: no gang is stopped for the room of another's."""
    for plan in draft.plans.values():
        if plan.holds_quota:
            draft.discount(plan)
            plan.holds_quota = False
