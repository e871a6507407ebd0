"""The output of jobs: complete, its end, its lines, and live."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bastion.client import Chunk, Client, Wanted
from bastion.client.follow.lines import in_lines
from bastion.client.follow.log_filter import Grep, last_lines
from bastion.client.follow.log_reader import JobLog, follow
from bastion.client.patience import REFUSED_PART_S, Outage
from bastion.errors import NotFoundError, SpecError, StoreRefusedError
from bastion.logs.segments import segment_key
from bastion.records.keys import layout
from bastion.records.keys.layout import LogStream
from bastion.records.requests.job_request import MAX_TARGETS, FollowRequest
from bastion.store.memory import Fault, FaultyStore, MemoryStore
from bastion.store.port import Entry
from tests.rigs.scripted_bastion import (
    NOW,
    Clock,
    ScriptedBastion,
    end,
    print_log,
    publish,
    row,
    world,
)

JOB = "train-0123456789"
STREAM = LogStream(attempt=1, replica=0, host=0, process=0)


def read(store: MemoryStore, wanted: Wanted | None = None) -> bytes:
    """Return what the job's log contains now."""
    log = JobLog(store, "blue", JOB)
    return b"".join(chunk.data for chunk in log.read(wanted or Wanted()))


def test_a_log_is_read_byte_for_byte() -> None:
    """Any bytes that a program printed come back, cut anywhere."""
    store, _ = world()
    print_log(store, JOB, b"\x00\xff\n", b"\r", b"\xf0\x9f", b"\x8d\x8e no end")
    assert read(store) == b"\x00\xff\n\r\xf0\x9f\x8d\x8e no end"


def test_the_newest_attempt_is_meant_unless_said_otherwise() -> None:
    """Attempts are compared as numbers: the tenth is newer than the second."""
    store, _ = world()
    for attempt in (1, 2, 10):
        print_log(store, JOB, f"attempt {attempt}\n".encode(), attempt=attempt)
    assert read(store) == b"attempt 10\n"
    assert read(store, Wanted(attempt=2)) == b"attempt 2\n"
    assert read(store, Wanted(attempt=0)) == b"attempt 1\nattempt 2\nattempt 10\n"


def test_replicas_come_one_after_the_other() -> None:
    """Chunks name their replica; one replica can be selected."""
    store, _ = world()
    print_log(store, JOB, b"a\n", replica=1)
    print_log(store, JOB, b"b\n", replica=0)
    assert [chunk.stream.replica for chunk in JobLog(store, "blue", JOB).read(Wanted())] == [0, 1]
    assert read(store, Wanted(replica=1)) == b"a\n"
    assert read(store, Wanted(process=1)) == b""


def test_a_chunk_is_text_too() -> None:
    """Invalid UTF-8 is replaced, and never an error."""
    store, _ = world()
    print_log(store, JOB, "naïve\n".encode() + b"\xff")
    assert (
        "".join(chunk.text for chunk in JobLog(store, "blue", JOB).read(Wanted()))
        == "naïve\n\ufffd"
    )


def test_what_is_deleted_while_it_is_read_is_told() -> None:
    """A log that is deleted by age meanwhile is not mistaken for one that ends there."""
    store, _ = world()
    print_log(store, JOB, b"one\n", b"two\n", b"three\n")
    prefix = JobLog(store, "blue", JOB).prefix(STREAM)
    chunks = JobLog(store, "blue", JOB).read(Wanted())
    assert next(chunks).data == b"one\n"
    store.delete(segment_key(prefix, 4))
    with pytest.raises(NotFoundError, match="bytes 4 to 8 are missing"):
        next(chunks)


