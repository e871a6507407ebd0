"""A followed log: complete lines once, wherever a flush cut them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bastion.logs.segments import segment_key
from bastion.store.memory import MemoryStore
from bastion.web.reading.log_tail import LogTail, Printed
from bastion.web.reading.log_window import MOST_UNFINISHED, ProcessLog, readable

PREFIX = "logs/p/j/a1/r0/h0/p0/"


def _log(*pieces: bytes) -> ProcessLog:
    store, at = MemoryStore(lambda: 0.0), 0
    for piece in pieces:
        store.create(segment_key(PREFIX, at), piece)
        at += len(piece)
    return ProcessLog(store, PREFIX)


def _all(tail: LogTail) -> list[Printed]:
    found: list[Printed] = []
    while told := tail.look():
        found += told
    return found


def _shown(told: list[Printed]) -> str:
    return "".join(each.text for each in told) + (told[-1].unfinished if told else "")


def test_a_character_in_two_segments_is_shown_whole() -> None:
    """A flush within a character shows nothing of it until the rest arrives."""
    told = _all(LogTail(_log(b"caf\xc3", b"\xa9 \xf0\x9f", b"\x99\x82 ok\n"), 0))
    assert [each.unfinished for each in told] == ["caf", "café ", "", ""]
    assert _shown(told) == "café \N{SLIGHTLY SMILING FACE} ok\n"


def test_a_progress_bar_in_two_segments_is_one_line() -> None:
    """Its last state replaces the previous one, and one line is left of it."""
    told = _all(LogTail(_log(b"begin\n 10%\r 2", b"0%\r 30%", b"\r100%\ndone\n"), 0))
    assert [each.unfinished for each in told if not each.text] == [" 2", " 30%", ""]
    assert _shown(told) == "begin\n100%\ndone\n"


@given(
    st.lists(
        st.sampled_from(
            [b"a", "é".encode(), "\N{SLIGHTLY SMILING FACE}".encode(), b"\r", b"\n", b"50%"]
        ),
        min_size=1,
        max_size=40,
    ),
    st.lists(st.integers(1, 5), min_size=1, max_size=40),
    st.integers(0, 200),
)
def test_coming_back_neither_repeats_nor_skips(
    words: list[bytes], sizes: list[int], stop: int
) -> None:
    """From the offset of any event, a new follower returns what the first would have."""
    data, pieces, at = b"".join(words), [], 0
    for n in range(len(data)):
        if at < len(data):
            size = sizes[n % len(sizes)]
            pieces.append(data[at : at + size])
            at += size
    log = _log(*pieces)
    told = _all(LogTail(log, 0))
    assert _shown(told) == readable(data)
    seen = told[: 1 + stop % len(told)]
    again = _all(LogTail(log, seen[-1].at))
    rest = _shown(again) if again else seen[-1].unfinished
    assert "".join(each.text for each in seen) + rest == readable(data)


def test_a_line_without_an_end_is_given_out_in_pieces() -> None:
    """An unfinished line is bounded; an hour of a progress bar is one state."""
    told = _all(LogTail(_log(*[b"x" * MOST_UNFINISHED] * 3), 0))
    assert all(len(each.unfinished) <= MOST_UNFINISHED for each in told)
    assert told[-1].at >= 2 * MOST_UNFINISHED
    tail = LogTail(_log(*[b"%7d\r" % n for n in range(3000)]), 0)
    bar = _all(tail)
    assert bar[-1].unfinished == "   2999"
    assert len(tail._rest) < 100


def test_bytes_that_were_never_stored_are_told() -> None:
    """A gap at the follower's start is a line that says which bytes, and the log continues."""
    store = MemoryStore(lambda: 0.0)
    store.create(segment_key(PREFIX, 10), b"two\n")
    told = _all(LogTail(ProcessLog(store, PREFIX), 4))
    assert _shown(told) == "[bytes 4 to 10 are missing]\ntwo\n"
    assert told[-1].at == 14
