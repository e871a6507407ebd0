"""Shipping: all output reaches the bucket, whichever agent ships it and however often."""

from __future__ import annotations

import pytest

from bastion.agent.errands import Errands
from bastion.agent.keeper.attempt.spool import marker
from bastion.agent.keeper.port import MachineFaultError, ProcessExit
from bastion.agent.report.log_shipping import Shipping
from bastion.agent.report.redaction import Redaction
from bastion.errors import NotFoundError
from bastion.lane import InlineLane
from bastion.logs.pace import LOCAL
from bastion.logs.segments import SEGMENT_BYTES, segment_key
from bastion.records.keys import layout
from bastion.store.memory import Fault, FaultyStore, MemoryStore
from bastion.store.port import ObjectStore
from tests.rigs.agent import OF, Bucket

PREFIX = layout.log(OF.project, OF.job, OF.attempt, replica=0, host=0, process=0)


def ended(size_bytes: int, *, untold_bytes: int = 0) -> tuple[ProcessExit, ...]:
    """Return how the one process ended, with a log of that size in the spool."""
    process = ProcessExit(
        code=0,
        signal=None,
        setup_failure="",
        ended_at=1.0,
        log_size_bytes=size_bytes,
        dropped_bytes=untold_bytes,
        untold_bytes=untold_bytes,
    )
    return (process,)


class Bench:
    """A spool of one process, and the agent that ships it."""

    def __init__(
        self,
        store: ObjectStore | None = None,
        *,
        is_new: bool = True,
        secrets: tuple[str, ...] | None = (),
    ) -> None:
        self.redaction = Redaction(secrets)
        self.is_unreadable = False
        self.store = store or MemoryStore(lambda: 0.0)
        self.log = b""
        self.now = 0.0
        self.restart(is_new=is_new)

    def restart(self, *, is_new: bool = False) -> None:
        """Ship with a new agent."""
        self.errands = Errands(InlineLane(), InlineLane(), retry_s=1.0, say=lambda _: None)
        self.shipping = Shipping(
            self.store,
            self,
            self.errands,
            LOCAL,
            key="k",
            prefixes=(PREFIX,),
            is_new=is_new,
            started_at=0.0,
            redaction=self.redaction,
        )

    def read(self, key: str, process: int, *, offset: int, size_bytes: int) -> bytes:
        """Read as a spool does."""
        if self.log is None:
            raise NotFoundError("gone")
        if self.is_unreadable:
            raise MachineFaultError("Too many open files")
        return self.log[offset : offset + size_bytes]

    def write(self, data: bytes) -> None:
        """Let the process write."""
        self.log += data
        self.shipping.grew(0, len(self.log), self.now)

    def pass_s(self, seconds: float) -> int:
        """Let time pass; return how many turns sent something."""
        sent = self.errands.sent
        deadline = self.now + seconds
        while self.now < deadline:
            self.errands.collect(self.now)
            self.shipping.turn(self.now)
            self.now += 0.01
        self.errands.collect(self.now)
        return self.errands.sent - sent


def test_a_flood_is_sent_in_bounded_pieces() -> None:
    """No errand sends more than 16 MiB, no segment has more than 1 MiB, and nothing is lost."""
    bench = Bench()
    bench.write(b"x" * (40 << 20))
    bench.shipping.close(ended(40 << 20))
    assert bench.pass_s(1.0) == 3
    assert bench.shipping.is_complete
    entries = bench.store.list(PREFIX)
    assert max(entry.size for entry in entries) == SEGMENT_BYTES
    assert sum(entry.size for entry in entries) == 40 << 20


def test_a_steady_stream_is_paced() -> None:
    """A process that prints continuously costs a segment per tenth of a second, not per line."""
    bench = Bench()
    for _ in range(100):
        bench.write(b"line\n")
        bench.pass_s(0.01)
    assert 8 <= len(bench.store.list(PREFIX)) <= 14