def test_what_is_deleted_before_a_follower_comes_to_it_is_told() -> None:
    """Nothing begins behind its position: the output is incomplete."""
    store, _ = world()
    print_log(store, JOB, b"one\n", b"two\n", b"three\n")
    log = JobLog(store, "blue", JOB)
    follower = log.followed(Wanted(), outage=Outage(Clock(), say=lambda _: None))
    chunks = follower.look(ended=True)
    assert next(chunks).data == b"one\n"
    for offset in (0, 4):
        store.delete(segment_key(log.prefix(STREAM), offset))
    with pytest.raises(NotFoundError, match="bytes 4 to 8 are missing"):
        next(chunks)


def test_a_line_that_never_ends_costs_no_more_than_its_bytes() -> None:
    """A progress bar prints one line all day: rejoining it at every part would take an hour."""
    count, part = 60_000, b"\r 45% " + b"#" * 1000
    chunk = Chunk(job=JOB, stream=STREAM, offset=0, data=part)
    parts = (replace(chunk, offset=n * len(part)) for n in range(count))
    (line,) = in_lines(parts)
    assert (line.offset, len(line.data)) == (0, count * len(part))
    grep = Grep("45%")
    assert not any(grep.take(STREAM, part) for _ in range(count))
    assert grep.take(STREAM, b"\nnext") == line.data + b"\n"
    assert grep.rest(STREAM) == b""


def test_a_gap_is_told_not_hidden() -> None:
    """Bytes that were never stored are an error that says which."""
    store, _ = world()
    print_log(store, JOB, b"abc", b"defg")
    prefix = layout.log("blue", JOB, 1, replica=0, host=0, process=0)
    store.create(f"{prefix}{layout.padded(9)}.log", b"late")
    with pytest.raises(NotFoundError, match="bytes 7 to 9 are missing"):
        read(store)


def test_a_beginning_that_was_deleted_is_told() -> None:
    """A rule for old objects removes the first parts; the last lines are still printed."""
    store, _ = world()
    print_log(store, JOB, b"abc\n", b"defg\n")
    prefix = layout.log("blue", JOB, 1, replica=0, host=0, process=0)
    store.delete(f"{prefix}{layout.padded(0)}.log")
    with pytest.raises(NotFoundError, match="bytes 0 to 4 are missing"):
        read(store)
    assert read(store, Wanted(tail=9)) == b"defg\n"
    assert read(store, Wanted(since=0.0)) == b"defg\n"


@given(st.lists(st.binary(min_size=1, max_size=8), max_size=12), st.integers(0, 8))
def test_the_tail_is_the_last_lines(parts: list[bytes], count: int) -> None:
    """However the log is cut into segments, its last lines are the same."""
    store, _ = world()
    parts = [part.replace(b"a", b"\n") for part in parts]
    print_log(store, JOB, *parts)
    lines = _lines(b"".join(parts))
    assert read(store, Wanted(tail=count)) == b"".join(lines[len(lines) - min(count, len(lines)) :])


def _lines(data: bytes) -> list[bytes]:
    """Split lines only at a newline byte."""
    ended = data.split(b"\n")
    return [line + b"\n" for line in ended[:-1]] + ([ended[-1]] if ended[-1] else [])


@given(st.binary(max_size=40), st.integers(0, 6))
def test_last_lines_keep_the_end(data: bytes, count: int) -> None:
    """The last lines are a suffix, as many as requested if there are enough."""
    kept = last_lines(data, count)
    assert data.endswith(kept)
    assert len(_lines(kept)) == min(count, len(_lines(data)))


@given(st.lists(st.binary(max_size=6), max_size=10))
def test_grep_does_not_care_where_segments_end(parts: list[bytes]) -> None:
    """A line across two segments is found like one within a segment."""
    parts = [part.replace(b"z", b"\n") for part in parts]
    cut, whole = Grep("[a-m]"), Grep("[a-m]")
    found = b"".join(cut.take(STREAM, part) for part in parts) + cut.rest(STREAM)
    assert found == whole.take(STREAM, b"".join(parts)) + whole.rest(STREAM)


