"""
A piece of one process's log, for logs of any size.

A window is at most `WINDOW_BYTES` long and begins at a line. Its segments are found by their names,
so a log of gigabytes costs a few small lists. A search takes a bounded time, and says where it
stopped. Both are readable text: colors and cursor movements are removed. `whole` is every byte.
"""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from bastion.clock import Clock
from bastion.errors import NotFoundError
from bastion.logs.segments import SEGMENT_BYTES, offset_of, segment_key
from bastion.store.port import Entry, ObjectStore
from bastion.value import value

WINDOW_BYTES = 64 << 10
SEARCH_BYTES = 16 << 20
"""How much a search covers between two looks at the clock."""
SEARCH_S = 4.0
"""How long a search continues while its reader waits."""
CHUNK_BYTES = 64 << 10
"""In which a whole log is delivered: other readers are served between two of them."""
_AHEAD = 4
"""Segments that are read at the same time, each of at most a megabyte."""
MOST_HITS = 200
LINE_CHARACTERS = 4000
MOST_UNFINISHED = 16 << 10
"""A line without an end is delivered in pieces of this many bytes."""
_PAGE = 1000
_INNER_BYTES = bytes(range(0x80, 0xC0))
"""Bytes that do not begin a character in UTF-8."""
_CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b.?"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)
"""Terminal sequences (ECMA-48), and control characters except tab and newline."""
_NOT_SHOWN = bytes((*range(9), *range(11, 32), 127, 0xC2))
"""Bytes of `_CONTROL`, and the one that those beyond ASCII begin with."""


@value
class Window:
    """Some bytes of a log, as text."""

    finished: str
    """Its finished lines, and all of a window that is not the last one."""
    unfinished: str
    """The current last line of the log, if it has no end yet."""
    unfinished_at: int
    """The offset of that line: following the log begins there."""
    begin: int
    """The offset of its first byte."""
    end: int
    """The offset after its last byte."""
    size: int
    """The offset after the last stored byte."""

    @property
    def text(self) -> str:
        """All of it."""
        return self.finished + self.unfinished


@value
class Hit:
    """One line that contains the search text."""

    at: int
    """The offset of the line."""
    line: str


@value
class Found:
    """The results of one search."""

    hits: tuple[Hit, ...]
    until: int
    """The offset that it has reached."""
    is_all: bool
    """Whether that is the end of the log."""

    def followed_by(self, later: Found) -> Found:
        """Return both results as one; `later` began where this one stopped."""
        hits = (*self.hits, *later.hits)
        return Found(hits=hits, until=later.until, is_all=later.is_all)


