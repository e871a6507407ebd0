"""
A survey of a bucket: everything that an audit needs, read once.

The order of reading matters while a bastion leads: objects that are written before a commit are
read before root, and objects that are written after it are read after root. An object in between
may still be half done, so an audit reports only what two surveys show.

Everything is listed. Objects from before a horizon that belong to nothing active are not read: the
cost of reading all of them grows with the bucket's whole history. Listing costs a thousandth of it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf
from typing import TypeVar

from bastion.errors import NotFoundError, RecordError
from bastion.history.coverage import covered, stored_files
from bastion.history.tables import EVENTS
from bastion.machine import Batch
from bastion.records.coding.codec import decode
from bastion.records.keys import layout
from bastion.records.reports.registers import (
    CheckOutcome,
    ClaimRegister,
    EndRegister,
    GoRegister,
    LifeRegister,
    LongCommand,
)
from bastion.records.requests.answer import Answer
from bastion.records.requests.launch_request import SpecRecord
from bastion.records.requests.result import Result
from bastion.records.root import Event, Root, decode_root
from bastion.store import Entry, ObjectStore
from bastion.value import value
from bundler.lanes import in_lanes

_T = TypeVar("_T")
_PAGE = 1000
_LANES = 16
"""Parallel reads: a cloud store takes tens of milliseconds for each, and serves hundreds."""
_WAY_BACK = "if a bastion ever led here: bastion restore lists the copies"

Register = ClaimRegister | EndRegister | GoRegister
_KINDS: Mapping[str, type[Register]] = {
    "claim": ClaimRegister,
    "end": EndRegister,
    "go": GoRegister,
}


@value
class Survey:
    """The objects of a bucket, grouped by the names in their keys."""

    root: Root
    now: float
    """The newest time that the store gave to any object here."""
    inbox: tuple[Entry, ...] = ()
    segments: Mapping[int, tuple[Event, ...]]
    """Sealed events, by the number of the first."""
    history_from: int
    """The number of the first event that was read, if older ones exist or are recorded; else 0."""
    lives: Mapping[str, tuple[int, ...]]
    batches: Mapping[tuple[str, int], tuple[int, ...]]
    """Numbers of the batches of instructions, by machine and life."""
    instructed_since: Mapping[tuple[str, int], float]
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
    """
    When each answer, spec, final record, register and life was written, by key.

    This includes objects that were listed but not read.
    """
    logs: Mapping[str, tuple[tuple[int, int], ...]]
    """(offset, bytes) of every segment, by the prefix of its stream."""
    unread: Mapping[str, str]
    """Objects that could not be decoded, and why."""
    seq: int = 0
    """The highest commit that the newest copy of root and the status view name."""
    epoch: int = 0
    """The highest epoch that they name."""


def survey(store: ObjectStore, *, since_s: float = inf) -> Survey:
    """
    Read the bucket, except for log bytes, outputs and bundles.

    Args:
        store: The bucket.
        since_s: Objects that belong to nothing active are read only if they are at most this old.

    Raises:
        NotFoundError: It has no root.
        RecordError: Its root cannot be decoded.
        StoreError: Out of reach.
    """
    reader = _Reader(store, since_s)
    inbox = reader.all(layout.INBOX)
    segments, history_from = reader.segments()
    lives, batches = reader.all(layout.MACHINES), reader.all(layout.INSTRUCTIONS)
    answers = reader.all(layout.ANSWERS)
    read_answers = reader.records(reader.recent(answers), lambda _: Answer)
    seq, epoch = reader.numbers()
    root = reader.root()
    specs, results = reader.all(layout.SPECS), reader.all(layout.RESULTS)
    launches = {(job.project, job.launch) for job in root.jobs.values()}
    launches |= {(array.project, array.id) for array in root.arrays.values()}
    read_specs = reader.records(
        reader.recent(specs, lambda key: layout.parse_spec(key) in launches), lambda _: SpecRecord
    )
    read_results = reader.records(reader.recent(results), lambda _: Result)
    reader.records(reader.recent((*lives, *batches)), _of_machine)
    registers = (*reader.all(layout.RUNS), *reader.all(layout.BARRIERS))
    read_registers: dict[str, Register] = reader.records(
        reader.recent(registers, lambda key: _is_active(root, key)), _of_run
    )
    return Survey(
        root=root,
        inbox=inbox,
        segments=segments,
        history_from=history_from,
        lives=_grouped(layout.parse_life(entry.key) for entry in lives),
        batches=_batches([entry.key for entry in batches]),
        instructed_since=_instructed_since(batches),
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
        logs=reader.logs(),
        unread=reader.unread,
        now=max(reader.newest_at, root.now),
        seq=seq,
        epoch=epoch,
    )


class _Reader:
    """Reads objects, and collects those that could not be decoded."""

    def __init__(self, store: ObjectStore, since_s: float) -> None:
        self._store = store
        self.unread: dict[str, str] = {}
        self.newest_at = 0.0
        self._horizon = self.root().now - since_s

    def all(self, prefix: str) -> tuple[Entry, ...]:
        """Return every object whose key begins with `prefix`."""
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
        """Return the keys of the `entries` that are younger than the horizon, or active."""
        return [
            entry.key
            for entry in entries
            if entry.modified_at >= self._horizon or is_active(entry.key)
        ]

    def segments(self) -> tuple[dict[int, tuple[Event, ...]], int]:
        """
        Read the events that were sealed since the horizon, by the first number of each segment.

        Also return the number of the first event read, or 0 if there are no older ones. An admin
        may have deleted older ones that the record has.
        """
        every = {
            first: entry
            for entry in self.all(layout.EVENTS)
            if (first := layout.parse_events(entry.key)) is not None
        }
        numbers = sorted(every)
        old = sum(every[number].modified_at < self._horizon for number in numbers)
        kept = numbers[max(0, old - 1) :]
        found = {number: self.events(every[number].key) for number in kept}
        begins = kept[0] if kept else 0
        is_known = len(kept) < len(numbers) or begins <= self._recorded_until()
        return found, begins if is_known else 0

    def _recorded_until(self) -> int:
        """Return the first event that the record lacks: all other tables reach as far as this."""
        return covered(stored_files(self._store), EVENTS.name)

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
            self.unread[key] = "it holds no event"
        try:
            return tuple(decode(Event, line, key=key) for line in data.splitlines())
        except RecordError as error:
            self.unread[key] = error.message
            return ()

    def records(
        self, keys: Iterable[str], kind_of: Callable[[str], type[_T] | None]
    ) -> dict[str, _T]:
        """Read the records at `keys`, by key; keys for which `kind_of` is None are skipped."""
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
        Return the highest commit and epoch that the newest copy of root and the status view name.

        This also checks that the copy can be decoded, before it is needed.
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
            return seq, epoch  # A damaged view is not a finding: it is soon published again.

    def _data(self, key: str) -> bytes | None:
        """Return the bytes of the object, or None if it was deleted since it was listed."""
        try:
            found = self._store.read(key)
        except NotFoundError:
            return None
        assert found is not None
        return found.data


def _is_active(root: Root, key: str) -> bool:
    """Whether the register at `key` belongs to an active job."""
    name = layout.parse_register(key)
    return name is not None and name.job in root.jobs


def _named(
    entries: Iterable[Entry], parse: Callable[[str], tuple[str, str] | None]
) -> frozenset[tuple[str, str]]:
    """Return the names that `parse` finds in the keys of `entries`; other keys are left out."""
    found = (parse(entry.key) for entry in entries)
    return frozenset(name for name in found if name is not None)


def _by_name(results: Mapping[str, Result]) -> dict[tuple[str, str], Result]:
    named = ((layout.parse_result(key), found) for key, found in results.items())
    return {name: found for name, found in named if name is not None}


def _instructed_since(entries: Iterable[Entry]) -> dict[tuple[str, int], float]:
    """Return when the oldest batch of each machine and life was written."""
    found: dict[tuple[str, int], float] = {}
    for entry in entries:
        name = layout.parse_instructions(entry.key)
        if name is not None:
            found[name[:2]] = min(entry.modified_at, found.get(name[:2], entry.modified_at))
    return found


def _of_run(key: str) -> type[Register] | None:
    name = layout.parse_register(key)
    return _KINDS[name.kind] if name is not None else None


def _of_machine(key: str) -> type[LifeRegister | CheckOutcome | LongCommand | Batch] | None:
    if layout.parse_life(key) is not None:
        return LifeRegister
    if layout.is_of_request(key):
        return LongCommand if key.startswith(layout.INSTRUCTIONS) else CheckOutcome
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
