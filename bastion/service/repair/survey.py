"""
A survey of a bucket: everything that an audit looks at, read once.

The order of reading matters on a root that lives: what a commit follows is read before root, what
follows a commit after it. What is seen in between may still be half done, so an audit believes only
what two surveys show.

Everything is listed. What was written before a horizon, and belongs to nothing active, is not read:
reading costs as much as all that was ever done here, and a list a thousandth of it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf
from typing import TypeVar

from bastion.errors import NotFoundError, RecordError
from bastion.machine import Batch
from bastion.records import layout
from bastion.records.codec import decode
from bastion.records.registers import ClaimRegister, EndRegister, GoRegister, LifeRegister
from bastion.records.request import Answer, Result, SpecRecord
from bastion.records.root import Event, Root, decode_root
from bastion.store import Entry, ObjectStore
from bastion.value import value
from bundler.lanes import in_lanes

_T = TypeVar("_T")
_PAGE = 1000
_LANES = 16
"""Reads at once: a cloud store takes tens of milliseconds for each, and hundreds at a time."""
_WAY_BACK = "if a bastion ever led here: bastion restore shows what copies there are"

Register = ClaimRegister | EndRegister | GoRegister
_KINDS: Mapping[str, type[Register]] = {
    "claim": ClaimRegister,
    "end": EndRegister,
    "go": GoRegister,
}


@value
class Survey:
    """What stood in the bucket, by what its keys say."""

    root: Root
    now: float
    """The newest time that the store gave anything here."""
    inbox: tuple[Entry, ...] = ()
    segments: Mapping[int, tuple[Event, ...]]
    """Sealed events, by the number of the first."""
    history_from: int
    """The number of the first event that was read, where older ones stand; else 0."""
    lives: Mapping[str, tuple[int, ...]]
    batches: Mapping[tuple[str, int], tuple[int, ...]]
    """Numbers of the batches of instructions, by machine and life."""
    told_since: Mapping[tuple[str, int], float]
    """When the oldest of these batches was written."""
    answers: Mapping[str, Answer]
    """By key."""
    specs: frozenset[tuple[str, str]]
    launches: Mapping[str, SpecRecord]
    """The specs that were read, by key."""
    results: frozenset[tuple[str, str]]
    finals: Mapping[tuple[str, str], Result]
    """The final records that were read."""
    registers: Mapping[str, Register]
    """By key."""
    written: Mapping[str, float]
    """When each answer, spec, final record, register and life was written, by key; read or not."""
    logs: Mapping[str, tuple[tuple[int, int], ...]]
    """(offset, bytes) of every segment, by the prefix of its stream."""
    unread: Mapping[str, str]
    """Objects that hold no such record, and what is wrong with each."""
    seq: int = 0
    """The highest commit that the newest copy of root and the view of status name."""
    epoch: int = 0
    """The same, of epochs."""


def survey(store: ObjectStore, *, since_s: float = inf) -> Survey:
    """
    Read the bucket but for what jobs printed, keep and run.

    Args:
        store: The bucket.
        since_s: Of what belongs to nothing active, read only what was written so long ago or later.

    Raises:
        NotFoundError: It has no root.
        RecordError: Its root cannot be understood.
        StoreError: Out of reach.
    """
    look = _Look(store, since_s)
    inbox = look.all(layout.INBOX)
    segments, history_from = look.segments()
    lives, batches = look.all(layout.MACHINES), look.all(layout.INSTRUCTIONS)
    answers = look.all(layout.ANSWERS)
    read_answers = look.records(look.recent(answers), lambda _: Answer)
    seq, epoch = look.numbers()
    root = look.root()
    specs, results = look.all(layout.SPECS), look.all(layout.RESULTS)
    launches = {(job.project, job.launch) for job in root.jobs.values()}
    launches |= {(array.project, array.id) for array in root.arrays.values()}
    read_specs = look.records(
        look.recent(specs, lambda key: layout.parse_spec(key) in launches), lambda _: SpecRecord
    )
    read_results = look.records(look.recent(results), lambda _: Result)
    look.records(look.recent((*lives, *batches)), _of_machine)
    registers = (*look.all(layout.RUNS), *look.all(layout.BARRIERS))
    read_registers: dict[str, Register] = look.records(
        look.recent(registers, lambda key: _is_active(root, key)), _of_run
    )
    return Survey(
        root=root,
        inbox=inbox,
        segments=segments,
        history_from=history_from,
        lives=_grouped(layout.parse_life(entry.key) for entry in lives),
        batches=_batches([entry.key for entry in batches]),
        told_since=_told_since(batches),
        answers=read_answers,
        specs=_named(specs, layout.parse_spec),
        launches=read_specs,
        results=_named(results, layout.parse_result),
        finals=_by_name(read_results),
        registers=read_registers,
        written={
            entry.key: entry.modified_at
            for entry in (*answers, *specs, *results, *registers, *lives)
        },
        logs=look.logs(),
        unread=look.unread,
        now=max(look.newest_at, root.now),
        seq=seq,
        epoch=epoch,
    )


class _Look:
    """Reads, and remembers what could not be read."""

    def __init__(self, store: ObjectStore, since_s: float) -> None:
        self._store = store
        self.unread: dict[str, str] = {}
        self.newest_at = 0.0
        self._horizon = self.root().now - since_s

    def all(self, prefix: str) -> tuple[Entry, ...]:
        """Every object whose key begins with `prefix`."""
        found: list[Entry] = []
        while page := self._store.list(
            prefix, start_after=found[-1].key if found else "", limit=_PAGE
        ):
            found += page
            if len(page) < _PAGE:
                break
        self.newest_at = max([self.newest_at, *(entry.modified_at for entry in found)])
        return tuple(found)

    def recent(
        self, entries: Iterable[Entry], is_active: Callable[[str], bool] = lambda _: False
    ) -> list[str]:
        """The keys of those that are younger than the horizon, or active."""
        return [
            entry.key
            for entry in entries
            if entry.modified_at >= self._horizon or is_active(entry.key)
        ]

    def segments(self) -> tuple[dict[int, tuple[Event, ...]], int]:
        """The events sealed since the horizon, by the first of each segment, and the first."""
        every = {
            first: entry
            for entry in self.all(layout.EVENTS)
            if (first := layout.parse_events(entry.key)) is not None
        }
        numbers = sorted(every)
        old = sum(every[number].modified_at < self._horizon for number in numbers)
        kept = numbers[max(0, old - 1) :]
        found = {number: self.events(every[number].key) for number in kept}
        return found, kept[0] if len(kept) < len(numbers) else 0

    def root(self) -> Root:
        try:
            found = self._store.read(layout.ROOT)
            assert found is not None
            self.newest_at = max(self.newest_at, found.modified_at)
            return decode_root(found.data)
        except NotFoundError as error:
            raise NotFoundError(f"there is no {layout.ROOT} here", hint=_WAY_BACK) from error
        except RecordError as error:
            raise RecordError(error.message, hint=error.hint or _WAY_BACK) from error

    def events(self, key: str) -> tuple[Event, ...]:
        data = self._data(key)
        if data is None:
            return ()
        if not data:
            self.unread[key] = "there is no event in it"
        try:
            return tuple(decode(Event, line, key=key) for line in data.splitlines())
        except RecordError as error:
            self.unread[key] = error.message
            return ()

    def records(
        self, keys: Iterable[str], kind_of: Callable[[str], type[_T] | None]
    ) -> dict[str, _T]:
        """The records at `keys`, by key; where `kind_of` knows no kind there is none to read."""
        kinds = {key: kind for key in keys if (kind := kind_of(key)) is not None}
        found: dict[str, _T] = {}
        for key, data in zip(kinds, in_lanes(self._data, kinds, lanes=_LANES)):
            try:
                if data is not None:
                    found[key] = decode(kinds[key], data, key=key)
            except RecordError as error:
                self.unread[key] = error.message
        return found

    def logs(self) -> dict[str, tuple[tuple[int, int], ...]]:
        streams: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for entry in self.all(layout.LOGS):
            if layout.parse_log(entry.key) is not None:
                prefix, _, name = entry.key.rpartition("/")
                offset = int(name.removesuffix(".log"))
                streams[f"{prefix}/"].append((offset, entry.size))
        return {prefix: tuple(found) for prefix, found in streams.items()}

    def numbers(self) -> tuple[int, int]:
        """
        The highest commit and epoch that the newest copy of root, and the status, name.

        The copy is read for its own sake too: the day it is needed is a bad day to find it broken.
        """
        keys = [entry.key for entry in self.all(layout.SNAPSHOTS)]
        newest = max(keys, key=lambda key: layout.parse_snapshot(key) or ("", 0), default="")
        data = self._data(newest) if newest else None
        seq, epoch = 0, 0
        if data is not None:
            try:
                copy = decode_root(data, key=newest)
                seq, epoch = copy.seq, copy.epoch
            except RecordError as error:
                self.unread[newest] = error.message
        try:
            status = json.loads(self._data(layout.view("status")) or b"{}")
            return max(seq, int(status.get("seq", 0))), max(epoch, int(status.get("epoch", 0)))
        except (ValueError, TypeError, AttributeError):
            return seq, epoch  # views are published again and again, and nothing depends on them

    def _data(self, key: str) -> bytes | None:
        """What the object holds, or None when it was deleted since it was listed."""
        try:
            found = self._store.read(key)
        except NotFoundError:
            return None
        assert found is not None
        return found.data


def _is_active(root: Root, key: str) -> bool:
    """Whether the register at `key` is one of an active job."""
    name = layout.parse_register(key)
    return name is not None and name.job in root.jobs


def _named(
    entries: Iterable[Entry], parse: Callable[[str], tuple[str, str] | None]
) -> frozenset[tuple[str, str]]:
    """What `parse` makes of these keys; those of which it makes nothing are left out."""
    found = (parse(entry.key) for entry in entries)
    return frozenset(name for name in found if name is not None)


def _by_name(results: Mapping[str, Result]) -> dict[tuple[str, str], Result]:
    named = ((layout.parse_result(key), found) for key, found in results.items())
    return {name: found for name, found in named if name is not None}


def _told_since(entries: Iterable[Entry]) -> dict[tuple[str, int], float]:
    """When the oldest batch of each machine and life was written."""
    found: dict[tuple[str, int], float] = {}
    for entry in entries:
        name = layout.parse_instructions(entry.key)
        if name is not None:
            found[name[:2]] = min(entry.modified_at, found.get(name[:2], entry.modified_at))
    return found


def _of_run(key: str) -> type[Register] | None:
    name = layout.parse_register(key)
    return _KINDS[name.kind] if name is not None else None


def _of_machine(key: str) -> type[LifeRegister] | type[Batch] | None:
    if layout.parse_life(key) is not None:
        return LifeRegister
    return Batch if layout.parse_instructions(key) is not None else None


def _grouped(names: Iterator[tuple[str, int] | None]) -> dict[str, tuple[int, ...]]:
    groups: dict[str, list[int]] = defaultdict(list)
    for name in names:
        if name is not None:
            groups[name[0]].append(name[1])
    return {group: tuple(sorted(numbers)) for group, numbers in groups.items()}


def _batches(keys: list[str]) -> dict[tuple[str, int], tuple[int, ...]]:
    groups: dict[tuple[str, int], list[int]] = defaultdict(list)
    for key in keys:
        name = layout.parse_instructions(key)
        if name is not None:
            groups[name[0], name[1]].append(name[2])
    return {group: tuple(sorted(numbers)) for group, numbers in groups.items()}