class ProcessLog:
    """
    The log of one process of an attempt.

    Args:
        store: The bucket.
        prefix: The prefix of its segments.
    """

    def __init__(self, store: ObjectStore, prefix: str) -> None:
        self._store = store
        self._prefix = prefix

    def size(self) -> int:
        """Return the offset after the last stored byte, without listing every segment."""
        page = self._list("", _PAGE)
        if len(page) == _PAGE:
            page = self._last_page(offset_of(page[-1].key) or 0)
        return (offset_of(page[-1].key) or 0) + page[-1].size if page else 0

    def window(self, at: int | None = None) -> Window:
        """Return the window that begins at the offset `at`, or the last one."""
        size = self.size()
        begin = max(0, size - WINDOW_BYTES) if at is None else max(0, min(at, size))
        end, data = begin, b""
        for offset, piece in self.pieces(begin):
            if offset > end:
                data += missing(end, offset)
            kept = piece[: max(0, WINDOW_BYTES - len(data))]
            data, end = data + kept, offset + len(kept)
            if len(data) >= WINDOW_BYTES:
                break
        first = data.find(b"\n") + 1
        if begin > 0 and at is None and 0 < first < len(data):
            data, begin = data[first:], begin + first
        if begin > 0:
            begin, data = begin + len(data), data.lstrip(_INNER_BYTES)
            begin -= len(data)
        finished, rest = split(data) if end >= size else (without_cut(data), b"")
        end -= 0 if end >= size else len(data) - len(finished)
        return Window(
            finished=readable(finished),
            unfinished=readable(without_cut(rest)),
            unfinished_at=end - len(rest),
            begin=begin,
            end=end,
            size=size,
        )

    def search(self, text: str, at: int = 0, *, clock: Clock, seconds: float = SEARCH_S) -> Found:
        """
        Return the lines from the offset `at` on that contain `text`, ignoring case.

        It stops at the end of the log, after `MOST_HITS` lines or when `seconds` have passed. It
        stops after the last line that is shown, so that the next search omits none. Of a line that
        is longer than `SEARCH_BYTES`, each search looks at its own part.
        """
        deadline = clock.monotonic() + seconds
        found = self._search(text, at, MOST_HITS)
        while not found.is_all and len(found.hits) < MOST_HITS and clock.monotonic() < deadline:
            later = self._search(text, found.until, MOST_HITS - len(found.hits))
            found = found.followed_by(later)
        return found

    def _search(self, text: str, at: int, most: int) -> Found:
        """Search about `SEARCH_BYTES`."""
        wanted, hits = text.casefold(), list[Hit]()
        line, begin, end, scanned = bytearray(), at, at, 0
        for offset, piece in self._pieces_ahead(at):
            begin = begin if line else offset
            line += piece.partition(b"\n")[0]
            for skipped, following in _following(piece, wanted):
                if len(hits) == most:
                    return Found(hits=tuple(hits), until=begin, is_all=False)
                hits += _hits(begin, line, wanted)
                begin, line = offset + skipped, bytearray(following)
            end, scanned = offset + len(piece), scanned + len(piece)
            if scanned >= SEARCH_BYTES:
                break
        is_all = scanned < SEARCH_BYTES
        if not is_all and begin > at:
            return Found(hits=tuple(hits), until=begin, is_all=False)
        return Found(hits=(*hits, *_hits(begin, line, wanted)), until=end, is_all=is_all)

    def next(self, at: int) -> bytes:
        """Return what is stored from the offset `at` on, at most one segment; empty if nothing."""
        try:
            found = self._store.read(segment_key(self._prefix, at))
        except NotFoundError:
            return b""
        return b"" if found is None else found.data

    def whole(self) -> Iterator[bytes]:
        """
        Yield every byte that is stored now, in chunks; missing ones are replaced by a line.

        Raises:
            StoreError: Unreachable; what was yielded is not all.
        """
        end, size = 0, self.size()
        for offset, piece in self._pieces_ahead(0):
            if offset >= size:
                break
            if offset > end:
                yield missing(end, offset)
            for begin in range(max(0, end - offset), len(piece), CHUNK_BYTES):
                yield piece[begin : begin + CHUNK_BYTES]
            end = max(end, offset + len(piece))
        if end < size:
            yield missing(end, size)

    def pieces(self, at: int) -> Iterator[tuple[int, bytes]]:
        """Yield the offset and the bytes of what is stored from `at` on."""
        for offset, key in self._segments(at):
            yield from _from(at, offset, self._segment(key))

    def _pieces_ahead(self, at: int) -> Iterator[tuple[int, bytes]]:
        """Yield the same, while the next `_AHEAD` segments are read."""
        threads = ThreadPoolExecutor(_AHEAD, thread_name_prefix="log")
        reading = deque[tuple[int, Future[bytes | None]]]()
        try:
            for offset, key in self._segments(at):
                reading.append((offset, threads.submit(self._segment, key)))
                if len(reading) > _AHEAD:
                    begin, read = reading.popleft()
                    yield from _from(at, begin, read.result())
            for begin, read in reading:
                yield from _from(at, begin, read.result())
        finally:
            threads.shutdown(wait=False, cancel_futures=True)

    def _segments(self, at: int) -> Iterator[tuple[int, str]]:
        """Yield the offset and the key of each segment with bytes from `at` on."""
        after = "" if at < SEGMENT_BYTES else segment_key(self._prefix, at - SEGMENT_BYTES)
        while page := self._list(after, _PAGE):
            for entry in page:
                offset = offset_of(entry.key)
                if offset is not None and offset + entry.size > at:
                    yield offset, entry.key
            after = page[-1].key

    def _segment(self, key: str) -> bytes | None:
        """Return the bytes of a segment; None if it was deleted after it was listed."""
        try:
            found = self._store.read(key)
        except NotFoundError:
            return None
        return b"" if found is None else found.data

    def _last_page(self, low: int) -> tuple[Entry, ...]:
        """Return the last segments of a long log; `low` is the offset of one of them."""
        step = SEGMENT_BYTES
        while found := self._list(segment_key(self._prefix, low + step), 1):
            low, step = offset_of(found[0].key) or 0, 2 * step
        high = low + step
        page = self._list(segment_key(self._prefix, low - 1), _PAGE)
        while len(page) == _PAGE:
            middle = (low + high) // 2
            if found := self._list(segment_key(self._prefix, middle), 1):
                low = offset_of(found[0].key) or 0
                page = self._list(segment_key(self._prefix, low - 1), _PAGE)
            else:
                high = middle
        return page

    def _list(self, after: str, limit: int) -> tuple[Entry, ...]:
        return self._store.list(self._prefix, start_after=after, limit=limit)


