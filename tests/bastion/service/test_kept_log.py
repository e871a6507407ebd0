"""The bastion's own log in the bucket: each line once, however the bucket fails."""

from __future__ import annotations

from threading import Event

import pytest

from bastion.clock import VirtualClock
from bastion.errors import StoreRefusedError
from bastion.lane import InlineLane, ThreadLane
from bastion.records.coding.limits import LOG_TAIL_BYTES
from bastion.records.keys import layout
from bastion.service.journal import Journal
from bastion.service.kept_log import FLUSH_S, KeptLog
from bastion.store import ObjectStore, Written
from bastion.store.memory import Fault, FaultyStore, MemoryStore
from tests.rigs.wrapped import Wrapped


class Desk:
    """A journal whose lines are kept in `store`, on a virtual clock."""

    def __init__(self, store: ObjectStore, clock: VirtualClock, *, as_json: bool = False) -> None:
        self.store, self.clock = store, clock
        self.journal = Journal("b", clock, out=None, as_json=as_json)
        self.log = KeptLog(self.journal, store, clock, InlineLane())

    def flush(self) -> None:
        """Flush when it is time."""
        self.log.flush()
        self.clock.advance(FLUSH_S)

    def says(self, line: str) -> None:
        """Log a line and flush."""
        self.journal.note(line)
        self.flush()


def words(text: bytes) -> list[str]:
    """Return the lines without their times."""
    return [line.partition(" ")[2] for line in text.decode().splitlines()]


def tail(store: ObjectStore) -> bytes:
    """Return the tail of the log."""
    found = store.read(layout.bastion_log("b"))
    assert found is not None
    return found.data


def segments(store: ObjectStore) -> list[bytes]:
    """Return the segments of the log, in order."""
    found = [store.read(each.key) for each in store.list(layout.bastion_log_segments("b"))]
    return [each.data for each in found if each is not None]


def desk() -> Desk:
    """Return a journal and its bucket."""
    clock = VirtualClock()
    return Desk(MemoryStore(clock.wall), clock)


def test_lines_are_kept_in_the_bucket() -> None:
    """What is new is a segment, at most every `FLUSH_S`, and the latest lines are the tail."""
    on = desk()
    on.flush()
    for text in ("one", "two"):
        on.journal.note(text)
        on.log.flush()
        on.journal.note("soon after")
        on.log.flush()
        on.clock.advance(FLUSH_S)
    assert [words(each) for each in segments(on.store)] == [["one"], ["soon after", "two"]]
    assert words(tail(on.store)) == ["one", "soon after", "two"]


def test_the_tail_is_bounded() -> None:
    """The tail object never holds more than the latest 64 KiB."""
    on = desk()
    on.journal.note("x" * LOG_TAIL_BYTES)
    on.says("last")
    assert len(tail(on.store)) == LOG_TAIL_BYTES
    assert tail(on.store).endswith(b"last\n")


@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("operation", ["create", "swap", "read"])
def test_lines_wait_until_the_bucket_takes_them(operation: str, fault: Fault) -> None:
    """Each line is in the segments and in the tail once, even if only an answer is lost."""
    clock, failing = VirtualClock(), [False]
    inner = MemoryStore(clock.wall)

    def faults(done: str, _: str) -> Fault | None:
        return fault if failing[0] and done == operation else None

    on = Desk(FaultyStore(inner, faults), clock)
    on.says("one")
    failing[0] = True
    for text in ("two", "three"):
        on.says(text)
    on.flush()
    # A segment whose answer is lost is read back.
    is_known = (operation, fault) == ("create", Fault.AFTER)
    assert [each[:5] for each in on.journal.problems] == ["log: "] * (not is_known)
    failing[0] = False
    for _ in range(3):
        on.flush()
    assert on.journal.problems == ()
    said = [line for line in words(tail(inner)) if "log: " not in line]
    assert said == ["one", "two", "three"]
    assert b"".join(segments(inner)) == tail(inner)


def test_a_restart_keeps_the_lines_of_a_process_that_was_killed() -> None:
    """The tail still has why the last one did not work."""
    on = desk()
    on.says("why")
    on.clock.advance(60.0)
    Desk(on.store, on.clock).says("leads")
    assert words(tail(on.store)) == ["why", "leads"]


def test_a_tail_that_is_not_ours_is_replaced() -> None:
    """A job can create the object before the bastion's first line, of any size."""
    on = desk()
    on.store.create(layout.bastion_log("b"), b"x" * (LOG_TAIL_BYTES + 1))
    on.says("leads")
    assert words(tail(on.store)) == ["leads"]


def test_a_name_that_is_taken_is_not_a_lost_line() -> None:
    """Two bastions of one name write two segments, even in the same microsecond."""
    on = desk()
    other = Desk(on.store, on.clock)
    for each, text in ((on, "mine"), (other, "theirs")):
        each.journal.note(text)
        each.log.flush()
    on.clock.advance(FLUSH_S)
    for _ in range(2):
        other.flush()
    assert [words(each)[0] for each in segments(on.store)] == ["mine", "theirs"]


def test_the_last_lines_are_written_at_the_end() -> None:
    """They do not wait for the next flush, and say how it ended."""
    on = desk()
    on.journal.note("leads")
    on.log.flush()
    on.journal.note("gave up the lead")
    on.log.close()
    assert words(tail(on.store)) == ["leads", "gave up the lead"]


def test_a_bucket_that_hangs_delays_nothing() -> None:
    """The loop only starts the write; a bastion that ends waits for it a second at most."""
    clock, gate = VirtualClock(), Event()

    class Hung(Wrapped):
        def create(self, key: str, data: bytes) -> Written:
            """Answer when the test ends."""
            gate.wait(60.0)
            raise StoreRefusedError("late")

    journal = Journal("b", clock, out=None)
    log = KeptLog(journal, Hung(MemoryStore(clock.wall)), clock, ThreadLane("log", workers=1))
    for _ in range(3):
        journal.note("x")
        log.flush()
        clock.advance(FLUSH_S)
    log.close()
    assert not gate.is_set()
    gate.set()
