"""
What could ever be had: everything free and healthy, and every possible machine created.

This module must not know what is in use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain

from bastion.machine import Machine, MachinePhase
from bastion.scheduler.placement.blocks import same_of
from bastion.scheduler.placement.candidates import PlacementPolicy
from bastion.scheduler.placement.capacity import Capacity
from bastion.scheduler.placement.place import Placed, cheapest
from bastion.scheduler.placement.room import Room, Shelf
from bastion.scheduler.placement.scope import Scope, can_make
from bastion.scheduler.queue.shape import MOST_BEST_EFFORT, Part, Shape
from bastion.scheduler.reasons.reason import NeverFits, NoMachineMatches
from bastion.scheduler.snapshot import Snapshot
from bastion.spec.where import CONTAINERS, POOL, Where
from quota.amounts import NOTHING, Amounts

Beyond = NeverFits | NoMachineMatches


def beyond(
    capacity: Capacity, shape: Shape, extent: Callable[[], Extent], policy: PlacementPolicy
) -> Beyond | None:
    """
    Return why no existing or possible machine holds a gang of `shape`; None if they do.

    The `extent` is made only for gangs that cannot be judged part by part.
    """
    found = unmatched(capacity, shape) or never_fits(capacity, shape)
    same = () if shape.is_single else same_of(shape, policy)
    is_intricate = shape.takes_whole or len(shape.parts) > 1 or same
    if found is None and is_intricate and extent().alone(shape) is None:
        return no_way(capacity, shape, same=same[-1] if same else "")
    return found


def unmatched(capacity: Capacity, shape: Shape) -> NoMachineMatches | None:
    """Return the first filter that leaves no machine, or that there is none at all."""
    for part in shape.parts:
        if not any(_all_sizes(capacity, part)):
            return _first_to_blame(capacity, part.where, hosts=part.hosts)
    return None


def _first_to_blame(capacity: Capacity, where: Where, *, hosts: int) -> NoMachineMatches:
    """Return the first filter that leaves none, trying filters one after the other."""
    sofar: dict[str, object] = {}
    machines = sum(len(_staying(shelf)) + shelf.ever for shelf in capacity.shelves.values())
    filters, empty = filters_of(where), _empty(capacity, where)
    for number, (name, wanted, written) in enumerate(filters, 1):
        sofar[name] = wanted
        tried = where if number == len(filters) else Where(**sofar)  # type: ignore[arg-type]
        left = _count(capacity, tried)
        if not left:
            filtered = written if machines else ""
            return NoMachineMatches(filter=filtered, machines=machines, empty=empty)
        machines = left
    named = _names_of_parts(capacity, where, hosts=hosts)
    return NoMachineMatches(filter=named, machines=machines, hosts=hosts, empty=empty)


def _names_of_parts(capacity: Capacity, where: Where, *, hosts: int) -> str:
    """Return the filter on host names, if it leaves no whole slice of those left by the others."""
    if not where.hostnames or hosts == 1:
        return ""
    others = capacity.scope(replace(where, hostnames=()))
    shelves = (shelf for shelf in chain.from_iterable(others.tiers) if shelf.hosts == hosts)
    if not any(all(map(others.has, rooms)) for s in shelves for rooms in s.slices.values()):
        return ""
    return next(written for name, _, written in filters_of(where) if name == "hostnames")


def filters_of(where: Where) -> list[tuple[str, object, str]]:
    """Return (field, value, as a user writes it) of every filter that is set."""
    found: list[tuple[str, object, str]] = []
    for name in ("cluster", "shard", "pool"):
        if wanted := getattr(where, name):
            found.append((name, wanted, f"{name}={wanted}"))
    if where.same not in ("", POOL):
        found.append(("same", where.same, f"the label {where.same}"))
    if where.hostnames:
        found.append(("hostnames", where.hostnames, f"hostnames={','.join(where.hostnames)}"))
    labels = {label: text for label, text in where.labels.items() if label != CONTAINERS}
    if labels:
        written = ", ".join(f"{label}={text}" for label, text in sorted(labels.items()))
        found.append(("labels", labels, f"labels {written}"))
    if labels != where.labels:
        found.append(("labels", where.labels, CONTAINERS))
    return found


def _count(capacity: Capacity, where: Where) -> int:
    staying = sum(not room.is_leaving for room in capacity.passing(where))
    return staying + sum(s.ever for s in capacity.shelves.values() if can_make(where, s))


def _empty(capacity: Capacity, where: Where) -> tuple[str, ...]:
    """Return pools it may use that have no machine, and may create none or no whole slice."""
    return tuple(
        shelf.name
        for shelf in capacity.shelves.values()
        if can_make(where, shelf) and shelf.ever < shelf.hosts and not _staying(shelf)
    )


def _staying(shelf: Shelf) -> list[Room]:
    """Return machines that stay: those being deleted do not return."""
    return [room for room in shelf.rooms if not room.is_leaving]


class Extent:
    """All machines in order and unused, and what a gang would be given there if it were alone."""

    def __init__(self, snapshot: Snapshot, now: float, policy: PlacementPolicy) -> None:
        machines = {
            name: _in_order(machine)
            for name, machine in snapshot.machines.items()
            if machine.phase is not MachinePhase.DELETING
        }
        quota = replace(snapshot.quota, maintenance=())
        alone = replace(snapshot, quota=quota, machines=machines, stockouts={})
        self._capacity = Capacity(alone, now)
        self._policy = policy
        made = (s.pool.resources for s in self._capacity.shelves.values() if s.pool is not None)
        self._sizes = {*made, *(room.full for room in self._capacity.rooms)}
        self._alone: dict[object, Placed | None] = {}

    def alone(self, shape: Shape) -> Placed | None:
        """
        Return where a gang of `shape` would cost least, and the cost; None if nowhere.

        The result may name other machines and devices of equal cost.
        """
        kind = self._kind_of(shape)
        if kind not in self._alone:
            self._alone[kind] = cheapest(self._capacity, shape, self._policy)
        return self._alone[kind]

    def _kind_of(self, shape: Shape) -> object:
        """Return a key, equal for equal costs: a whole machine counts by its number of replicas."""
        part, *others = shape.parts
        if others or part.hosts > 1 or not part.takes_whole:
            return shape.form
        held = tuple([min(part.replicas, part.most_on(size)) for size in self._sizes])
        return part.replicas, part.where, part.leading[0], held


def _in_order(machine: Machine) -> Machine:
    if machine.accepts and not machine.bad_devices:
        return machine
    ready = MachinePhase.READY
    return replace(machine, phase=ready, cordoned="", draining=False, unwell="", bad_devices={})


def never_fits(capacity: Capacity, shape: Shape) -> NeverFits | None:
    """Return why no future holds it, or None if machines and totals suffice."""
    totals = capacity.quota.totals.only(shape.asked)
    if not shape.asked <= totals:
        return NeverFits(asked=shape.asked, most=totals, of="total")
    for part in shape.parts:
        sizes = [*_all_sizes(capacity, part)]
        holding = [(size, number) for size, number in sizes if part.per_replica <= size]
        types = frozenset(part.per_replica.types())
        if not holding:
            key = part.leading[0]
            largest = max((size for size, _ in sizes), key=lambda size: size[key], default=NOTHING)
            most = largest.only(types)
            return NeverFits(
                asked=part.per_replica, most=most, of="replica", pools=_pools(capacity, (part,))
            )
        slots = sum(number * part.most_on(size) for size, number in holding)
        if slots < part.replicas and part.asks_nothing:
            return no_way(capacity, shape)
        if slots < part.replicas:
            return NeverFits(
                asked=part.replicas * part.per_replica,
                most=Amounts.sum(number * size for size, number in sizes).only(types),
                of="gang",
                replicas=part.replicas,
                fitting=slots,
                pools=_pools(capacity, (part,)),
            )
        if not part.takes_whole and _in_tiers(capacity, part) < part.replicas:
            return no_way(capacity, shape)
    return None


def no_way(capacity: Capacity, shape: Shape, *, same: str = "") -> NeverFits:
    """Return that there is enough of everything, but not where it must be together."""
    is_best_effort = all(part.asks_nothing for part in shape.parts)
    return NeverFits(
        asked=shape.units,
        most=NOTHING,
        of="block" if same else "layout",
        same=same,
        is_own=same == shape.same,
        replicas=shape.replicas if is_best_effort else 0,
        per_machine=MOST_BEST_EFFORT if is_best_effort else 0,
        pools=_pools(capacity, shape.parts),
    )


def _pools(capacity: Capacity, parts: Iterable[Part]) -> tuple[tuple[str, int], ...]:
    """Return pool -> machines it has or may create and a part may use, most first."""
    found = {
        name: shelf.hosts * max(sum(n for _, n in _sizes(capacity, shelf, part)) for part in parts)
        for name, shelf in capacity.shelves.items()
    }
    return tuple(
        sorted(((p, n) for p, n in found.items() if n), key=lambda each: (-each[1], each[0]))
    )


def _in_tiers(capacity: Capacity, part: Part) -> int:
    """Return how many replicas all machines hold, each tier within its total."""
    slots = [0] * capacity.tier_count
    for shelf in _shelves(capacity, part):
        for size, number in _sizes(capacity, shelf, part):
            slots[shelf.tier] += number * part.most_on(size) * (part.per_replica <= size)
    return sum(
        min([most, *(tier.units[t] // n for t, n in part.capped)])
        for most, tier in zip(slots, capacity.quota.tiers)
    )


def _shelves(capacity: Capacity, part: Part) -> Iterable[Shelf]:
    """Return those that pass the filters of `part`: of a hundred pools it may use one."""
    return chain.from_iterable(capacity.scope(part.where).tiers)


def _all_sizes(capacity: Capacity, part: Part) -> Iterator[tuple[Amounts, int]]:
    shelves = _shelves(capacity, part)
    return chain.from_iterable(_sizes(capacity, shelf, part) for shelf in shelves)


def _sizes(capacity: Capacity, shelf: Shelf, part: Part) -> list[tuple[Amounts, int]]:
    """Return (contents of a machine or slice, how many) that exist or could, healthy or not."""
    key = part.where, part.hosts
    if key not in shelf.sizes:
        shelf.sizes[key] = _sizes_of(shelf, part, capacity.scope(part.where))
    return shelf.sizes[key]


def _sizes_of(shelf: Shelf, part: Part, scope: Scope) -> list[tuple[Amounts, int]]:
    if shelf.hosts > 1:
        if part.hosts != shelf.hosts:
            return []
        wholes = [
            Amounts.sum(room.full for room in rooms)
            for rooms in shelf.slices.values()
            if all(scope.has(room) and not room.is_leaving for room in rooms)
        ]
    elif part.hosts > 1:
        return []
    else:
        wholes = [room.full for room in scope.on(shelf) if not room.is_leaving]
    found = list(Counter(wholes).items())
    if shelf.pool is not None and can_make(part.where, shelf) and shelf.ever >= shelf.hosts:
        found.append((shelf.hosts * shelf.pool.resources, shelf.ever // shelf.hosts))
    return found