def test_grep_keeps_the_lines_that_match() -> None:
    """Only lines that match are shown, including a last one without an end."""
    store, _ = world()
    print_log(store, JOB, b"loss 1\nstep", b" 2\nlo", b"ss 3")
    assert read(store, Wanted(grep="^loss")) == b"loss 1\nloss 3"


def test_since_leaves_older_segments_out() -> None:
    """The store's own time counts, in whole segments."""
    store, clock = world()
    print_log(store, JOB, b"old\n")
    clock.advance(100)
    print_log(store, JOB, b"new\n")
    assert read(store, Wanted(since=clock.wall() - 50)) == b"new\n"


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: Wanted(tail=-1), "tail: -1 is not allowed; 0 or more lines"),
        (lambda: Wanted(since="1h"), "since: '1h' is not a number or None"),  # type: ignore[arg-type]
        (lambda: Wanted(replica="0"), "replica: '0' is not a whole number or None"),  # type: ignore[arg-type]
        (lambda: Wanted(grep=b"x"), r"grep: bytes\(...\) is not text"),  # type: ignore[arg-type]
        (lambda: Wanted(grep="\udce9"), "grep: .* is not UTF-8"),
        (lambda: Wanted(grep="("), r"grep: '\(' is not a regular expression"),
    ],
)
def test_what_cannot_be_wanted_is_refused(made: Callable[[], Wanted], message: str) -> None:
    """Errors of the flags come before any read."""
    with pytest.raises(SpecError, match=message):
        made()


def followed(
    script: list[Callable[[], None]], *, wanted: Wanted | None = None
) -> tuple[Callable[[], list[Chunk]], MemoryStore]:
    """Return a client that follows the job while `script` plays, one step per sleep."""
    store, clock = world()
    publish(store, "queue", {"jobs": [row(JOB, state="running")]})
    steps = iter(script)
    clock.on_sleep.append(lambda: next(steps, lambda: None)())
    client = Client("memory:", user="ada", store=store, clock=clock)
    return lambda: list(client.logs("train", wanted, follow=True)), store


def test_following_shows_everything_and_ends_with_the_job() -> None:
    """New output, later attempts and the very end are all shown once."""
    script: list[Callable[[], None]] = []
    watched, store = followed(script)
    print_log(store, JOB, b"before\n")
    script.extend(
        (
            lambda: print_log(store, JOB, b"during\n"),
            lambda: None,
            lambda: print_log(store, JOB, b"second attempt\n", attempt=2),
            lambda: print_log(store, JOB, b"last words", attempt=2),
            lambda: end(store, JOB),
        )
    )
    data = b"".join(chunk.data for chunk in watched())
    assert data == b"before\nduring\nsecond attempt\nlast words"


def test_following_from_the_tail_misses_nothing_that_comes() -> None:
    """The tail is about the existing output; everything after it is shown."""
    script: list[Callable[[], None]] = []
    watched, store = followed(script, wanted=Wanted(tail=1))
    print_log(store, JOB, b"one\ntwo\n")
    script.extend((lambda: print_log(store, JOB, b"three\n"), lambda: end(store, JOB)))
    assert [chunk.data for chunk in watched()] == [b"two\n", b"three\n"]


@given(st.data())
@settings(max_examples=60)
def test_following_outlives_a_store_that_stutters(data: st.DataObject) -> None:
    """Whatever reads and lists fail, every byte is shown once."""
    store, clock = world()
    publish(store, "queue", {"jobs": [row(JOB, state="running")]})
    print_log(store, JOB, b"old 1\n", b"old 2\n")
    steps = iter(
        (
            lambda: print_log(store, JOB, b"new 3\n"),
            lambda: None,
            lambda: print_log(store, JOB, b"new 4\n", attempt=2),
            lambda: end(store, JOB),
        )
    )
    clock.on_sleep.append(lambda: next(steps, lambda: None)())
    failing = data.draw(st.lists(st.booleans(), max_size=40).map(iter))
    faulty = FaultyStore(store, lambda op, key: Fault.BEFORE if next(failing, False) else None)
    tail = data.draw(st.sampled_from((None, 1)))
    log = JobLog(faulty, "blue", JOB)
    chunks = follow(
        [log.followed(Wanted(tail=tail), outage=Outage(clock, say=lambda _: None))],
        lambda: {JOB} if store.list("jobs/") else set(),
        clock,
        poll_s=1,
    )
    shown = b"".join(chunk.data for chunk in chunks)
    lines = [b"old 1\n", b"old 2\n", b"new 3\n", b"new 4\n"]
    # Output before the first successful look may count as existing.
    assert shown in (b"".join(lines[n:]) for n in ((0, 3) if tail is None else (1, 2, 3)))


