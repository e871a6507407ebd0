"""The bastion's own log: each problem once a minute, and never in the way."""

from __future__ import annotations

import errno
import io
import json
import os

from bastion.clock import VirtualClock
from bastion.errors import BastionError, StoreError
from bastion.records.root import Event
from bastion.service.journal import MOST_PENDING, MOST_SAID, OVER_S, Journal


def journal() -> tuple[Journal, VirtualClock, io.StringIO]:
    """Return a journal, its clock, and its output."""
    clock, out = VirtualClock(), io.StringIO()
    return Journal("b", clock, out=out), clock, out


def test_a_line_has_its_time() -> None:
    """Each line begins with the date in UTC."""
    log, _, out = journal()
    log.note("leads")
    assert out.getvalue() == "2023-11-14T22:13:20Z leads\n"


def test_what_others_wrote_is_one_harmless_line() -> None:
    """A user's command appears as an event, and a server's answer as a problem."""
    log, _, out = journal()
    text = "echo a\n2023-11-14T22:13:20Z leads\x1b[2J\u202e"
    log.tell_events([Event(n=1, at=0.0, job="j", what="failed", text=text)])
    log.problem("store", StoreError("503 \x1b]0;title\x07"))
    first, second = out.getvalue().splitlines()
    assert first.endswith(r"j failed: echo a\n2023-11-14T22:13:20Z leads\x1b[2J\u202e")
    assert second.endswith(r"store: 503 \x1b]0;title\x07")


class Disk(io.StringIO):
    """A file on a disk that may be full."""

    is_full = False

    def write(self, text: str) -> int:
        """Write, or fail as the system does."""
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(text)


def test_a_line_that_a_full_disk_refuses_is_kept_in_the_bucket() -> None:
    """The bastion continues, `status` says why its own log is silent, and room ends the problem."""
    out, clock = Disk(), VirtualClock()
    log = Journal("b", clock, out=out)
    out.is_full = True
    log.note("leads")
    why = "cannot be written: No space left on device; the bucket has its lines"
    assert list(log.problems) == [f"standard error: {why}"]
    assert log.drain().endswith(" leads\n")
    out.is_full = False
    log.note("goes on")
    assert list(log.problems) == []


def test_a_problem_is_said_once_a_minute() -> None:
    """A repeated problem is one line per minute; another text is logged immediately."""
    log, clock, out = journal()
    for _ in range(100):
        log.problem("store", StoreError("out of reach"))
        clock.advance(1.0)
    assert out.getvalue().count("out of reach") == 2
    log.problem("store", StoreError("refused"))
    assert "refused" in out.getvalue()
    assert list(log.problems) == ["store: refused"]
    clock.advance(61.0)
    assert list(log.problems) == []


def test_a_bug_is_said_once_a_minute_whatever_its_message() -> None:
    """The message has the time; a bug at another place is logged immediately."""
    log, clock, out = journal()

    def fail(key: str) -> None:
        try:
            raise KeyError(key)
        except KeyError as error:
            log.failure("scheduler", error)

    for second in range(100):
        fail(f"at {second}")
        clock.advance(1.0)
    assert out.getvalue().count("internal error") == 2
    try:
        raise KeyError("elsewhere")
    except KeyError as error:
        log.failure("scheduler", error)
    assert "elsewhere" in out.getvalue()


def test_a_problem_that_is_solved_is_none_any_more() -> None:
    """Success ends a problem; if it returns soon, it is listed but not logged again."""
    log, clock, out = journal()
    log.solved("store")
    log.problem("store", StoreError("the disk is full"))
    log.solved("store")
    assert list(log.problems) == []
    clock.advance(1.0)
    log.problem("store", StoreError("the disk is full"))
    assert list(log.problems) == ["store: the disk is full"]
    assert out.getvalue().count("the disk is full") == 1


def test_what_is_lacking_is_said_once_and_stays_a_problem() -> None:
    """It is one line of the log, and is among the problems as long as the bastion runs."""
    log, clock, out = journal()
    for _ in range(3):
        log.lack("history", "no DuckDB")
        clock.advance(3600.0)
    assert out.getvalue().count("warning: history: no DuckDB") == 1
    assert log.problems == ("history: no DuckDB",)


def test_a_hint_goes_along() -> None:
    """The hint is logged with the problem."""
    log, _, out = journal()
    log.problem("x", BastionError("wrong", hint="do this"))
    assert "x: wrong (hint: do this)\n" in out.getvalue()


def test_a_bug_is_said_with_its_traceback() -> None:
    """An internal error says where it happened."""
    log, _, out = journal()
    try:
        raise ValueError("boom")
    except ValueError as error:
        log.failure("monitor", error)
    assert "internal error" in out.getvalue()
    assert "test_journal.py" in out.getvalue()


