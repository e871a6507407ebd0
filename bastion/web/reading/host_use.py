"""
What one host of an attempt used over its run: its samples, reduced for drawing.

A run of months has thousands of segments, and a job may write anything in their place. Therefore
only the newest are read, each is reduced as it is read, and the result is bounded.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from itertools import chain
from threading import Lock
from typing import TypeVar

from bastion.client.look.usage import segment_at
from bastion.clock import Clock
from bastion.records.keys import layout
from bastion.records.reports.usage import UsageSegment
from bastion.store.port import ObjectStore
from bastion.utilisation import Utilisation, summed
from bastion.value import value

MOST_SEGMENTS = 240
"""The newest ones; four days of a long run."""
MOST_DEVICES = 16
POINTS = 240
"""Of a chart."""
KEPT_S = 15.0
"""A page and its charts share one read."""
MOST_KEPT = 8
_POINTS = 12
"""Of one segment."""
_READERS = 12
_PAGE = 1000
_LOCKS = 8
_MOST_NUMBER = 1e15
"""A larger value, or infinity, was never measured."""

Column = tuple[float | None, ...]


@value
class DeviceSum:
    """One device over the whole run, as far as its samples were read."""

    index: int
    used: Utilisation
    memory_bytes: int = 0
    """The highest value."""


@value
class Points:
    """Some samples; every column is as long as `at`. None: unknown."""

    at: tuple[float, ...] = ()
    used: Mapping[int, Column] = field(default_factory=dict)
    """Device by index -> 0 to 1."""
    device_memory: Mapping[int, Column] = field(default_factory=dict)
    """In bytes, as all memory here."""
    cores: Column = ()
    memory: Column = ()
    disk: Column = ()
    """Read and written, in bytes per second."""
    network: Column = ()


@value
class HostUseOverTime:
    """What a host used."""

    points: Points
    devices: tuple[DeviceSum, ...]
    all_devices: Utilisation
    samples: int
    is_cut: bool
    """Whether older samples were omitted."""


@value
class _Reduced:
    points: Points
    percents: Mapping[int, Counter[int]]
    memory_mib: Mapping[int, int]
    samples: int
    cores: float
    most_memory_mib: int


_T = TypeVar("_T")
HostKey = tuple[str, str, int, int, int]
"""Project, job, attempt, replica and host."""


class HostUseReader:
    """
    Reads the samples of hosts.

    Args:
        store: The bucket; called once per read, without retries.
        clock: For how long an answer is kept.
    """

    def __init__(self, store: ObjectStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._locks = tuple(Lock() for _ in range(_LOCKS))
        self._kept: OrderedDict[HostKey, tuple[float, HostUseOverTime | None]] = OrderedDict()

    def of(self, key: HostKey) -> HostUseOverTime | None:
        """
        Return what a host used; None if it left no sample.

        Raises:
            StoreError: Unreachable.
        """
        with self._locks[hash(key) % _LOCKS]:
            found = self._kept.get(key)
            now = self._clock.monotonic()
            if found is not None and now - found[0] < KEPT_S:
                return found[1]
            use = self._read(key)
            self._kept[key] = now, use
            self._kept.move_to_end(key)
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
            return use

    def _read(self, key: HostKey) -> HostUseOverTime | None:
        project, job, attempt, replica, host = key
        prefix = layout.usage(project, job, attempt, replica=replica, host=host)
        keys: list[str] = []
        after = ""
        while page := self._store.list(prefix, start_after=after, limit=_PAGE):
            keys += [entry.key for entry in page if layout.parse_usage(entry.key) is not None]
            after = page[-1].key
            if len(page) < _PAGE:
                break
        newest = keys[-MOST_SEGMENTS:]

        def reduced(key: str) -> _Reduced | None:
            segment = segment_at(self._store, key)
            return _reduced(segment) if segment is not None and segment.at else None

        if len(newest) < 3:
            read = [reduced(key) for key in newest]
        else:
            with ThreadPoolExecutor(_READERS, thread_name_prefix="samples") as readers:
                read = list(readers.map(reduced, newest))
        parts = [part for part in read if part is not None]
        return _joined(parts, is_cut=len(newest) < len(keys)) if parts else None


def _reduced(segment: UsageSegment) -> _Reduced:
    indices = sorted((int(name), name) for name in segment.used if name.isdecimal())[:MOST_DEVICES]
    n = len(segment.at)
    size = -(-n // _POINTS)
    memory = {index: segment.device_memory_mib.get(name, ()) for index, name in indices}
    points = Points(
        at=tuple(float(rows[0]) for rows in _parts(segment.at, size)),
        used={i: _means(segment.used[name], size, n, by=100.0) for i, name in indices},
        device_memory={i: _means(column, size, n, by=2**-20) for i, column in memory.items()},
        cores=_means(segment.cores, size, n),
        memory=_means(segment.memory_mib, size, n, by=2**-20),
        disk=_means(segment.disk_kib_s, size, n, by=2**-10),
        network=_means(segment.network_kib_s, size, n, by=2**-10),
    )
    return _Reduced(
        points=points,
        percents={
            i: Counter(min(percent, 100) for percent in segment.used[name] if percent >= 0)
            for i, name in indices
        },
        memory_mib={i: _most(column) for i, column in memory.items()},
        samples=n,
        cores=sum(number for number in segment.cores if 0 <= number <= _MOST_NUMBER),
        most_memory_mib=_most(segment.memory_mib),
    )


def _means(column: Sequence[float], size: int, n: int, *, by: float = 1.0) -> Column:
    """Return the means of each `size` values divided by `by`; a negative mean is unknown."""
    if len(column) != n:
        return (None,) * -(-n // size)
    means: list[float | None] = []
    for part in _parts(column, size):
        known = [number for number in part if 0 <= number <= _MOST_NUMBER]
        means.append(sum(known) / len(known) / by if known else None)
    return tuple(means)


def _joined(parts: Sequence[_Reduced], *, is_cut: bool) -> HostUseOverTime:
    indices = sorted({index for part in parts for index in part.percents})[:MOST_DEVICES]
    percents: dict[int, Counter[int]] = {index: Counter() for index in indices}
    memory = dict.fromkeys(indices, 0)
    for part in parts:
        for index in indices:
            percents[index] += part.percents.get(index, Counter())
            memory[index] = max(memory[index], part.memory_mib.get(index, 0))
    every = [part.points for part in parts]
    n = sum(len(points.at) for points in every)
    size = max(1, -(-n // POINTS))

    def table(name: str) -> Mapping[int, Column]:
        tables = [(getattr(points, name), len(points.at)) for points in every]
        return {
            index: _thin((found.get(index) or (None,) * length for found, length in tables), size)
            for index in indices
        }

    samples = sum(part.samples for part in parts)
    return HostUseOverTime(
        points=Points(
            at=tuple(at for points in every for at in points.at)[::size],
            used=table("used"),
            device_memory=table("device_memory"),
            cores=_thin((points.cores for points in every), size),
            memory=_thin((points.memory for points in every), size),
            disk=_thin((points.disk for points in every), size),
            network=_thin((points.network for points in every), size),
        ),
        devices=tuple(
            DeviceSum(index=i, used=summed(percents[i]), memory_bytes=memory[i] << 20)
            for i in indices
        ),
        all_devices=summed(
            sum(percents.values(), Counter()),
            cores=sum(part.cores for part in parts) / samples,
            memory_bytes=max(part.most_memory_mib for part in parts) << 20,
        ),
        samples=samples,
        is_cut=is_cut,
    )


def _thin(columns: Iterable[Column], size: int) -> Column:
    """Return one column of all `columns`, with each `size` values as their mean."""
    means: list[float | None] = []
    for part in _parts(tuple(chain.from_iterable(columns)), size):
        known = [number for number in part if number is not None]
        means.append(sum(known) / len(known) if known else None)
    return tuple(means)


def _parts(column: Sequence[_T], size: int) -> Iterator[Sequence[_T]]:
    for first in range(0, len(column), size):
        yield column[first : first + size]


def _most(column: Sequence[int]) -> int:
    return max((number for number in column if 0 <= number <= _MOST_NUMBER / 2**20), default=0)
