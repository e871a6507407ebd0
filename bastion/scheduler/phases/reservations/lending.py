"""
Reservations, opened temporarily to answer a question; and the other way round.

For devices, `reopened` opens them. For quota, `counted` holds the room and `discounted` leaves it.
For both, `lent` opens, `called_in` suspends that, `closed` closes what is drained, and `set_apart`
lends and lets others count on what is given back. When a context ends, the state is as before,
except that whatever was dropped meanwhile stays open.

This module must not know what is asked meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from bastion.scheduler.placement.hold import Charge, Hold
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.holders.ledger import Gift
from bastion.scheduler.state.reservation import Reserved


@contextmanager
def closed(draft: Draft, drained: Sequence[Reserved]) -> Iterator[None]:
    """Temporarily close what is drained, and let it hold its room in the quota."""
    for each in drained:
        shut(draft, each)
        count(draft, each)
    try:
        yield
    finally:
        for each in drained:
            _discount(draft, each)
            _open(draft, each)


@contextmanager
def lent(draft: Draft, weak: Sequence[Reserved], kept: Sequence[Reserved] = ()) -> Iterator[None]:
    """
    Temporarily open what is `weak`; what is `kept`, and closed, is not opened with it.

    Promises are closed again before plans: what both need stays closed for the promise.
    """
    kept = kept if weak else ()
    with reopened(draft, kept):
        for each in weak:
            lend(draft, each)
    try:
        yield
    finally:
        with reopened(draft, kept):
            for each in sorted(weak, key=lambda each: (not each.is_promise, each.number)):
                if not each.is_dropped:
                    _call_in(draft, each)


@contextmanager
def set_apart(
    draft: Draft, reserved: Sequence[Reserved], others: Sequence[Reserved]
) -> Iterator[None]:
    """Lend them; `others` count on what is given back, which these would have waited for."""
    for each in others:
        _refund(draft, each)
    for each in reserved:
        lend(draft, each)
    for each in others:
        _draw(draft, each)
    try:
        yield
    finally:
        left = [each for each in reserved if not each.is_dropped]
        for each in others if left else ():
            _refund(draft, each)
        for each in left:
            _call_in(draft, each)
        for each in others if left else ():
            _draw(draft, each)


@contextmanager
def reopened(draft: Draft, reserved: Iterable[Reserved]) -> Iterator[None]:
    """Temporarily open what is `reserved` and closed; afterwards close it on what is left."""
    was_shut = [each for each in reserved if each.hold is not None]
    for each in was_shut:
        _open(draft, each)
    try:
        yield
    finally:
        for each in was_shut:
            shut(draft, each)


@contextmanager
def called_in(draft: Draft, plans: Sequence[Reserved]) -> Iterator[None]:
    """Temporarily close what is lent."""
    for plan in plans:
        _call_in(draft, plan)
    try:
        yield
    finally:
        for plan in plans:
            lend(draft, plan)


@contextmanager
def counted(draft: Draft, plans: Sequence[Reserved]) -> Iterator[None]:
    """Temporarily let planned starts hold their room in the quota, as promises do."""
    for plan in plans:
        plan.holds_quota = True
        count(draft, plan)
    try:
        yield
    finally:
        for plan in plans:
            _discount(draft, plan)
            plan.holds_quota = False


@contextmanager
def discounted(draft: Draft, held: Sequence[Reserved]) -> Iterator[None]:
    """Temporarily let promises, or plans that hold quota, leave their room in it."""
    for each in held:
        _discount(draft, each)
    try:
        yield
    finally:
        for each in held:
            count(draft, each)


def count_plans(draft: Draft) -> None:
    """Let all planned starts hold their room in the quota, so that nothing borrows it."""
    for plan in draft.plans.values():
        if not plan.holds_quota:
            plan.holds_quota = True
            count(draft, plan)


def discount_plans(draft: Draft) -> None:
    """Let no planned start hold its room: no gang is stopped for the room of another's."""
    for plan in draft.plans.values():
        if plan.holds_quota:
            _discount(draft, plan)
            plan.holds_quota = False


def shut(draft: Draft, reserved: Reserved, before: Hold | None = None) -> None:
    """Close it, or what is left of it; `before` as in `Capacity.close`."""
    net, placed = _net(draft, reserved), reserved.placed.placements
    reserved.hold = draft.capacity.close(reserved.shape.parts, placed, net, before)


def _open(draft: Draft, reserved: Reserved) -> None:
    assert reserved.hold is not None
    draft.search.too_full.clear()
    draft.search.no_slots.clear()
    for machine in reserved.footprint.masks:
        draft.departures.may_leave_more(draft.on(machine))
    draft.capacity.lift(reserved.hold)
    reserved.hold = None
    _pay_back(draft, reserved)


def count(draft: Draft, reserved: Reserved, gave: Sequence[Gift] | None = None) -> None:
    """Let the project of `reserved` hold it in the quota; `gave` as in `Shares.reserve`."""
    asked, planned = reserved.placed.total, not reserved.is_promise
    reserved.gifts += draft.shares.reserve(
        reserved.project, asked, reserved.waits, is_planned=planned, gave=gave
    )


def _discount(draft: Draft, reserved: Reserved) -> None:
    draft.shares.cancel(reserved.project, reserved.placed.total, reserved.gifts)
    reserved.gifts.clear()


def lend(draft: Draft, reserved: Reserved) -> None:
    """Open its devices and its room in the quota, until it is called in or dropped."""
    reserved.before, reserved.owed = reserved.hold, (*reserved.paid,)
    _open(draft, reserved)
    if reserved.holds_quota:
        reserved.lent = (*reserved.gifts,)
        _discount(draft, reserved)


def _call_in(draft: Draft, reserved: Reserved) -> None:
    """Undo `lend`."""
    if reserved.holds_quota:
        count(draft, reserved, reserved.lent)
    shut(draft, reserved, reserved.before)
    reserved.owed = ()


def _refund(draft: Draft, reserved: Reserved) -> None:
    """Stop counting on other gangs; its devices stay closed."""
    assert reserved.hold is not None
    draft.capacity.charge(reserved.hold.charge, sign=-1)
    _pay_back(draft, reserved)
    if reserved.holds_quota:
        _discount(draft, reserved)


def _draw(draft: Draft, reserved: Reserved) -> None:
    """Undo `_refund`: count on the gangs that it waits for, as far as they have left."""
    assert reserved.hold is not None
    reserved.hold.charge = _net(draft, reserved)
    draft.capacity.charge(reserved.hold.charge)
    if reserved.holds_quota:
        count(draft, reserved)


def _pay_back(draft: Draft, reserved: Reserved) -> None:
    for running, tier, units in reserved.paid:
        running.pay(tier, -units)
        draft.departures.may_leave_more((running,))
    reserved.paid.clear()


def _net(draft: Draft, reserved: Reserved) -> Charge:
    """Return its charge, less what the gangs it waits for pay of it."""
    net = reserved.draw()
    draft.paid.update(running for running, _, _ in reserved.paid)
    return net
