"""A piece of a log, of any size."""

from __future__ import annotations

import pytest

from bastion.clock import VirtualClock
from bastion.errors import StoreError
from bastion.logs.segments import SEGMENT_BYTES, segment_key
from bastion.store.memory import Fault, FaultyStore, MemoryStore
from bastion.store.port import READ_LIMIT_BYTES, Entry, Object, Version
from bastion.web.reading.log_window import (
    CHUNK_BYTES,
    MOST_HITS,
    SEARCH_BYTES,
    WINDOW_BYTES,
    ProcessLog,
    readable,
)

PREFIX = "logs/p/j/a1/r0/h0/p0/"
CLOCK = VirtualClock()


def _log(*pieces: bytes, begin: int = 0) -> MemoryStore:
    store, at = MemoryStore(lambda: 0.0), begin
    for piece in pieces:
        store.create(segment_key(PREFIX, at), piece)
        at += len(piece)
    return store


class Counted(MemoryStore):
    """A store that counts reads, with `count` generated segments of `size` bytes."""

    def __init__(self, count: int, size: int) -> None:
        super().__init__(lambda: 0.0)
        self.count, self.size, self.reads, self.lists = count, size, 0, 0

    def list(self, prefix: str, *, start_after: str = "", limit: int = 1000) -> tuple[Entry, ...]:
        """Return the segments behind a key."""
        self.lists += 1
        first = 0
        if start_after:
            at = int(start_after.rpartition("/")[2].removesuffix(".log"))
            first = at // self.size + 1
        return tuple(
            Entry(
                key=segment_key(prefix, n * self.size),
                version=Version("v"),
                size=self.size,
                modified_at=0.0,
            )
            for n in range(first, min(self.count, first + limit))
        )

    def read(
        self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
    ) -> Object | None:
        """Return a segment of lines."""
        self.reads += 1
        line = b"x" * 99 + b"\n"
        data = (line * (self.size // 100 + 1))[: self.size]
        return Object(data=data, version=Version("v"), modified_at=0.0)


def test_the_last_window_is_shown_first_and_begins_at_a_line() -> None:
    """Without an offset, the end of the log is shown."""
    window = ProcessLog(_log(b"a" * WINDOW_BYTES + b"\n", b"last\n"), PREFIX).window()
    assert window.text == "last\n"
    assert window.end == window.size == WINDOW_BYTES + 6
    assert window.begin == window.size - 5


def test_windows_join_without_a_gap() -> None:
    """Following `end` from 0 returns every byte of the log once."""
    pieces = [(bytes([65 + n % 26]) * 60 + b"\n") * 500 for n in range(9)]
    log, at, seen = ProcessLog(_log(*pieces), PREFIX), 0, ""
    while True:
        window = log.window(at)
        seen += window.text
        if window.end >= window.size:
            break
        assert window.begin == at
        at = window.end
    assert seen == b"".join(pieces).decode()


def test_a_gigabyte_costs_a_few_reads() -> None:
    """The end, middle and beginning of a log of 1 GB are found with a few lists."""
    store = Counted(1024, SEGMENT_BYTES)
    log = ProcessLog(store, PREFIX)
    assert log.window().end == 1 << 30
    assert log.window(500 << 20).begin == 500 << 20
    assert store.reads <= 4
    assert store.lists < 60


def test_a_log_of_a_hundred_thousand_small_segments_costs_a_few_lists() -> None:
    """Its end is found by doubling and halving, not by listing all of it."""
    store = Counted(100_000, 700)
    assert ProcessLog(store, PREFIX).size() == 70_000_000
    assert store.lists < 60


def test_missing_bytes_are_told() -> None:
    """Bytes that were never stored are shown as a line that says which."""
    store = _log(b"one\n")
    store.create(segment_key(PREFIX, 10), b"two\n")
    window = ProcessLog(store, PREFIX).window(0)
    assert window.text == "one\n[bytes 4 to 10 are missing]\ntwo\n"
    assert window.end == 14


def test_an_empty_log_is_empty() -> None:
    """A process without output has an empty window."""
    window = ProcessLog(_log(), PREFIX).window()
    assert (window.text, window.size) == ("", 0)


def test_a_search_finds_lines_across_segments_and_is_bounded() -> None:
    """A line in two segments counts once; offsets lead to it; many hits end the search."""
    log = ProcessLog(_log(b"first\nnee", b"DLE here\nlast needle"), PREFIX)
    found = log.search("needle", clock=CLOCK)
    assert [(hit.at, hit.line) for hit in found.hits] == [(6, "neeDLE here"), (18, "last needle")]
    assert found.is_all
    many = ProcessLog(_log(b"needle\n" * 1000, b"needle\n" * 1000), PREFIX).search(
        "needle", clock=CLOCK
    )
    assert len(many.hits) == MOST_HITS
    assert not many.is_all
    long = ProcessLog(Counted(1024, SEGMENT_BYTES), PREFIX)
    bounded = long.search("nothing", clock=CLOCK, seconds=0.0)
    assert not bounded.is_all
    assert 0 < bounded.until < 64 << 20


def test_searches_that_follow_one_another_leave_no_line_out() -> None:
    """However many lines of a segment fit, each is in one of the answers, in order."""
    log = ProcessLog(_log(b"needle\n" * 450, b"hay\nneedle\n" * 50), PREFIX)
    found = log.search("needle", clock=CLOCK)
    seen = [*found.hits]
    while not found.is_all:
        found = log.search("needle", found.until, clock=CLOCK)
        seen += found.hits
    expected = [7 * n for n in range(450)] + [3150 + 11 * n + 4 for n in range(50)]
    assert [hit.at for hit in seen] == expected


def test_a_search_gets_past_a_line_longer_than_it_goes_through() -> None:
    """A progress bar of hours is one line; later lines are still found."""
    step = b"\r 10% |#####|" * 1000
    pieces = [step] * (SEARCH_BYTES // len(step) * 2) + [b"\nneedle\n"]
    log, at, searches = ProcessLog(_log(*pieces), PREFIX), 0, 0
    while not (found := log.search("needle", at, clock=CLOCK, seconds=0.0)).hits:
        assert not found.is_all
        assert found.until > at
        at, searches = found.until, searches + 1
    assert found.hits[0].line == "needle"
    assert searches <= 3


class _Ticking(VirtualClock):
    """Each look at it takes a second."""

    def monotonic(self) -> float:
        self.advance(1.0)
        return super().monotonic()


def test_a_search_goes_on_while_its_reader_waits() -> None:
    """It covers part after part until the time is over, and the next one continues there."""
    log = ProcessLog(Counted(200, SEGMENT_BYTES), PREFIX)
    first = log.search("nothing", clock=_Ticking(), seconds=4.0)
    assert not first.is_all
    assert 4 * SEARCH_BYTES - SEGMENT_BYTES < first.until <= 4 * SEARCH_BYTES
    assert log.search("nothing", first.until, clock=CLOCK).is_all
    many = ProcessLog(_log(*[b"hay\n" * 250_000] * 40, b"needle\n" * 300), PREFIX)
    found = many.search("needle", clock=CLOCK)
    assert (len(found.hits), found.is_all) == (MOST_HITS, False)
    assert len(many.search("needle", found.until, clock=CLOCK).hits) == 100


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"one\nNEE\x1b[1mDLE\ntwo\n", "NEEDLE"),
        (b"one\n 10%\rneedle 20%\ntwo\n", "needle 20%"),
        (b"one\nnee\xc2\x85dle\ntwo\n", "needle"),
        ("one\nne\N{KELVIN SIGN}edle needle\n".encode(), "ne\N{KELVIN SIGN}edle needle"),
        (b"needle\none\ntwo", "needle"),
        (b"one\ntwo\nneedle", "needle"),
        (b"a\xffb\nneedle\xff\n\n", "needle\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_a_line_is_found_as_it_is_shown(data: bytes, line: str) -> None:
    """Wherever it is in a piece, and whatever its program printed into it."""
    found = ProcessLog(_log(data), PREFIX).search("needle", clock=CLOCK)
    assert [hit.line for hit in found.hits] == [line]
    at = found.hits[0].at
    assert at == 0 or data[at - 1 : at] == b"\n"


def test_a_whole_log_is_every_byte_in_bounded_memory() -> None:
    """In chunks and in order; missing bytes are a line, and repeated ones are left out."""
    store = _log(b"one \x1b[31m\xff\n", b"y" * (3 * CHUNK_BYTES))
    store.create(segment_key(PREFIX, 20), b"yy")
    end = 11 + 3 * CHUNK_BYTES
    store.create(segment_key(PREFIX, end + 5), b"two\n")
    chunks = list(ProcessLog(store, PREFIX).whole())
    lost = f"[bytes {end} to {end + 5} are missing]\n".encode()
    assert b"".join(chunks) == b"one \x1b[31m\xff\n" + b"y" * 3 * CHUNK_BYTES + lost + b"two\n"
    assert max(map(len, chunks)) <= CHUNK_BYTES
    counted = Counted(1024, SEGMENT_BYTES)
    assert len(next(ProcessLog(counted, PREFIX).whole())) == CHUNK_BYTES
    assert counted.reads < 12
    assert list(ProcessLog(_log(), PREFIX).whole()) == []


def test_a_log_that_cannot_be_read_to_its_end_does_not_just_end() -> None:
    """Otherwise a part of it would be taken for all of it."""
    store = _log(b"one\n", b"two\n")

    def fault(operation: str, key: str) -> Fault | None:
        is_second = operation == "read" and key == segment_key(PREFIX, 4)
        return Fault.BEFORE if is_second else None

    with pytest.raises(StoreError):
        list(ProcessLog(FaultyStore(store, fault), PREFIX).whole())


def test_text_is_for_people() -> None:
    """Colors, titles and progress bars become their final text; long lines are cut."""
    assert readable(b"\x1b[1;31mred\x1b[0m \x1b]0;title\x07end") == "red end"
    assert readable(b" 10%\r 50%\r100%\n") == "100%\n"
    assert readable(b"a\x00b\x7f\xff") == "ab\N{REPLACEMENT CHARACTER}"
    assert readable(b"y" * 9000).endswith("[5000 more characters]")


def test_a_window_cuts_no_character() -> None:
    """Windows meet within a line of wide characters without breaking one."""
    data = "é\N{SLIGHTLY SMILING FACE}".encode() * 30_000
    log, at, seen = ProcessLog(_log(data[:100_001], data[100_001:]), PREFIX), 0, []
    while True:
        window = log.window(at)
        assert window.begin == at
        assert "\N{REPLACEMENT CHARACTER}" not in window.text
        seen.append((window.begin, window.end))
        if window.end >= window.size:
            break
        at = window.end
    assert seen[-1][1] == len(data)
    assert log.window(3).begin == 6, "within a character it begins behind it"


def test_the_unfinished_line_is_told_apart() -> None:
    """Following starts with the line that has no end yet, in its last state."""
    window = ProcessLog(_log(b"one\n 10%\r 20%\r"), PREFIX).window()
    assert (window.finished, window.unfinished, window.unfinished_at) == ("one\n", " 20%", 9)
