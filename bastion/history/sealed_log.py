"""
The sealed events of a bucket: segments in the order of their numbers.

A segment is named by the number of its first event and is written once. A line that cannot be
decoded is skipped and reported, and the others of its segment are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from bastion.errors import OversizeError, RecordError
from bastion.records.coding.codec import decode
from bastion.records.keys import layout
from bastion.records.root import Event
from bastion.store import ObjectStore
from bastion.value import value

SEGMENT_BYTES = 64 << 20
"""Larger than every segment that a bastion seals: 500 events and what one commit adds to them."""
PAGE = 1000
REACH = 1000
"""How many events before one its segment is first searched: usual segments are shorter."""
_EVENTS: Any = tuple[Event, ...]


@value
class SealedSegment:
    """One segment: its first event, and the time at which it was written."""

    key: str
    first: int
    modified_at: float


def sealed_segments(store: ObjectStore, *, after: int = 0) -> Iterator[SealedSegment]:
    """
    Yield the segments that may contain events from number `after` on, in order.

    They include the segment before the first that begins later. The earlier ones are not listed: a
    log of years has hundreds of thousands.

    Raises:
        StoreError: Unreachable.
    """
    start = _before(store, after)
    waiting: SealedSegment | None = None
    while True:
        entries = store.list(layout.EVENTS, start_after=start, limit=PAGE)
        for entry in entries:
            first = layout.parse_events(entry.key)
            if first is None:
                continue
            found = SealedSegment(key=entry.key, first=first, modified_at=entry.modified_at)
            if waiting is not None and first > after:
                yield waiting
            waiting = found
        if len(entries) < PAGE:
            break
        start = entries[-1].key
    if waiting is not None:
        yield waiting


def _before(store: ObjectStore, number: int) -> str:
    """Return a key after which the segment that may contain event `number` is listed early."""
    reach = REACH
    while reach < number:
        start = layout.events(number - reach)
        found = store.list(layout.EVENTS, start_after=start, limit=1)
        first = layout.parse_events(found[0].key) if found else None
        if first is not None and first <= number:
            return start
        reach *= 8
    return ""


def read_segment(
    store: ObjectStore, segment: SealedSegment, spoilt: Callable[[str, str], None]
) -> Iterator[Event]:
    """
    Yield the events of `segment`; call `spoilt` with place and fault of each unreadable one.

    Raises:
        NotFoundError: It no longer exists.
        StoreError: Unreachable.
    """
    try:
        found = store.read(segment.key, limit_bytes=SEGMENT_BYTES)
    except OversizeError as error:
        spoilt(segment.key, error.message)
        return
    assert found is not None
    lines = [(n, line) for n, line in enumerate(found.data.splitlines(), 1) if line.strip()]
    yield from _whole(segment, lines) or _line_by_line(segment, lines, spoilt)


def _whole(segment: SealedSegment, lines: Sequence[tuple[int, bytes]]) -> Sequence[Event]:
    """Return all events of a segment, decoded in half the time as a list; none if one is spoilt."""
    data = b"[" + b",".join(line for _, line in lines) + b"]"
    try:
        events = decode(_EVENTS, data, key=segment.key)
    except RecordError:
        return ()
    return events if len(events) == len(lines) else ()


def _line_by_line(
    segment: SealedSegment,
    lines: Sequence[tuple[int, bytes]],
    spoilt: Callable[[str, str], None],
) -> Iterator[Event]:
    for number, line in lines:
        place = f"{segment.key}:{number}"
        try:
            yield decode(Event, line, key=place)
        except RecordError as error:
            spoilt(place, error.message)
