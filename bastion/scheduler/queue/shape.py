"""
What a gang asks for, computed once for every distinct request.

Thousands of waiting jobs ask for the same thing. Everything that follows from the request alone is
a `Shape`, which all of them share and which is kept from cycle to cycle.

This module must not know which jobs ask, nor what exists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, islice, permutations
from typing import TypeVar

from bastion.job import JobRecord
from bastion.spec.request import Request
from bastion.spec.where import Where
from quota.amounts import Amounts
from quota.options import SchedulerOptions
from quota.tree import Quota

T = TypeVar("T")

ORDERS = 6
"""The most orders in which the parts of a gang are tried: all of them for three kinds."""

COUNTED = frozenset({"cpu", "memory"})
"""Types without devices: allocated by amount, not by index."""
MOST_BEST_EFFORT = 32
"""Replicas that ask for nothing, per machine. Source: docs/explanation/scheduling.md."""
BEST_EFFORT = ""
"""The type used to search for replicas that ask for nothing, as if each asked for one of it."""


class Part:
    """What one job of a gang asks for: `replicas` times the same."""

    def __init__(self, request: Request, quota: Quota, *, resumes: bool) -> None:
        self._set_times(request, quota, resumes=resumes)
        self.replicas = request.replicas
        self.hosts = request.hosts
        self.where: Where = request.where
        self.per_replica = request.per_replica
        self.exclusive = request.where.exclusive
        items = request.per_replica.items()
        self.devices = tuple((t, n) for t, n in items if t not in COUNTED)
        self.counts = tuple((t, n) for t, n in items if t in COUNTED)
        self.counts_of_host = tuple((t, -(-n // self.hosts)) for t, n in self.counts)
        """What one machine provides, where a replica takes a slice."""
        self.capped = tuple((t, n) for t, n in items if t in quota.types)
        self.charged = request.per_replica.only(quota.types)
        """One replica, where it takes no whole machine."""
        self.asks_nothing = not items and not self.exclusive
        nothing = (BEST_EFFORT, int(self.asks_nothing))
        self.leading: tuple[str, int] = (self.devices or self.counts or (nothing,))[0]
        """The type, and how much of it, used to search machines."""
        self.takes_whole = self.exclusive or self.hosts > 1
        """Whether it takes, and is charged for, whole machines."""
        self.is_plain = bool(self.devices) and not self.takes_whole
        """Whether it asks for devices of machines that it shares."""

    def _set_times(self, request: Request, quota: Quota, *, resumes: bool) -> None:
        self.max_runtime_s = request.max_runtime_s
        self.grace_s = grace_of(request, quota.scheduler)
        self.resumes = resumes
        """Whether it continues after it was stopped."""

    def at_times_of(self, request: Request, quota: Quota, *, resumes: bool) -> Part:
        """Return the same room, for as long as `request` says."""
        made = _like(self)
        made._set_times(request, quota, resumes=resumes)
        return made

    def at(self, where: Where) -> Part:
        """Return the same part with other filters."""
        made = _like(self)
        made.where = where
        return made

    @property
    def ease(self) -> tuple[bool | int, ...]:
        """A sort key: lower is harder to place."""
        return -self.hosts, *_width(self.where), not self.exclusive, -self.leading[1]

    def most_on(self, size: Amounts) -> int:
        """Return how many replicas fit on an empty machine of that size; a slice holds one."""
        if self.hosts > 1:
            return int(self.per_replica <= size)
        fits = (size[t] // n for t, n in (*self.devices, *self.counts))
        return min(fits, default=MOST_BEST_EFFORT if self.asks_nothing else self.replicas)


class Shape:
    """What a whole gang asks for."""

    def __init__(
        self, requests: Sequence[Request], quota: Quota, form: int, *, resumes: bool
    ) -> None:
        self.form = form
        """Equal for shapes that need the same room: they differ at most in priority and times."""
        self.parts = parts = tuple(Part(request, quota, resumes=resumes) for request in requests)
        self.orders = _orders(parts)
        """Indices of its parts, the hardest to place first; then other orders to try."""
        self.units = Amounts.sum(request.units for request in requests)
        self.asked = self.units.only(quota.types)
        """Of the types under quota; a lower bound where whole machines are taken."""
        self.borrows = all(request.borrow for request in requests)
        """Whether it may start beyond its project's share; the project may forbid it as well."""
        self.takes_whole = any(part.takes_whole for part in parts)
        """Whether any part of it takes, and is charged for, whole machines."""
        self.wheres = tuple(part.where for part in parts)
        self.same = max(part.where.same for part in parts)
        """The label, or `pool`, that must be equal on all its machines; one for a launch."""
        self._inside: dict[tuple[tuple[str, str], ...], Shape | None] = {}
        self.replicas = sum(part.replicas for part in parts)
        """The sum over all its jobs; for an elastic gang, the minimum."""
        self.is_single = self.replicas == 1 and not self.takes_whole
        """Whether it is one replica that shares its machine: it cannot be placed partially."""
        self._set_times(requests, resumes=resumes)

    def _set_times(self, requests: Sequence[Request], *, resumes: bool) -> None:
        self.resumes = resumes
        """Whether all of it continues after it was stopped."""
        self.priority = min([request.priority for request in requests])
        known = [part.max_runtime_s for part in self.parts if part.max_runtime_s is not None]
        self.max_runtime_s = max(known) if len(known) == len(self.parts) else None
        """How long all of it may run; None if any part has no limit."""
        self.grace_s = max([part.grace_s for part in self.parts])
        self.most = max(self.replicas, requests[0].most) if len(requests) == 1 else self.replicas
        """The maximum replicas to which it may grow: only a gang of one job may grow."""
        self.may_grow = self.most > self.replicas

    def at_times_of(self, requests: Sequence[Request], quota: Quota, *, resumes: bool) -> Shape:
        """Return the same room, with the priority of `requests` and for as long as they say."""
        made = _like(self)
        each = zip(self.parts, requests)
        made.parts = tuple([part.at_times_of(r, quota, resumes=resumes) for part, r in each])
        made._inside = {}
        made._set_times(requests, resumes=resumes)
        return made

    def inside(self, block: Mapping[str, str]) -> Shape | None:
        """Return the same shape inside `block`, whose labels must match; None if filters differ."""
        key = tuple(block.items())
        if key not in self._inside:
            self._inside[key] = self._made_inside(key)
        return self._inside[key]

    def _made_inside(self, block: Sequence[tuple[str, str]]) -> Shape | None:
        parts = []
        for part in self.parts:
            where: Where | None = part.where
            for label, text in block:
                where = where and where.where_it_is(label, text)
            if where is None:
                return None
            parts.append(part.at(where))
        made = _like(self)
        made.parts, made.wheres = tuple(parts), tuple(part.where for part in parts)
        return made

    @cached_property
    def scarce(self) -> frozenset[str]:
        """The device types that it asks for; all of its types if it asks for no devices."""
        return self.types - COUNTED or self.types

    @cached_property
    def types(self) -> frozenset[str]:
        """Every type that it asks for."""
        return frozenset(self.units.types())


