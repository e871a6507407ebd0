"""
A survey of a bucket: everything that an audit looks at, read once.

The order of reading matters on a root that lives: what a commit follows is read before root, what
follows a commit after it. What is seen in between may still be half done, so an audit believes only
what two surveys show.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
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
    lives: Mapping[str, tuple[int, ...]]
    batches: Mapping[tuple[str, int], tuple[int, ...]]
    """Numbers of the batches of instructions, by machine and life."""
    answers: Mapping[str, Answer]
    """By key."""
    specs: frozenset[tuple[str, str]]
    results: frozenset[tuple[str, str]]
    registers: Mapping[str, Register]
    """By key."""
    logs: Mapping[str, tuple[tuple[int, int], ...]]
    """(offset, bytes) of every segment, by the prefix of its stream."""
    unread: Mapping[str, str]
    """Objects that hold no such record, and what is wrong with each."""


def survey(store: ObjectStore) -> Survey:
    """
    Read the whole bucket but for what jobs printed, keep and run.

    Raises:
        NotFoundError: It has no root.
        RecordError: Its root cannot be understood.
        StoreError: Out of reach.
    """
    look = _Look(store)
    inbox = look.all(layout.INBOX)
    segments = {
        first: look.events(entry.key)
        for entry in look.all(layout.EVENTS)
        if (first := layout.parse_events(entry.key)) is not None
    }
    lives = look.keys(layout.MACHINES)
    batches = look.keys(layout.INSTRUCTIONS)
    answers = look.records(look.keys(layout.ANSWERS), lambda _: Answer)
    root = look.root()
    specs = look.named(layout.SPECS, layout.parse_spec)
    results = look.named(layout.RESULTS, layout.parse_result)
    look.records(specs, lambda _: SpecRecord)
    look.records(results, lambda _: Result)
    look.records((*lives, *batches), _of_machine)
    look.copies()
    return Survey(
        root=root,
        inbox=inbox,
        segments=segments,
        lives=_grouped(layout.parse_life(key) for key in lives),
        batches=_batches(batches),
        answers=answers,
        specs=frozenset(specs.values()),
        results=frozenset(results.values()),
        registers=look.records((*look.keys(layout.RUNS), *look.keys(layout.BARRIERS)), _of_run),
        logs=look.logs(),
        unread=look.unread,
        now=max(look.newest_at, root.now),
    )


class _Look:
    """Reads, and remembers what could not be read."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.unread: dict[str, str] = {}
        self.newest_at = 0.0

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

    def keys(self, prefix: str) -> list[str]:
        """The key of each of these objects."""
        return [entry.key for entry in self.all(prefix)]

    def named(
        self, prefix: str, parse: Callable[[str], tuple[str, str] | None]
    ) -> dict[str, tuple[str, str]]:
        """What `parse` makes of these keys; those of which it makes nothing are left out."""
        found = ((key, parse(key)) for key in self.keys(prefix))
        return {key: name for key, name in found if name is not None}

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

    def copies(self) -> None:
        """Read the newest copy of root: the day it is needed is a bad day to find it broken."""
        keys = [entry.key for entry in self.all(layout.SNAPSHOTS)]
        newest = max(keys, key=lambda key: layout.parse_snapshot(key) or ("", 0), default="")
        data = self._data(newest) if newest else None
        if data is not None:
            try:
                decode_root(data, key=newest)
            except RecordError as error:
                self.unread[newest] = error.message

    def _data(self, key: str) -> bytes | None:
        """What the object holds, or None when it was deleted since it was listed."""
        try:
            found = self._store.read(key)
        except NotFoundError:
            return None
        assert found is not None
        return found.data


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
