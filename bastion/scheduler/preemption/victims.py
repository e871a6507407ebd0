"""
Victims: the gangs to preempt so that one gang can start as a whole, placement included.

Devices of gangs that are already being stopped cost nothing, so they are counted first. Then
victims are added one by one until the gang fits. At the end each victim that the gang does not need
is spared, in reverse order: the set is inclusion-minimal. All of it is a trial on the cycle's own
capacity, undone before anything is decided.

This module must not know which gang is next, nor which victims are legal: both are arguments.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from bastion.scheduler.placement.capacity import Capacity
from bastion.scheduler.placement.place import Placed
from bastion.scheduler.preemption.lack import Lack
from bastion.scheduler.preemption.need import MachineBounds, Need
from bastion.scheduler.preemption.pending import Pending
from bastion.scheduler.preemption.spared import spared
from bastion.scheduler.queue.order import Gang
from bastion.scheduler.queue.shape import Shape
from bastion.scheduler.state.departing import Departing
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.holders.footprint import Located, located
from bastion.scheduler.state.holders.release import Release
from bastion.scheduler.state.holders.running import Running
from bastion.value import value
from quota.amounts import Amounts
from quota.ledger import apart

STEPS_OF_A_SEARCH = 1
"""The steps of a search, beside those for each gang that it removes."""

GANGS_PASSED_A_STEP = 12
"""Gangs that a search examines and passes over in the time of one step."""

Allows = Callable[[Amounts, Sequence[Running]], bool]
"""Whether a gang may be charged that much once they are gone."""


@value
class Found:
    """Where a gang will lie once `victims` and those already ending are gone."""

    at: Located
    victims: tuple[Running, ...]
    ending: tuple[Running, ...]
    """Those already being stopped whose devices it needs."""
    departing: Iterable[Running]
    """All that were assumed gone: it may need their room in the tiers or the quota. Each once."""

    @property
    def placed(self) -> Placed:
        """Its placement, and what it is charged."""
        return self.at.placed


def find(
    draft: Draft,
    shape: Shape,
    legal: Iterable[Running],
    allows: Allows,
    *,
    guaranteed: bool,
    going: Collection[Running] = (),
    staying: Collection[Running] = (),
    may_stop: Callable[[Running], bool] | None = None,
) -> Found | None:
    """
    Return the least harm that lets a gang of `shape` start; None if all `legal` are too few.

    Args:
        draft: Unchanged when this returns.
        shape: What the gang asks for.
        legal: What may be stopped for it, in the order in which to try them.
        allows: Whether the quota lets it be charged that much once these victims are gone.
        guaranteed: From which end the tiers are filled.
        going: What will be gone too, beside gangs already being stopped.
        staying: Those of these that will not be gone, unless they are among the victims.
        may_stop: Whether one may be among `legal`, if known: then only those are removed with which
            a machine may have room for one more replica.
    """
    capacity = draft.capacity
    capacity.begin()
    departing = draft.departing(firm=guaranteed)
    draft.search.effort.spend(STEPS_OF_A_SEARCH + len(departing.useful) // GANGS_PASSED_A_STEP)
    but = set(staying)
    more = {running: None for running in going if running in but or running not in departing}

    def is_leaving(running: Running) -> bool:
        is_one = draft.is_departing(running, firm=guaranteed) and running not in but
        return is_one or running in more

    try:
        leave = _going(draft, shape, departing, is_leaving, more)
        gone = [each.let_go(capacity) for each in leave if each.running.name not in draft.victims]
        need = Need(draft, shape, guaranteed=guaranteed)
        search = _Search(draft, need, allows, is_leaving, gone)
        named = search.let_named_go([e for e in leave if e.running.name in draft.victims])
        victims: tuple[Running, ...] | None = ()
        if need.is_told_by_slots and search.is_enough():
            named = named[1:]  # the first of them was removed last: it is needed
        else:
            search, victims = _searched(draft, search, legal, may_stop, [*gone, *named])
        if victims is None:
            return None
        search.do_without(named)
        placed = draft.try_place(shape, search.may_cost, guaranteed=guaranteed)
        assert placed is not None, "it fitted when the last victim was spared"
    finally:
        capacity.undo()
    at = located(shape, placed)
    ending = tuple(running for running in draft.holders(at.footprint) if is_leaving(running))
    all_gone = chain((running for running in departing if running not in but), more)
    return Found(at=at, victims=victims, ending=ending, departing=all_gone)


def _searched(
    draft: Draft,
    search: _Search,
    legal: Iterable[Running],
    may_stop: Callable[[Running], bool] | None,
    gone: Sequence[Release],
) -> tuple[_Search, tuple[Running, ...] | None]:
    """Return those of `legal` that the gang needs gone, after the search that removed them."""
    need, capacity = search.need, draft.capacity
    if may_stop is None or not need.is_for_devices or not search.may_cost(need.shape.asked):
        return search, search.victims(legal)
    looked_at: list[Running] = []
    need.bounds = MachineBounds(draft, need.parts[0], may_stop)
    search.pending = Pending(Lack(capacity, need.parts[0].part))
    capacity.begin()
    victims = search.victims(_noted(legal, looked_at))
    if not need.bounds.is_in_doubt:
        capacity.agree()
        return search, victims
    capacity.undo()
    need = Need(draft, need.shape, guaranteed=need.guaranteed)
    again = _Search(draft, need, search.allows, search.is_leaving, gone)
    return again, again.victims(chain(looked_at, legal))


def _noted(legal: Iterable[Running], looked_at: list[Running]) -> Iterator[Running]:
    for running in legal:
        looked_at.append(running)
        yield running


class _Going(NamedTuple):
    """A gang that will be gone."""

    running: Running
    is_far: bool = False
    """Whether it lies where nothing that is asked for could lie."""

    def let_go(self, capacity: Capacity) -> Release:
        """Remove it on trial."""
        return Release(capacity, self.running, is_far=self.is_far)


def _going(
    draft: Draft,
    shape: Shape,
    departing: Departing,
    is_leaving: Callable[[Running], bool],
    more: Collection[Running],
) -> list[_Going]:
    """
    Return those of `departing` and `more` that are leaving and leave anything, by name.

    Most of them leave only what is already promised, on machines where nothing is free. They make a
    difference only once another gang leaves there, too.
    """
    if not all(part.is_plain for part in shape.parts):
        going = [running for running in departing if is_leaving(running) and running not in more]
        return [_Going(running) for running in (*going, *more)]
    capacity, machines = draft.capacity, set[str]()
    scopes = [capacity.scope_of(part) for part in shape.parts]

    def may_hold(machine: str) -> bool:
        """Whether some part of the gang could lie there."""
        room = capacity.by_name.get(machine)
        return room is not None and any(scope.has(room) for scope in scopes)

    useful, far = set[Running](), set[Running]()
    for running in [*departing.useful, *more]:
        wanted = running.footprint
        if not any(map(may_hold, wanted.masks)):
            if not running.is_spent:
                far.add(running)
            continue
        opens = wanted.opens(capacity)
        if opens or wanted.whole or not running.is_spent:
            useful.add(running)
            machines.update(filter(may_hold, opens))
        elif running not in more:
            departing.leaves_nothing(running)
    for machine in machines:
        useful.update(draft.on(machine))
    far -= useful
    going = sorted(
        (running for running in useful | far if is_leaving(running) and running not in more),
        key=lambda running: running.name,
    )
    going += [running for running in more if running in useful or running in far]
    return [_Going(running, is_far=running in far) for running in going]


class _Search:
    """Removes victims on trial, and spares them again."""

    def __init__(
        self,
        draft: Draft,
        need: Need,
        allows: Allows,
        is_leaving: Callable[[Running], bool],
        gone: Iterable[Release],
    ) -> None:
        self.draft = draft
        self.need = need
        self.allows = allows
        self.is_leaving = is_leaving
        self.gone = {release.running for release in gone}
        """The departing gangs that were already removed."""
        self.released: list[Release] = []
        self._passed_over = 0
        self.pending: Pending | None = None
        """What is only counted; None if each is removed immediately."""

    def may_cost(self, units: Amounts) -> bool:
        """Whether the quota lets it be charged `units` once the removed gangs are gone."""
        return self.allows(units, [each.running for each in self.released])

    def is_enough(self) -> bool:
        """Whether the gang fits now."""
        shape = self.need.shape
        if not self.need.may_fit():
            return False
        if (shape.asked or not shape.takes_whole) and not self.may_cost(shape.asked):
            return False
        return self.need.fits(self.may_cost)

    def let_named_go(self, named: Sequence[_Going]) -> list[Release]:
        """
        Remove the `named` gangs that are not being stopped yet, and return them in order.

        If the check is cheap, stop once the gang fits, beginning with the last. The result is the
        same as removing all and keeping, from the first on, each without which the gang still fits.
        """
        released: list[Release] = []
        for going in reversed(named):
            if self.need.is_told_by_slots and self.is_enough():
                break
            self.gone.add(going.running)
            released.append(going.let_go(self.draft.capacity))
            self.need.refresh(released[-1])
        return released[::-1]

    def victims(self, legal: Iterable[Running]) -> tuple[Running, ...] | None:
        """Return those of `legal` that the gang needs gone; None if all of them are too few."""
        return self.spare() if self.let_go(legal) else None

    def let_go(self, legal: Iterable[Running]) -> bool:
        """Whether the gang fits once enough of `legal` are gone."""
        if self.is_enough():
            return True
        for running in legal:
            if not self.need.is_helped_by(running):
                self._pass_over()
            elif self._leave(running) and self.is_enough():
                return True
        return False

    def _leave(self, running: Running) -> bool:
        """Remove `running`; return whether that makes a difference yet."""
        if self.pending is None:
            self._leave_with(running)
            self.released.append(self.need.release(running))
            return True
        number, going = self.pending.number, self.pending.let_go(running)
        self._pass_over()
        for each in going:
            self._leave_with(each)
            insort(self.released, self.need.release(each), key=lambda r: number(r.running))
        return bool(going)

    def _pass_over(self) -> None:
        self._passed_over += 1
        if self._passed_over % GANGS_PASSED_A_STEP == 0:
            self.draft.search.effort.spend()

    def _leave_with(self, running: Running) -> None:
        """First release gangs that leave the machines of `running` anyway."""
        for machine in running.footprint.masks:
            for other in self.draft.on(machine):
                if self.is_leaving(other) and other not in self.gone and self._gives(other):
                    self.gone.add(other)
                    self.need.release(other)

    def _gives(self, running: Running) -> bool:
        """Whether it may leave anything that is asked for: its devices may all be promised."""
        if not self.need.is_for_devices or self.need.parts[0].part.counts:
            return True
        return not running.is_spent or bool(running.footprint.opens(self.draft.capacity))

    def spare(self) -> tuple[Running, ...]:
        """Spare each victim that is not needed, and return the rest, the last one added first."""
        for at in reversed(range(len(self.released) - 1)):
            release = self.released[at]
            if release.pays:
                gone = [each.running for each in self.released[at:]]
                self._instead(at, gone[1:])
                if not self.is_enough():
                    self._instead(at, gone)
                continue
            self.need.withdraw(release)
            del self.released[at]
            if not self.is_enough():
                self.need.again(release)
                self.released.insert(at, release)
        return tuple(release.running for release in self.released)

    def do_without(self, gone: Sequence[Release]) -> None:
        """Keep those of `gone`, which may still be spared, without which the gang fits as well."""

        def go(some: Sequence[Release], sign: int) -> None:
            for release in some:
                (self.need.again if sign > 0 else self.need.withdraw)(release)

        deque(spared(gone, go, self.is_enough), maxlen=0)

    def _instead(self, at: int, gone: Iterable[Running]) -> None:
        """Remove `gone` in place of all from `at` on: the first of them pays what is owed."""
        for release in reversed(self.released[at:]):
            self.need.withdraw(release)
        self.released[at:] = [self.need.release(running) for running in gone]


def yields_to(draft: Draft, running: Running, gang: Gang, shape: Shape) -> bool:
    """
    Whether `running` may be preempted for `gang`, which is not within its project's share.

    Inside one project, a lower priority yields to a higher one, and a grown gang yields to any gang
    of its priority: it starts again with fewer replicas, if no spent budget prevents that. Under
    the preemption policy `order`, a gang that is later in the order and has had its turn yields: of
    the same project, or a borrower of another.
    """
    policy = draft.parts.preemption
    is_own = running.project == gang[0].project
    if policy.outranks and is_own:
        if running.priority > shape.priority:
            return True
        is_equal = running.priority == shape.priority
        if is_equal and running.is_grown and draft.may_return(running):
            return True
    if not policy.follows_order or not (is_own or running.is_borrowed):
        return False
    # Without turns, jobs that alternate, such as under `las`, would stop each other at every event.
    has_run = running.has_run_for(draft.options.min_runtime_s, draft.now)
    if not (has_run or running.name in draft.starting):
        return False
    return draft.rank(tuple(running.jobs)) > draft.rank(gang)


def is_legal(
    draft: Draft, running: Running, gang: Gang, shape: Shape, *, within_share: bool
) -> bool:
    """Whether `running` may be stopped for `gang` at all."""
    if within_share and running.project != gang[0].project:
        return draft.is_open_to(running, gang[0].project)
    return yields_to(draft, running, gang, shape)


def gives_way(
    draft: Draft,
    running: Running,
    gang: Gang,
    shape: Shape,
    asked: Amounts,
    *,
    within_share: bool = True,
) -> bool:
    """Whether it `is_legal`, and `asked` is within the share on which both projects meet."""
    quota, shares, project = draft.snapshot.quota, draft.shares, gang[0].project
    if not is_legal(draft, running, gang, shape, within_share=within_share):
        return False
    if running.project == project or not quota.groups or not asked:
        return True
    with shares.without(standing=draft.departing(firm=True).sums):
        return apart(quota, project, running.project)[-1].name in shares.holding(project, asked)