def test_a_log_that_is_refused_is_told_though_views_are_given(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A user who can read the views but not a log gets a message, and does not just wait."""
    store, clock = world()
    publish(store, "queue", {"jobs": [row(JOB, state="running")]})
    print_log(store, JOB, b"words\n")
    may_read: list[bool] = []
    clock.on_sleep.append(lambda: may_read.append(True) if caplog.messages else None)
    clock.on_sleep.append(lambda: end(store, JOB) if len(may_read) == 2 else None)

    def fault(_: str, key: str) -> Fault | None:
        return Fault.BEFORE if key.startswith("logs/") and not may_read else None

    client = Client("memory:", user="ada", store=FaultyStore(store, fault), clock=clock)
    shown = b"".join(chunk.data for chunk in client.logs("train", follow=True))
    assert shown == b"words\n"
    assert caplog.messages == [
        f"list of 'logs/blue/{JOB}/' was never answered; trying again",
        "the store answers again",
    ]


class Guarded(MemoryStore):
    """A store that refuses to list what is below each of `refused`."""

    refused: tuple[str, ...] = ()

    def list(self, prefix: str, *, start_after: str = "", limit: int = 1000) -> tuple[Entry, ...]:
        """See the port."""
        if prefix.startswith(self.refused):
            raise StoreRefusedError(f"s3://b refuses ada to list {prefix!r}", hint="ask an admin")
        return super().list(prefix, start_after=start_after, limit=limit)


def test_a_log_that_stays_refused_ends_the_following_with_an_error() -> None:
    """A right that is missing for a minute is not given by waiting, even if the job has ended."""
    clock = Clock()
    store = Guarded(clock.wall)
    publish(store, "queue", {"jobs": [row(JOB, state="running")]})
    store.refused = ("logs/",)
    client = Client("memory:", user="ada", store=store, clock=clock)
    began = clock.monotonic()
    with pytest.raises(StoreRefusedError) as refused:
        list(client.logs("train", follow=True))
    assert REFUSED_PART_S <= clock.monotonic() - began < REFUSED_PART_S + 5
    assert refused.value.message == (
        f"s3://b refuses ada to list 'logs/blue/{JOB}/', for 60 seconds; the rest of the bucket can"
        " be read"
    )
    assert refused.value.hint == "ask an admin; nothing was stopped"


def test_a_log_that_is_refused_stops_no_other() -> None:
    """The others are shown to their ends, and then the error is raised."""
    clock = Clock()
    store = Guarded(clock.wall)
    other = "eval-0123456789"
    publish(store, "queue", {"jobs": [row(JOB, state="running"), row(other, state="running")]})
    store.refused = (f"logs/blue/{JOB}/",)
    outage = Outage(clock, say=lambda _: None)
    logs = [JobLog(store, "blue", job).followed(Wanted(), outage=outage) for job in (JOB, other)]
    shown = b""
    until = clock.monotonic() + 2 * REFUSED_PART_S

    def ended() -> set[str]:
        outage.over()
        if clock.monotonic() < until:
            return set()
        if not shown:
            print_log(store, other, b"late\n")
        return {JOB, other}

    with pytest.raises(StoreRefusedError):
        for chunk in follow(logs, ended, clock, poll_s=1):
            shown += chunk.data
    assert shown == b"late\n"


def test_a_refusal_that_passes_costs_no_line() -> None:
    """A binding that is changed takes seconds; each new refusal has its own minute."""
    clock = Clock()
    store = Guarded(clock.wall)
    publish(store, "queue", {"jobs": [row(JOB, state="running")]})
    print_log(store, JOB, b"words\n")
    until = clock.monotonic() + 0.9 * REFUSED_PART_S
    again = until + 1, until + 1 + 0.9 * REFUSED_PART_S

    def guard() -> None:
        now = clock.monotonic()
        store.refused = ("logs/",) if now < until or again[0] < now < again[1] else ()
        if now > again[1] and not store.list("jobs/"):
            end(store, JOB)

    clock.on_sleep.append(guard)
    store.refused = ("logs/",)
    client = Client("memory:", user="ada", store=store, clock=clock)
    assert b"".join(chunk.data for chunk in client.logs("train", follow=True)) == b"words\n"


def test_a_gap_is_told_when_following_ends() -> None:
    """Following stops before a gap, and reports it at the end."""
    script: list[Callable[[], None]] = []
    watched, store = followed(script)
    prefix = layout.log("blue", JOB, 1, replica=0, host=0, process=0)
    store.create(f"{prefix}{layout.padded(0)}.log", b"abc")
    store.create(f"{prefix}{layout.padded(5)}.log", b"late")
    script.append(lambda: end(store, JOB))
    with pytest.raises(NotFoundError, match="bytes 3 to 5 are missing"):
        watched()


def test_a_beginning_that_was_deleted_is_told_when_following_begins() -> None:
    """It would otherwise wait for its first byte until the job ends."""
    script: list[Callable[[], None]] = []
    watched, store = followed(script)
    prefix = layout.log("blue", JOB, 1, replica=0, host=0, process=0)
    store.create(f"{prefix}{layout.padded(5)}.log", b"late")
    script.append(lambda: end(store, JOB))
    with pytest.raises(NotFoundError, match="bytes 0 to 5 are missing"):
        watched()


def test_following_a_job_that_prints_nothing_ends_too() -> None:
    """A silent job is followed until its record is written."""
    script: list[Callable[[], None]] = [lambda: None]
    watched, store = followed(script)
    script.append(lambda: end(store, JOB))
    assert watched() == []


def test_on_a_cloud_the_bastion_is_told_that_a_user_follows() -> None:
    """There is one note every 45 s, so agents flush immediately; none if they do anyway."""
    store, clock = world()
    bastion = ScriptedBastion(store, clock)
    publish(store, "queue", {"jobs": [row(JOB, state="running")]})
    began = clock.monotonic()
    clock.on_sleep.append(
        lambda: end(store, JOB) if clock.monotonic() - began > 100 and _runs(store) else None
    )
    client = Client("gs://bucket/x", user="ada", store=store, clock=clock)
    list(client.logs("train", follow=True))
    notes = [body for _, body in bastion.taken if isinstance(body, FollowRequest)]
    assert notes == [FollowRequest(targets=(JOB,))] * 3


def test_more_jobs_than_a_request_may_name_are_followed() -> None:
    """The bastion gets all of them, in as many notes as needed."""
    store, clock = world()
    bastion = ScriptedBastion(store, clock)
    jobs = {f"job{n:04}-0123456789": "blue" for n in range(MAX_TARGETS + 1)}
    publish(store, "queue", {"jobs": []})
    for job in jobs:
        end(store, job)
    client = Client("gs://bucket/x", user="ada", store=store, clock=clock)
    assert list(client.following.of_new(jobs, tell=lambda _: None)) == []
    bastion.turn()
    notes = [body for _, body in bastion.taken if isinstance(body, FollowRequest)]
    assert [len(note.targets) for note in notes] == [MAX_TARGETS, 1]


def _runs(store: MemoryStore) -> bool:
    return not store.list(layout.results_of("blue"))


def test_a_new_job_is_followed_from_its_first_byte() -> None:
    """`run` shows all attempts, and reports every state on the way."""
    store, clock = world()
    steps = iter(
        (
            lambda: publish(store, "queue", {"jobs": [row(JOB, state="starting")]}),
            lambda: print_log(store, JOB, b"one\n"),
            lambda: print_log(store, JOB, b"two\n", attempt=2),
            lambda: end(store, JOB),
        )
    )
    clock.on_sleep.append(lambda: next(steps, lambda: None)())
    told: list[str] = []
    client = Client("memory:", user="ada", store=store, clock=clock)
    chunks = list(client.following.of_new({JOB: "blue"}, tell=lambda job: told.append(job.state)))
    assert b"".join(chunk.data for chunk in chunks) == b"one\ntwo\n"
    assert told[0] == "starting"


def test_streams_are_found_without_reading_them() -> None:
    """A thousand segments of two processes cost one list each."""
    store, _ = world()
    for replica in (0, 1):
        print_log(store, JOB, *[b"x"] * 1000, replica=replica)
    found = JobLog(store, "blue", JOB).streams()
    assert [stream.replica for stream in found] == [0, 1]


def test_samples_are_passed_over_at_once() -> None:
    """A long job has a hundred samples per host, and one list skips them all."""
    memory = MemoryStore(lambda: NOW)
    for replica in range(4):
        log = layout.log("p", "train", 1, replica=replica, host=0, process=0)
        memory.create(segment_key(log, 0), b"hi\n")
        samples = layout.usage("p", "train", 1, replica=replica, host=0)
        for number in range(100):
            memory.create(layout.usage_segment(samples, number), b"x")
    for number in range(100):
        memory.create(f"logs/p/train/x1/{number:012}.log", b"of a command")
    store = FaultyStore(memory, lambda operation, key: None)
    assert len(JobLog(store, "p", "train").streams()) == 4
    assert store.counts["list"] == 4 + 4 + 1 + 1


def _chunk(data: bytes, *, job: str = "a", attempt: int = 1, host: int = 0) -> Chunk:
    stream = LogStream(attempt=attempt, replica=0, host=host, process=0)
    return Chunk(job=job, stream=stream, offset=0, data=data)


def test_lines_of_several_streams_are_never_joined() -> None:
    """A host and an attempt end their own lines, and an unfinished line stays alone."""
    chunks = [
        _chunk(b"host 0 "),
        _chunk(b"host 1 half", host=1),
        _chunk(b"done\nlos"),
        _chunk(b"again\n", attempt=2),
    ]
    joined = [(each.stream.attempt, each.stream.host, each.data) for each in in_lines(chunks)]
    assert joined == [
        (1, 0, b"host 0 done\n"),
        (1, 0, b"los"),
        (2, 0, b"again\n"),
        (1, 1, b"host 1 half"),
    ]


def test_an_unfinished_line_is_not_lost_with_an_error() -> None:
    """A progress bar has no line end: it is still there after an interrupt or a store error."""

    def broken() -> Iterator[Chunk]:
        yield _chunk(b"\r 10%")
        yield _chunk(b"\r 20%", host=1)
        raise KeyboardInterrupt

    seen = []
    with pytest.raises(KeyboardInterrupt):
        for chunk in in_lines(broken()):
            seen.append(chunk.data)
    assert seen == [b"\r 10%", b"\r 20%"]


def test_a_clock_is_only_for_waiting() -> None:
    """A job that has ended is read immediately."""
    store, clock = world()
    publish(store, "queue", {"jobs": []})
    print_log(store, JOB, b"done\n")
    end(store, JOB)
    before = clock.monotonic()
    client = Client("memory:", user="ada", store=store, clock=Clock())
    assert [chunk.data for chunk in client.logs("train", follow=True)] == [b"done\n"]
    assert clock.monotonic() == before
