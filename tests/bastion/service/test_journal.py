"""The bastion's own log: said once, kept in the bucket, and never in the way."""

from __future__ import annotations

import io

from bastion.clock import VirtualClock
from bastion.errors import BastionError, StoreError
from bastion.records import layout
from bastion.service.journal import MOST_SAID, TAIL_BYTES, Journal
from bastion.store.memory import Fault, FaultyStore, MemoryStore


def journal() -> tuple[Journal, VirtualClock, io.StringIO]:
    """A journal, its clock, and what it said."""
    clock, out = VirtualClock(), io.StringIO()
    return Journal("b", clock, out=out), clock, out


def test_a_line_has_its_time() -> None:
    """Each line begins with the date in UTC."""
    log, _, out = journal()
    log.note("leads")
    assert out.getvalue() == "2023-11-14T22:13:20Z leads\n"


def test_a_problem_is_said_once_a_minute() -> None:
    """The same problem again and again is one line a minute; another text is said at once."""
    log, clock, out = journal()
    for _ in range(100):
        log.problem("store", StoreError("out of reach"))
        clock.advance(1.0)
    assert out.getvalue().count("out of reach") == 2
    log.problem("store", StoreError("refused"))
    assert "refused" in out.getvalue()
    assert log.problems == ("store: refused",)
    clock.advance(61.0)
    assert log.problems == ()


def test_a_hint_goes_along() -> None:
    """What to do is said with the problem."""
    log, _, out = journal()
    log.problem("x", BastionError("wrong", hint="do this"))
    assert "x: wrong (hint: do this)\n" in out.getvalue()


def test_a_bug_is_said_with_its_traceback() -> None:
    """An internal error tells where it happened."""
    log, _, out = journal()
    try:
        raise ValueError("boom")
    except ValueError as error:
        log.failure("monitor", error)
    assert "internal error" in out.getvalue()
    assert "test_journal.py" in out.getvalue()


def test_lines_are_kept_in_the_bucket() -> None:
    """A flush writes what is new as a segment, and the latest lines as the tail."""
    log, clock, _ = journal()
    store = MemoryStore(clock.wall)
    assert log.flush(store) is None
    for text in ("one", "two"):
        log.note(text)
        work = log.flush(store)
        assert work is not None
        work()
        clock.advance(1.0)
    segments = store.list(layout.bastion_log_segments("b"))
    assert len(segments) == 2
    tail = store.read(layout.bastion_log("b"))
    assert tail is not None
    assert [line.split()[1] for line in tail.data.decode().splitlines()] == ["one", "two"]


def test_the_tail_is_bounded() -> None:
    """The tail object never holds more than the latest 64 KiB."""
    log, clock, _ = journal()
    store = MemoryStore(clock.wall)
    log.note("x" * TAIL_BYTES)
    log.note("last")
    work = log.flush(store)
    assert work is not None
    work()
    tail = store.read(layout.bastion_log("b"))
    assert tail is not None
    assert len(tail.data) <= TAIL_BYTES
    assert tail.data.endswith(b"last\n")


def test_a_lost_line_stops_nothing() -> None:
    """Its own log is the one thing a bastion may fail to write."""
    log, clock, _ = journal()
    store = FaultyStore(
        MemoryStore(clock.wall),
        lambda operation, _: Fault.BEFORE if operation in ("create", "swap") else None,
    )
    log.note("x")
    work = log.flush(store)
    assert work is not None
    work()


def test_what_was_said_is_not_remembered_for_ever() -> None:
    """Problems with thousands of names are each said, and the oldest of them forgotten."""
    log, _, out = journal()
    for n in range(3 * MOST_SAID):
        log.problem(f"inbox/{n}", BastionError("bad"))
    assert out.getvalue().count("bad") == 3 * MOST_SAID
    assert len(log.problems) == MOST_SAID