def test_lines_that_nothing_takes_are_bounded() -> None:
    """The oldest are dropped, and the rest begins with how many are missing."""
    log, _, _ = journal()
    line = "x" * 999
    for n in range(2 * MOST_PENDING // 1000):
        log.note(f"{n} {line}")
    first, *rest = log.drain().splitlines()
    assert len("".join(rest)) <= MOST_PENDING
    left = int(rest[0].split()[1])
    assert f" warning: {left:,} lines are missing here" in first
    assert rest[-1].endswith(f"{2 * MOST_PENDING // 1000 - 1} {line}")
    log.note("last")
    assert log.drain().splitlines()[0].endswith("Z last")


def test_a_refusal_that_meets_a_thousand_objects_is_one_problem() -> None:
    """One of them is logged, once a minute; another one takes its place once that is solved."""
    log, clock, out = journal()
    for _ in range(70):
        for n in range(1000):
            log.problem("final records", StoreError(f"jobs/{n} is refused"), of=f"{n}")
        clock.advance(1.0)
    assert [line.partition("jobs/")[2] for line in out.getvalue().splitlines()] == [
        "0 is refused"
    ] * 2
    log.solved("final records", of="1")
    assert list(log.problems) == ["final records: jobs/0 is refused"]
    log.solved("final records", of="0")
    assert list(log.problems) == []
    for n in (2, 3):
        log.problem("final records", StoreError(f"jobs/{n} is refused"), of=f"{n}")
        assert list(log.problems) == [f"final records: jobs/{n} is refused"]
        clock.advance(60.0)


def test_the_end_of_a_long_problem_is_said_with_how_long_it_took() -> None:
    """One that lasts for a call or two gets no such line, and one that returns starts again."""
    log, clock, out = journal()
    for lasts_s in (OVER_S / 2, OVER_S):
        log.problem("store", StoreError("out of reach"))
        clock.advance(lasts_s)
        log.problem("store", StoreError("still out of reach"))
        log.solved("store")
        log.solved("store")
        clock.advance(3600.0)
    ended = [line for line in out.getvalue().splitlines() if "works again" in line]
    assert [line.partition(" ")[2] for line in ended] == ["store: works again after 10s"]


def test_what_was_said_is_not_remembered_for_ever() -> None:
    """Problems with thousands of names are each logged, and the oldest are forgotten."""
    log, _, out = journal()
    for n in range(3 * MOST_SAID):
        log.problem(f"inbox/{n}", BastionError("bad"))
    assert out.getvalue().count("bad") == 3 * MOST_SAID
    assert len(log.problems) == MOST_SAID


def test_what_was_committed_is_told_at_its_level() -> None:
    """Machines and jobs have their names; bad events stand out, and temporary ones are left out."""
    log, _, out = journal()
    log.tell_events(
        [
            Event(n=1, at=0.0, what="machine ready", text="laptop-1-0 (8 h100)"),
            Event(n=2, at=0.0, what="failed", job="a-0123456789", text="exited with code 3"),
            Event(n=3, at=0.0, what="draining", job="a-0123456789"),
            Event(n=4, at=0.0, what="notification dropped", job="a-0123456789", text="200 wait"),
        ]
    )
    assert [line.partition(" ")[2] for line in out.getvalue().splitlines()] == [
        "machine ready: laptop-1-0 (8 h100)",
        "warning: a-0123456789 failed: exited with code 3",
        "warning: a-0123456789 notification dropped: 200 wait",
    ]


def test_many_events_of_one_kind_are_one_line() -> None:
    """The tasks of an array do not bury what else happened in the same commit."""
    log, _, out = journal()
    log.tell_events(Event(n=n, at=0.0, what="running", job=f"s.{n}") for n in range(1000))
    assert out.getvalue().endswith("running: 1000 jobs, s.0 the first\n")
    assert len(out.getvalue().splitlines()) == 1


def test_a_log_for_programs_is_json() -> None:
    """It has one object per line, with the names that programs expect."""
    out = io.StringIO()
    log = Journal("b", VirtualClock(), out=out, level="warning", as_json=True)
    log.note("nothing of note")
    log.tell_events([Event(n=1, at=0.0, what="lost", job="a", project="blue", text="gone")])
    assert json.loads(out.getvalue()) == {
        "at": "2023-11-14T22:13:20Z",
        "level": "warning",
        "bastion": "b",
        "text": "a lost: gone",
        "job": "a",
        "project": "blue",
        "what": "lost",
    }