def _like(each: T) -> T:
    """Return a copy; `copy.copy` takes four times as long."""
    made = object.__new__(type(each))
    made.__dict__.update(each.__dict__)
    return made


def grace_of(request: Request, options: SchedulerOptions) -> float:
    """Return the seconds between notice and kill: as asked, at most what the admin allows."""
    asked = options.grace_s if request.grace_s is None else request.grace_s
    return min(asked, options.max_grace_s)


def _width(where: Where) -> tuple[bool, int, int]:
    """Return how few machines the filters leave, as far as they say it; lower means fewer."""
    filters = [where.pool, where.shard, where.cluster, *where.labels]
    return not where.hostnames, len(where.hostnames), -sum(map(bool, filters))


def _orders(parts: Sequence[Part]) -> tuple[tuple[int, ...], ...]:
    """Return the orders of parts to try; the order of equal parts does not matter."""
    if len(parts) == 1:
        return ((0,),)
    kinds: dict[tuple[object, ...], list[int]] = {}
    for index in sorted(range(len(parts)), key=lambda index: parts[index].ease):
        part = parts[index]
        kinds.setdefault((part.where, part.hosts, part.per_replica), []).append(index)
    ways = islice(permutations(kinds.values()), ORDERS)
    return tuple(tuple(chain.from_iterable(each)) for each in ways)


class Shapes:
    """The shapes of one quota file: equal requests share one."""

    def __init__(self, quota: Quota) -> None:
        self._quota = quota
        self._last: tuple[Request, bool, Shape] | None = None
        """The last request of a single job, and its shape: tasks of an array share it."""
        self._by_value: dict[tuple[object, ...], Shape] = {}
        self._forms: dict[tuple[object, ...], Shape] = {}
        """The first shape of every form, by the room that it needs."""

    def __len__(self) -> int:
        return len(self._by_value)

    def of(self, gang: Sequence[JobRecord]) -> Shape:
        """Return the shape of `gang`."""
        if len(gang) > 1:
            requests = tuple(job.request for job in gang)
            return self._of(requests, resumes=all(job.resume for job in gang))
        job = gang[0]
        request, resumes, last = job.request, job.resume, self._last
        if last is not None and last[0] is request and last[1] is resumes:
            return last[2]
        found = self._of((request,), resumes=resumes)
        self._last = request, resumes, found
        return found

    def if_filtered(self, gang: Sequence[JobRecord], other: Callable[[Where], Where]) -> Shape:
        """Return what `gang` would ask for with filters `other` instead of its own."""
        requests = tuple(replace(j.request, where=other(j.request.where)) for j in gang)
        return self._of(requests, resumes=all(job.resume for job in gang))

    def one_more(self, gang: Sequence[JobRecord]) -> Shape:
        """Return what one more replica of the elastic `gang` asks for."""
        request = replace(gang[0].request, replicas=1, max_replicas=0)
        return self._of((request,), resumes=gang[0].resume)

    def _of(self, requests: tuple[Request, ...], *, resumes: bool) -> Shape:
        keys = _key(requests[0]) if len(requests) == 1 else tuple(map(_key, requests))
        key = *keys, resumes
        found = self._by_value.get(key)
        if found is None:
            found = self._by_value[key] = self._made(requests, resumes=resumes)
        return found

    def _made(self, requests: tuple[Request, ...], *, resumes: bool) -> Shape:
        room: tuple[object, ...] = tuple([_room(request) for request in requests])
        if self._quota.maintenance:  # then it matters how long it would stay
            room = (*room, *((r.max_runtime_s, r.grace_s) for r in requests), resumes)
        first = self._forms.get(room)
        if first is not None:
            return first.at_times_of(requests, self._quota, resumes=resumes)
        made = Shape(requests, self._quota, len(self._forms), resumes=resumes)
        self._forms[room] = made
        return made


def _key(request: Request) -> tuple[object, ...]:
    """Return a key, equal for equal requests and faster to compare, since few have filters."""
    where = request.where
    is_plain = where.is_anywhere and not where.exclusive
    return (
        request.replicas,
        request.per_replica.items(),
        request.hosts,
        None if is_plain else where,
        request.borrow,
        request.max_replicas,
        request.priority,
        request.max_runtime_s,
        request.grace_s,
    )


def _room(request: Request) -> tuple[object, ...]:
    """Return a key, equal for requests that need the same room."""
    return _key(request)[:5]