def test_a_new_agent_goes_on_where_the_log_stands() -> None:
    """The next agent lists once, and continues without gap or overlap."""
    bench = Bench()
    bench.write(b"one\n")
    bench.pass_s(0.5)
    bench.restart()
    bench.log += b"two\n"
    bench.shipping.grew(0, len(bench.log), bench.now)
    bench.shipping.close(ended(8))
    bench.pass_s(0.5)
    assert bench.shipping.is_complete
    assert Bucket(bench.store).log() == b"one\ntwo\n"


@pytest.mark.parametrize("fault", Fault)
def test_a_piece_in_doubt_is_sent_again_as_it_was(fault: Fault) -> None:
    """The second try sends what was frozen before the first, even if more has arrived."""
    left = [1]

    def faults(operation: str, _: str) -> Fault | None:
        left[0] -= operation == "create"
        return fault if operation == "create" and left[0] == 0 else None

    bench = Bench(FaultyStore(MemoryStore(lambda: 0.0), faults))
    bench.write(b"one\n")
    bench.shipping.turn(bench.now)
    bench.errands.collect(bench.now)
    bench.write(b"two\n")
    bench.pass_s(1.0)
    first, second = bench.store.list(PREFIX)
    assert (first.size, second.size) == (4, 4)
    assert Bucket(bench.store).log() == b"one\ntwo\n"


def test_foreign_bytes_break_the_log_and_are_reported() -> None:
    """At foreign bytes, the log ends and the reason is kept."""
    bench = Bench()
    bench.store.create(segment_key(PREFIX, 0), b"else")
    bench.write(b"one\n")
    bench.shipping.close(ended(4))
    bench.pass_s(0.5)
    assert "not this log's" in bench.shipping.broken
    assert not bench.shipping.is_complete


def test_a_spool_that_lost_bytes_is_reported() -> None:
    """A spool that ends earlier than announced ends the log, and is never padded."""
    bench = Bench()
    bench.write(b"one\n")
    bench.log = b"on"
    bench.shipping.close(ended(4))
    bench.pass_s(0.5)
    assert "ends at 2 bytes, 4 were announced" in bench.shipping.broken


def test_nothing_printed_needs_no_segment() -> None:
    """A silent process is complete without a call to the store."""
    store = FaultyStore(MemoryStore(lambda: 0.0), lambda *_: None)
    bench = Bench(store)
    bench.shipping.close(ended(0))
    assert bench.shipping.is_complete
    assert bench.pass_s(0.1) == 0
    assert sum(store.counts.values()) == 0


SECRET = "hf_s3cr3t-token"


def test_a_secret_split_over_writes_and_flushes_is_masked() -> None:
    """Bytes that may begin a value wait for the next ones; offsets and sizes stay correct."""
    bench = Bench(secrets=(SECRET,))
    for part in (b"token hf_s3c", b"r3t-tok", b"en is set\nhf_s", b"o what\n"):
        bench.write(part)
        bench.pass_s(2.0)
        assert b"hf_s3c" not in Bucket(bench.store).log()
    bench.shipping.close(ended(len(bench.log)))
    bench.pass_s(1.0)
    assert Bucket(bench.store).log() == b"token *************** is set\nhf_so what\n"


def test_a_log_that_ends_within_a_secret_does_not_show_its_beginning() -> None:
    """A process that is killed while it prints a value leaves none of it in the bucket."""
    bench = Bench(secrets=(SECRET,))
    bench.write(b"is hf_s3cr3t-tok")
    bench.pass_s(2.0)
    assert Bucket(bench.store).log() == b"is "
    bench.shipping.close(ended(len(bench.log)))
    bench.pass_s(1.0)
    assert Bucket(bench.store).log() == b"is *************"
    assert bench.shipping.last_lines(0, 4) == "****"


def test_waiting_bytes_do_not_keep_the_agent_busy() -> None:
    """While only the beginning of a value is new, nothing is sent repeatedly."""
    bench = Bench(secrets=(SECRET,))
    bench.write(b"hf_s3cr3t")
    bench.pass_s(1.0)
    assert bench.pass_s(5.0) == 0