def _from(at: int, offset: int, data: bytes | None) -> Iterator[tuple[int, bytes]]:
    """Yield the part of a segment from `at` on, with its offset; nothing if it is gone."""
    if data is not None:
        skipped = max(0, at - offset)
        yield offset + skipped, data[skipped:]


def _following(piece: bytes, wanted: str) -> Iterator[tuple[int, bytes]]:
    """
    Yield each line of `piece` but the first, with its offset in it.

    If no line has the text that is `wanted`, only the last one is, which the next piece continues.
    """
    begin = piece.find(b"\n") + 1
    if begin == 0:
        return
    if not _may_have(piece, wanted):
        begin = piece.rfind(b"\n") + 1
    for line in piece[begin:].split(b"\n"):
        yield begin, line
        begin += len(line) + 1


def _may_have(piece: bytes, wanted: str) -> bool:
    """Whether a readable line of `piece` may have the text `wanted`: fast, for most pieces."""
    if len(piece.translate(None, _NOT_SHOWN)) < len(piece):
        return True
    return wanted in piece.decode(errors="replace").casefold()


def _hits(begin: int, line: bytes | bytearray, wanted: str) -> list[Hit]:
    shown = readable(line)
    return [Hit(at=begin, line=shown)] if line and wanted in shown.casefold() else []


def missing(begin: int, end: int) -> bytes:
    """Return the line that replaces bytes that were never stored."""
    return f"[bytes {begin} to {end} are missing]\n".encode()


def split(data: bytes) -> tuple[bytes, bytes]:
    """
    Split `data` into its finished lines and the unfinished last one.

    Of a progress bar, the unfinished line keeps only the last state. A line that is too long to
    wait for its end counts as finished.
    """
    after = data.rfind(b"\n") + 1
    finished, line = data[:after], data[after:]
    rest = line[line.rfind(b"\r", 0, len(line.rstrip(b"\r"))) + 1 :]
    if len(rest) <= MOST_UNFINISHED:
        return finished, rest
    told = without_cut(rest)
    return finished + told, rest[len(told) :]


def without_cut(data: bytes) -> bytes:
    """Return `data` without the first bytes of a character whose last bytes are still missing."""
    decoder = getincrementaldecoder("utf-8")("replace")
    decoder.decode(data)
    return data[: len(data) - len(decoder.getstate()[0])]


def readable(data: bytes | bytearray) -> str:
    """Return `data` as text without terminal sequences; of a progress bar its last state."""
    lines = data.decode(errors="replace").split("\n")
    return "\n".join(_readable(line) for line in lines)


def _readable(line: str) -> str:
    if "\r" in line:
        line = next((part for part in reversed(line.split("\r")) if part), "")
    line = _CONTROL.sub("", line)
    more = len(line) - LINE_CHARACTERS
    return line if more <= 0 else f"{line[:LINE_CHARACTERS]} [{more} more characters]"
