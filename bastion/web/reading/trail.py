"""
The trail: what happened to a job, from the event log, read in bounded pieces.

Segments are named by their first number and written in the order of time, so those of one job are a
range of the list. Of a very long range, the beginning and the end are read; the rest is reported as
omitted.
"""

from __future__ import annotations

import gzip
import json
import zlib
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Lock
from typing import Any

from bastion.client.look.published import name_is_of
from bastion.client.look.rows import event_of
from bastion.client.look.views import EventView
from bastion.errors import BastionError, NotFoundError, OversizeError
from bastion.history.attempt_row import AttemptRow, attempt_row
from bastion.records.coding.codec import decode
from bastion.records.keys import layout
from bastion.records.root import Event
from bastion.store.port import ObjectStore
from bastion.value import value

MARGIN_S = 120.0
"""Events are sealed up to a minute after they happen, and an object is newer than its commit."""
LATE_S = 3600.0
"""
How long the list of segments can change: they are written in parallel, so one whose write is tried
again appears before later ones.
"""
FIRST, LAST = 20, 60
"""Segments that are read at each end of a long range."""
ROOT_BYTES = 32 << 20
"""The last minute of events is not read from a larger root: it would take longer than the page."""
MOST_LISTS = 1000
"""Upper limit of the segments that a root writes at the same time."""
WORKERS = 8
_PAGE = 1000
_EVENTS_KEY = '"events":'
_DECODER = json.JSONDecoder()
_GZIP = b"\x1f\x8b"


@value
class Happened:
    """The events of one job, oldest first."""

    events: tuple[EventView, ...] = ()
    ended: tuple[AttemptRow, ...] = ()
    """Its attempts that have ended, as in the record."""
    is_cut: bool = False
    """Whether events in the middle were not read."""


class Trail:
    """
    The event log of one bucket.

    Args:
        store: The bucket.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._keys: list[str] = []
        self._times: list[float] = []
        self._lock = Lock()
        self._threads = ThreadPoolExecutor(WORKERS, thread_name_prefix="events")

    def of(self, job: str, *, since: float, until: float | None) -> Happened:
        """
        Return the events of a job, or of an array and its tasks.

        Args:
            job: Its ID.
            since: When it was submitted.
            until: When it ended; None if it has not.

        Raises:
            StoreError: Unreachable.
        """
        # Root first: what is sealed after this read is among the segments listed after it.
        fresh = self._unsealed()
        keys = self._range(since - MARGIN_S, None if until is None else until + MARGIN_S)
        is_cut = len(keys) > FIRST + LAST
        chosen = [*keys[:FIRST], *keys[-LAST:]] if is_cut else keys
        found: dict[int, dict[str, Any]] = {}
        for lines in self._threads.map(lambda key: self._segment(key, job), chosen):
            found.update((event_of(line).number, line) for line in lines)
        found.update((event_of(line).number, line) for line in fresh)
        own = [line for _, line in sorted(found.items()) if _is_of(line, job)]
        return Happened(
            events=tuple(map(event_of, own)), ended=tuple(_ended_in(own)), is_cut=is_cut
        )

    def close(self) -> None:
        """Stop reading."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _range(self, since: float, until: float | None) -> Sequence[str]:
        with self._lock:
            if self._times:
                late = bisect_left(self._times, self._times[-1] - LATE_S)
                del self._keys[late:], self._times[late:]
            while page := self._store.list(
                layout.EVENTS, start_after=self._keys[-1] if self._keys else "", limit=_PAGE
            ):
                self._keys += [entry.key for entry in page]
                self._times += [entry.modified_at for entry in page]
            first = bisect_left(self._times, since)
            after = len(self._keys) if until is None else bisect_left(self._times, until) + 1
            return self._keys[first:after]

    def _segment(self, key: str, job: str) -> list[dict[str, Any]]:
        """Return the events of a segment that may be of `job`; unreadable lines are skipped."""
        try:
            found = self._store.read(key)
        except NotFoundError:
            return []
        needle = f'"{job}'.encode()
        lines = found.data.splitlines() if found is not None else ()
        return list(_parsed(line for line in lines if needle in line))

    def _unsealed(self) -> Sequence[dict[str, Any]]:
        """Return what root has not sealed yet; nothing if it is damaged or too large."""
        try:
            found = self._store.read(layout.ROOT, limit_bytes=ROOT_BYTES)
        except (NotFoundError, OversizeError):
            return ()
        data = b"" if found is None else found.data
        try:
            return events_in(gzip.decompress(data) if data.startswith(_GZIP) else data)
        except (OSError, EOFError, zlib.error):
            return ()


def events_in(root: bytes) -> list[dict[str, Any]]:
    """
    Return the unsealed events in the bytes of a root, and those of segments being written.

    The thousands of jobs in the root are not parsed: only root and segments have this key, and a
    quotation mark within a text is preceded by a backslash.
    """
    found: list[dict[str, Any]] = []
    text, after = root.decode(errors="replace"), 0
    for _ in range(MOST_LISTS):
        if (at := text.find(_EVENTS_KEY, after)) < 0:
            break
        after = at + len(_EVENTS_KEY)
        if text[at - 1 : at] == "\\" or text[after : after + 1] != "[":
            continue
        with suppress(ValueError, RecursionError):
            events, after = _DECODER.raw_decode(text, after)
            found += [event for event in events if isinstance(event, dict)]
    return found


def _is_of(line: dict[str, Any], job: str) -> bool:
    of = event_of(line).job
    return of == job or name_is_of(of, job)


def _ended_in(lines: Sequence[dict[str, Any]]) -> Iterator[AttemptRow]:
    """Yield the attempts that ended by these events; records that cannot be read are skipped."""
    for line in lines:
        if line.get("record"):
            with suppress(BastionError):
                event = decode(Event, json.dumps(line).encode(), key=layout.EVENTS)
                if (row := attempt_row(event)) is not None and row.attempt:
                    yield row


def _parsed(lines: Iterator[bytes]) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict):
            yield event