def test_a_secret_across_segments_is_masked() -> None:
    """If a segment ends within a value, both parts are masked."""
    bench = Bench(secrets=(SECRET,))
    bench.write(b"x" * (SEGMENT_BYTES - 5) + SECRET.encode() + b"y\n")
    bench.shipping.close(ended(len(bench.log)))
    bench.pass_s(1.0)
    assert len(bench.store.list(PREFIX)) == 2
    assert Bucket(bench.store).log() == b"x" * (SEGMENT_BYTES - 5) + b"*" * 15 + b"y\n"


def test_another_agent_masks_the_same() -> None:
    """A segment without an answer is written again by the next agent, byte for byte."""
    memory = MemoryStore(lambda: 0.0)
    faults = iter([Fault.AFTER])
    bench = Bench(FaultyStore(memory, lambda operation, _: next(faults, None)), secrets=(SECRET,))
    bench.write(f"a {SECRET} b".encode())
    bench.pass_s(0.05)
    bench.restart()
    bench.write(b"c\n")
    bench.pass_s(2.0)
    assert Bucket(memory).log() == b"a *************** bc\n"
    assert not bench.shipping.broken


def test_what_cannot_be_masked_any_more_is_masked_whole() -> None:
    """If a keeper died with the values, everything unsent of a log becomes asterisks."""
    bench = Bench(secrets=(SECRET,))
    bench.write(b"begin\n")
    bench.pass_s(2.0)
    bench.redaction = Redaction(None)
    bench.restart()
    bench.write(f"{SECRET}\nmore\n".encode())
    bench.shipping.close(ended(len(bench.log)))
    bench.pass_s(2.0)
    assert Bucket(bench.store).log() == b"begin\n***************\n****\n"


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_cut_that_the_spool_has_no_room_to_tell_of_is_told(*, is_restarted: bool) -> None:
    """The log in the bucket ends with the marker, whichever agent sends it."""
    bench = Bench()
    bench.write(b"one\n")
    bench.pass_s(1.0)
    if is_restarted:
        bench.restart()
    bench.shipping.close(ended(4, untold_bytes=45))
    bench.pass_s(1.0)
    assert bench.shipping.is_complete
    segments = [bench.store.read(entry.key) for entry in bench.store.list(PREFIX)]
    assert b"".join(found.data for found in segments if found) == b"one\n" + marker(45)
    assert bench.shipping.last_lines(0, 100) == "one\n"


def test_a_marker_is_not_masked_and_what_it_cuts_is() -> None:
    """A secret cut off by a full disk is masked as at any end of a log."""
    bench = Bench(secrets=("truncated-secret-value", "dropped]-and-more"))
    bench.write(b"is truncated-secret")
    bench.shipping.close(ended(19, untold_bytes=7))
    bench.pass_s(1.0)
    segments = [bench.store.read(entry.key) for entry in bench.store.list(PREFIX)]
    sent = b"".join(found.data for found in segments if found)
    assert sent == b"is " + b"*" * 16 + marker(7)


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_log_that_the_machine_cannot_read_is_sent_later(*, is_closed: bool) -> None:
    """Without a descriptor, nothing is given up: the output is sent once it can be."""
    bench = Bench(secrets=("some-secret-value",))
    bench.write(b"one\n")
    bench.pass_s(1.0)
    bench.is_unreadable = True
    bench.write(b"two\n")
    if is_closed:
        bench.shipping.close(ended(8))
        assert bench.shipping.last_lines(0, 100) == ""
    bench.pass_s(5.0)
    assert not bench.shipping.broken
    bench.is_unreadable = False
    bench.pass_s(5.0)
    segments = [bench.store.read(entry.key) for entry in bench.store.list(PREFIX)]
    assert b"".join(found.data for found in segments if found) == b"one\ntwo\n"
    assert bench.shipping.is_complete is is_closed
