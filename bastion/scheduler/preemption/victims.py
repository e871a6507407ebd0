"""
Victims: the gangs to preempt so that one gang can start as a whole, placement included.

Devices of gangs that are being stopped already cost nothing, so they are counted in first. Then
victims are added one by one until the gang fits. At the end each victim that the gang does not
need is spared, in reverse order: the set is inclusion-minimal. All of it is a trial on the cycle's
own capacity, undone before anything is decided.

It must not know which gang is next, nor which victims are legal: both are arguments.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import chain

from bastion.scheduler.placement.capacity import Capacity
from bastion.scheduler.placement.place import Placed
from bastion.scheduler.preemption.harm import borrowers_of
from bastion.scheduler.preemption.lack import Lack
from bastion.scheduler.preemption.need import Need, Reach
from bastion.scheduler.preemption.pending import Pending
from bastion.scheduler.queue.order import Gang
from bastion.scheduler.queue.shape import Shape
from bastion.scheduler.state.departing import Departing
from bastion.scheduler.state.draft import Draft
from bastion.scheduler.state.footprint import Footprint, pairs_of
from bastion.scheduler.state.release import Release
from bastion.scheduler.state.running import Running
from bastion.value import value
from quota.amounts import Amounts
from quota.ledger import apart

SEARCH_STEPS = 1
"""A search costs so many steps, beside those for each gang that it lets go."""

PASSED_OVER = 8
"""Gangs that a search looks at and passes over in the time of one step."""

Allows = Callable[[Amounts, Sequence[Running]], bool]
"""Whether a gang may be charged so much once they have gone."""


@value
class Found:
    """Where a gang will lie once `victims` and those already ending have gone."""

    placed: Placed
    victims: tuple[Running, ...]
    ending: tuple[Running, ...]
    """Those already being stopped whose devices it needs."""
    departing: Iterable[Running]
    """All that were taken to be gone: it may need their room in the tiers or the quota. Once."""


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
    The least harm that lets a gang of `shape` start, or None when even all of `legal` are too few.

    Args:
        draft: Unchanged when this returns.
        shape: What the gang asks for.
        legal: What may be stopped for it, in the order in which to try them.
        allows: Whether the quota lets it be charged so much once these victims have gone.
        guaranteed: From which end the tiers are filled.
        going: What will have gone too, beside those already being stopped.
        staying: Those of these that will not have, unless they are among the victims.
        may_stop: Whether one may be among `legal`, where that is known: then only those are let
            go with which a machine may have room for one replica more.
    """
    capacity = draft.capacity
    capacity.begin()
    departing = draft.departing(firm=guaranteed)
    draft.search.effort.spend(SEARCH_STEPS + len(departing.useful) // PASSED_OVER)
    but = set(staying)
    more = {running: None for running in going if running in but or running not in departing}

    def is_leaving(running: Running) -> bool:
        is_one = draft.is_departing(running, firm=guaranteed) and running not in but
        return is_one or running in more

    try:
        gone = _leave(draft, shape, departing, is_leaving, more)
        need = Need(draft, shape, guaranteed=guaranteed)
        search = _Search(draft, need, allows, is_leaving, gone)
        victims = None
        is_known = False
        if may_stop is not None and need.is_for_devices and search.may_cost(shape.asked):
            looked_at: list[Running] = []
            need.reach = Reach(draft, need.parts[0], may_stop)
            search.pending = Pending(Lack(capacity, need.parts[0].part))
            capacity.begin()
            victims = search.victims(_noted(legal, looked_at))
            is_known = not need.reach.is_in_doubt
            if is_known:
                capacity.agree()
            else:
                capacity.undo()
                need = Need(draft, shape, guaranteed=guaranteed)
                search = _Search(draft, need, allows, is_leaving, gone)
                legal = chain(looked_at, legal)
        if not is_known:
            victims = search.victims(legal)
        if victims is None:
            return None
        # Victims that are named and not told to stop yet may still be spared.
        search.do_without(r for running, r in gone.items() if running.name in draft.doomed)
        placed = draft.try_place(shape, search.may_cost, guaranteed=guaranteed)
        assert placed is not None, "it fitted when the last victim was spared"
    finally:
        capacity.undo()
    wanted = Footprint(pairs_of(shape.parts, placed.placements))
    ending = tuple(running for running in draft.holders(wanted) if is_leaving(running))
    all_gone = chain((running for running in departing if running not in but), more)
    return Found(placed=placed, victims=victims, ending=ending, departing=all_gone)


def _noted(legal: Iterable[Running], looked_at: list[Running]) -> Iterator[Running]:
    for running in legal:
        looked_at.append(running)
        yield running


def _leave(
    draft: Draft,
    shape: Shape,
    departing: Departing,
    is_leaving: Callable[[Running], bool],
    more: Collection[Running],
) -> dict[Running, Release]:
    """
    Let those of `departing` and `more` go that are leaving, but for those that leave nothing.

    Most of them leave what is promised already, on machines where nothing is free: whether they
    are there makes a difference only once another goes from there.
    """
    if shape.takes_whole or not all(part.devices for part in shape.parts):
        going = [running for running in departing if is_leaving(running) and running not in more]
        return {running: Release(draft.capacity, running) for running in (*going, *more)}
    capacity, near, machines = draft.capacity, _Near(draft.capacity, shape), set[str]()
    useful, far = set[Running](), set[Running]()
    for running in [*departing.useful, *more]:
        wanted = running.footprint
        if not near.has_any(wanted.masks):
            if not running.is_spent:
                far.add(running)
            continue
        opens = wanted.opens(capacity)
        if opens or wanted.whole or not running.is_spent:
            useful.add(running)
            machines.update(filter(near.has, opens))
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
    return {running: Release(capacity, running, is_far=running in far) for running in going}


class _Near:
    """The machines where some of `shape` could lie."""

    def __init__(self, capacity: Capacity, shape: Shape) -> None:
        self._rooms = capacity.by_name
        self._scopes = [capacity.scope_of(part) for part in shape.parts]

    def has(self, machine: str) -> bool:
        """Whether `machine` is one of them."""
        room = self._rooms.get(machine)
        return room is not None and any(scope.has(room) for scope in self._scopes)

    def has_any(self, machines: Iterable[str]) -> bool:
        """Whether any of `machines` is."""
        return any(map(self.has, machines))


class _Search:
    """Lets go, and spares again."""

    def __init__(
        self,
        draft: Draft,
        need: Need,
        allows: Allows,
        is_leaving: Callable[[Running], bool],
        gone: Iterable[Running],
    ) -> None:
        self.draft = draft
        self.need = need
        self.allows = allows
        self.is_leaving = is_leaving
        self.gone = set(gone)
        """Those of the departing that were let go already."""
        self.released: list[Release] = []
        self._passed_over = 0
        self.pending: Pending | None = None
        """What is only counted; None where each is let go at once."""

    def may_cost(self, units: Amounts) -> bool:
        """Whether the quota lets it be charged `units` once those let go have gone."""
        return self.allows(units, [each.running for each in self.released])

    def _is_enough(self) -> bool:
        shape = self.need.shape
        if not self.need.may_fit():
            return False
        if (shape.asked or not shape.takes_whole) and not self.may_cost(shape.asked):
            return False
        return self.need.fits(self.may_cost)

    def victims(self, legal: Iterable[Running]) -> tuple[Running, ...] | None:
        """Those of `legal` that the gang needs gone; None where all of them are too few."""
        return self.spare() if self.let_go(legal) else None

    def let_go(self, legal: Iterable[Running]) -> bool:
        """Whether the gang fits once enough of `legal` are gone."""
        if self._is_enough():
            return True
        for running in legal:
            if not self.need.is_helped_by(running):
                self._pass_over()
            elif self._leave(running) and self._is_enough():
                return True
        return False

    def _leave(self, running: Running) -> bool:
        """Let `running` go; whether that makes a difference yet."""
        if self.pending is None:
            self._leave_with(running)
            self.released.append(self.need.release(running))
            return True
        going = self.pending.let_go(running)
        self._pass_over()
        for each in going:
            self._leave_with(each)
            insort(self.released, self.need.release(each), key=self._number)
        return bool(going)

    def _pass_over(self) -> None:
        self._passed_over += 1
        if self._passed_over % PASSED_OVER == 0:
            self.draft.search.effort.spend()

    def _number(self, release: Release) -> int:
        assert self.pending is not None
        return self.pending.number(release.running)

    def _leave_with(self, running: Running) -> None:
        """Release first what leaves the machines of `running` anyway."""
        for machine in running.footprint.masks:
            for other in self.draft.on(machine):
                if self.is_leaving(other) and other not in self.gone:
                    self.gone.add(other)
                    self.need.release(other)

    def spare(self) -> tuple[Running, ...]:
        """Spare each victim that is not needed, and return the rest, the last one added first."""
        for at in reversed(range(len(self.released) - 1)):
            release = self.released[at]
            if release.pays:
                gone = [each.running for each in self.released[at:]]
                self._instead(at, gone[1:])
                if not self._is_enough():
                    self._instead(at, gone)
                continue
            self.need.withdraw(release)
            del self.released[at]
            if not self._is_enough():
                self.need.again(release)
                self.released.insert(at, release)
        return tuple(release.running for release in self.released)

    def do_without(self, gone: Iterable[Release]) -> None:
        """Leave out of the count those of `gone` that it need not wait for."""
        for release in gone:
            self.need.withdraw(release)
            if not self._is_enough():
                self.need.again(release)

    def _instead(self, at: int, gone: Iterable[Running]) -> None:
        """Let `gone` go in place of all from `at` on: the first of them pays what is owed."""
        for release in reversed(self.released[at:]):
            self.need.withdraw(release)
        self.released[at:] = [self.need.release(running) for running in gone]


def borrowers_for(draft: Draft, project: str, asked: Amounts) -> Iterator[Running]:
    """
    Borrowers that may be stopped for a gang of `project`, in the order in which to let them go.

    First those of its own group, then those of the group around that, as far as `asked` is within
    the share there. Among equals first from the project that is furthest above its share, counted
    again after each; then the least work lost, those preempted lately last; then the newest.
    """
    others = [name for name in draft.borrowers if name != project]
    quota, shares = draft.snapshot.quota, draft.shares
    if not quota.groups:
        yield from _furthest_above_first(draft, project, others)
        return
    gone = list(draft.departing(firm=True))
    for node in quota.chain(project):
        near = [name for name in others if apart(quota, project, name)[-1] is node]
        if not near:
            continue
        with shares.without(gone):
            is_within = not asked or node.name in shares.holding(project, asked)
        for running in _furthest_above_first(draft, project, near) if is_within else ():
            gone.append(running)
            yield running


def _furthest_above_first(draft: Draft, project: str, others: Iterable[str]) -> Iterator[Running]:
    quota, shares = draft.snapshot.quota, draft.shares
    weight, excess = shares.weight, shares.excess
    lines = {name: _least_lost_first(draft, name, project) for name in others}
    nodes = {name: [name] for name in lines}
    if quota.groups:
        nodes = {name: [n.name for n in reversed(apart(quota, name, project))] for name in lines}
    above: dict[str, Amounts] = {}
    """What those have above their share of which any is let go."""

    def depth(node: str) -> float:
        return -(weight(above[node]) if node in above else excess(node))

    def order(name: str) -> tuple[tuple[float, ...], str]:
        return tuple(map(depth, nodes[name])), name

    heap = [order(name) for name in lines]
    heapify(heap)
    while heap:
        known, name = heappop(heap)
        if quota.groups and order(name)[0] != known:  # its group is less far above than it was
            heappush(heap, order(name))
            continue
        running = next(lines[name], None)
        if running is None:
            continue
        yield running
        for node in nodes[name]:
            before = above[node] if node in above else shares.above_share(node)
            above[node] = before - running.held
        heappush(heap, order(name))


def _least_lost_first(draft: Draft, project: str, asking: str) -> Iterator[Running]:
    """Borrowers of `project` that `asking` may stop, and no other stops."""
    for running in borrowers_of(draft, project):
        if draft.is_open_to(running, asking):
            yield running


def reclaims_from(draft: Draft, project: str, other: str, asked: Amounts) -> bool:
    """Whether `asked` is within the share on which `project` takes back what `other` borrowed."""
    quota, shares = draft.snapshot.quota, draft.shares
    if not quota.groups or not asked:
        return True
    with shares.without(draft.departing(firm=True)):
        return apart(quota, project, other)[-1].name in shares.holding(project, asked)


def yields_to(draft: Draft, running: Running, gang: Gang, shape: Shape) -> bool:
    """
    Whether `running` may be preempted for `gang`, which is not within its project's share.

    Inside one project, a lower priority for a higher one, and a grown gang for any of its priority:
    it starts again with fewer replicas. Under the preemption policy `order`, a gang that is later
    in the order and has had its turn: of the same project, or a borrower of another.
    """
    policy = draft.parts.preemption
    is_own = running.project == gang[0].project
    if policy.outranks and is_own:
        if running.priority > shape.priority:
            return True
        if running.is_grown and running.priority == shape.priority:
            return True
    if not policy.follows_order or not (is_own or running.is_borrowed):
        return False
    if not _has_had_its_turn(draft, running):
        return False
    return draft.rank(tuple(running.jobs)) > draft.rank(gang)


def _has_had_its_turn(draft: Draft, running: Running) -> bool:
    """
    Whether it has run for its least time, or has not begun.

    Else jobs that take turns, as under `las`, would stop one another at every event.
    """
    turn_s = draft.options.min_runtime_s
    return running.name in draft.starting or draft.now >= running.started_at + turn_s


def is_legal(
    draft: Draft, running: Running, gang: Gang, shape: Shape, *, within_share: bool
) -> bool:
    """Whether `running` may be stopped for `gang` at all."""
    if within_share and running.project != gang[0].project:
        return draft.is_open_to(running, gang[0].project)
    return yields_to(draft, running, gang, shape)
