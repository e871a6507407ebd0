"""root.json: what is written is read, and a commit does what it reports."""

from __future__ import annotations

import gzip
import json
from collections import UserDict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bastion.clock import VirtualClock
from bastion.errors import (
    FencedError,
    NotFoundError,
    OutdatedError,
    RecordError,
    StoreError,
    StoreRefusedError,
)
from bastion.job import Claim, End, HostState, JobRecord, Outcome, OutcomeKind
from bastion.machine import Batch, Follow, Leave, Machine, MachinePhase, Start
from bastion.records.keys import layout
from bastion.records.requests.answer import Answer
from bastion.records.root import (
    MAX_PAUSE_S,
    Event,
    Held,
    Leader,
    Root,
    RootWriter,
    Segment,
    decode_root,
)
from bastion.scheduler.promise import PlannedStart, Promise
from bastion.scheduler.runs import Runs
from bastion.store.memory import Fault, FaultyStore, MemoryStore
from bastion.store.port import READ_LIMIT_BYTES, Object, Version, Written
from quota import Amounts
from tests.rigs import job_records
from tests.rigs.wrapped import Wrapped

CLOCK = VirtualClock()


def root(seq: int = 1, write_id: str = "w", **more: Any) -> Root:
    """Return a small root."""
    return Root(epoch=1, seq=seq, now=1.5, write_id=write_id, **more)


def full() -> Root:
    """Return a root with one of everything."""
    jobs = {phase.value: make() for phase, make in job_records.RECORDS.items()}
    start = Start(
        project="blue",
        job="j",
        launch="l",
        index=0,
        attempt=1,
        nonce="n",
        replica=0,
        host=0,
        devices={"h100": (0, 3)},
    )
    follow = Follow(project="blue", job="j")
    machine = Machine(
        name="gpu-1-0",
        pool="gpu",
        phase=MachinePhase.READY,
        resources=Amounts({"h100": 8, "memory": 2**40}),
        labels={"ö": "ü \U0001f600"},
        bad_devices={"h100": (1,)},
        outgoing=(Batch(number=1, life=2, instructions=(start, follow, Leave())),),
    )
    promise = Promise(
        gang=("j",), placements=(job_records.placement(),), deadline=9.5, victims=(("k", 3.0),)
    )
    event = Event(n=3, at=1.0, what="told", text='a "quote"\nand a line')
    return root(
        leader=Leader(
            holder="b", host="vm", boot="x", pid=1, pid_started=0.5, since=1.0, ttl_s=3.0
        ),
        jobs=jobs,
        machines={machine.name: machine},
        promises=(promise,),
        planned=(PlannedStart(gang=("j",), placements=(job_records.placement(),), at=5.0),),
        answers={"blue/ann/01": Answer(ulid="01", verb="launch", accepted=True, jobs=("j",))},
        events=(event,),
        sealed=(Segment(first=0, events=(event,)),),
        next_event=4,
        decayed={"blue": 0.25},
        quota_text="[a]\n",
        runs={"blue/ann/train-#": Runs(at=7, lengths=(0, 60))},
    )


@pytest.mark.parametrize("compress", [False, True])
def test_root_reads_as_it_was_written(compress: bool) -> None:
    """Its bytes give the same root again, gzipped or not."""
    writer = RootWriter(MemoryStore(CLOCK.wall), CLOCK, compress=compress)
    data = writer.encoded(full())
    assert decode_root(data) == full()
    assert data.startswith(b"\x1f\x8b") == compress
    assert writer.encoded(full()) == data, "the same root is the same bytes"


TEXTS = st.text(max_size=20).filter(lambda text: text.isprintable() or "\n" in text)
TIMES = st.floats(0, 1e12, allow_nan=False)
ENDS = st.builds(
    End,
    kind=st.sampled_from(["exited", "setup_failed", "lost", "revoked"]),
    codes=st.lists(st.integers(-64, 255), max_size=3).map(tuple),
    notice=st.sampled_from(["", "preempt", "cancel"]),
    finished=st.booleans(),
    sizes=st.lists(st.integers(0, 10**15), max_size=3).map(tuple),
    ran_s=TIMES,
    detail=TEXTS,
)
HOSTS = st.builds(
    HostState,
    instructed=st.integers(0, 9),
    claim=st.one_of(st.none(), st.builds(Claim, machine=TEXTS, life=st.integers(0, 9))),
    end=st.one_of(st.none(), ENDS),
    drained=st.booleans(),
)
JOBS = st.builds(
    lambda job, host, held, at, text: replace(
        job,
        held=held,
        queued_at=at,
        attempt=job.attempt and replace(job.attempt, hosts=((host,),), checkpoint_at=at),
        last=Outcome(kind=OutcomeKind.LOST, text=text),
    ),
    st.sampled_from([make() for make in job_records.RECORDS.values()]),
    HOSTS,
    TEXTS,
    TIMES,
    TEXTS,
)
MACHINES = st.builds(
    Machine,
    name=TEXTS,
    pool=TEXTS,
    phase=st.sampled_from(list(MachinePhase)),
    resources=st.dictionaries(TEXTS, st.integers(-(2**60), 2**60), max_size=3).map(Amounts),
    labels=st.dictionaries(TEXTS, TEXTS, max_size=3),
    idle_since=st.one_of(st.none(), TIMES),
    bad_devices=st.dictionaries(TEXTS, st.lists(st.integers(0, 99)).map(tuple), max_size=2),
)


@settings(max_examples=100)
@given(
    st.dictionaries(TEXTS, JOBS, max_size=3),
    st.dictionaries(TEXTS, MACHINES, max_size=3),
    st.booleans(),
)
def test_any_record_reads_as_it_was_written(
    jobs: dict[str, JobRecord], machines: dict[str, Machine], compress: bool
) -> None:
    """Random jobs and machines, under random names, come back as they were."""
    writer = RootWriter(MemoryStore(CLOCK.wall), CLOCK, compress=compress)
    one = root(jobs=jobs, machines=machines)
    assert decode_root(writer.encoded(one)) == one


def test_what_stands_at_its_default_is_not_stored() -> None:
    """A queued job costs a few hundred bytes."""
    writer = RootWriter(MemoryStore(CLOCK.wall), CLOCK)
    one = {"job": job_records.queued()}
    size = len(writer.encoded(root(jobs=one))) - len(writer.encoded(root()))
    assert size < 350


def test_the_jobs_of_a_gang_are_stored_once() -> None:
    """Each of its jobs knows all of them; a thousand jobs do not store a million ids."""
    writer = RootWriter(MemoryStore(CLOCK.wall), CLOCK)
    gang = tuple(f"job-{number}" for number in range(1_000))
    jobs = {name: job_records.queued(gang=gang) for name in gang}
    data = writer.encoded(root(jobs=jobs))
    assert len(data) < 1_000 * 400
    assert decode_root(data) == root(jobs=jobs)
    left = {name: jobs[name] for name in gang[500:]}
    assert decode_root(writer.encoded(root(jobs=left))) == root(jobs=left)


def test_a_root_of_schema_3_names_a_whole_gang_in_each_job() -> None:
    """It is read as it is, and the next commit stores the gang once."""
    writer = RootWriter(MemoryStore(CLOCK.wall), CLOCK)
    jobs = {name: job_records.queued(gang=("a", "b")) for name in ("a", "b")}
    old = json.loads(writer.encoded(root(jobs=jobs))) | {"schema": 3}
    whole = old.pop("gangs")["a"]
    for job in old["jobs"].values():
        job["gang"] = whole
    assert decode_root(json.dumps(old).encode()) == root(jobs=jobs)


def test_a_job_of_a_gang_that_root_does_not_name_is_an_error() -> None:
    """It is never taken for a job that starts alone."""
    writer = RootWriter(MemoryStore(CLOCK.wall), CLOCK)
    jobs = {name: job_records.queued(gang=("a", "b")) for name in ("a", "b")}
    cut = json.loads(writer.encoded(root(jobs=jobs))) | {"gangs": {}}
    with pytest.raises(RecordError, match=r"gang: a is not among the gangs$"):
        decode_root(json.dumps(cut).encode())


def test_unchanged_records_are_not_encoded_again() -> None:
    """The bytes of an unchanged job are cached; those of a changed one are new."""
    writer = RootWriter(MemoryStore(CLOCK.wall), CLOCK)
    jobs = {"a": job_records.queued(), "b": job_records.running()}
    first = writer.encoded(root(jobs=jobs))
    jobs = jobs | {"b": job_records.done()}
    assert decode_root(first).jobs["b"].phase.value == "running"
    assert decode_root(writer.encoded(root(jobs=jobs))).jobs["b"].phase.value == "done"


class Read(UserDict[str, JobRecord]):
    """Jobs that count how often all of them were iterated over."""

    times = 0

    def __iter__(self) -> Iterator[str]:
        self.times += 1
        return super().__iter__()


def test_a_commit_that_only_renews_the_lease_goes_through_no_jobs() -> None:
    """Ten thousand queued jobs cost an idle bastion nothing, whatever else it commits."""
    writer = RootWriter(MemoryStore(CLOCK.wall), CLOCK)
    jobs = Read({"a": job_records.queued(), "b": job_records.running()})
    made = [decode_root(writer.encoded(root(jobs=jobs, seq=7)))]
    times = jobs.times
    made += [decode_root(writer.encoded(root(jobs=jobs, seq=seq))) for seq in (8, 9)]
    assert jobs.times == times > 0
    assert [(each.seq, sorted(each.jobs)) for each in made] == [
        (7, ["a", "b"]),
        (8, ["a", "b"]),
        (9, ["a", "b"]),
    ]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "Invalid JSON|invalid JSON"),
        (b"{}", "epoch: missing"),
        (b'{"schema":5,"epoch":1,"seq":1,"now":1,"write_id":"w"}', "is of schema 5"),
        (b'{"schema":4,"epoch":1,"seq":1,"now":1,"write_id":"w","x":1}', "x: unknown field"),
        (gzip.compress(b"{}", mtime=0)[:-3], "cannot be unpacked"),
        (b"\x1f\x8bnonsense", "cannot be unpacked"),
    ],
)
def test_a_root_that_is_none_is_an_error(data: bytes, problem: str) -> None:
    """Bytes that are no root of this schema are refused with key and path, never guessed."""
    with pytest.raises(RecordError, match=f"^state/root.json: .*({problem})"):
        decode_root(data)


def test_reading_an_unchanged_root_costs_no_bytes() -> None:
    """`read` with the current version is None until a commit."""
    writer = RootWriter(MemoryStore(CLOCK.wall), CLOCK)
    with pytest.raises(NotFoundError):
        writer.read()
    held = writer.commit(root(), over=None)
    assert writer.read(unless=held.version) is None
    found = writer.read()
    assert found is not None
    assert found == held


def test_a_machine_of_a_later_commit_tells_of_another_leader_or_of_an_old_root() -> None:
    """Root decides which of both it is: it has changed, or it has not."""
    writer = RootWriter(MemoryStore(CLOCK.wall), CLOCK)
    held = writer.commit(root(), over=None)
    old = writer.overtaken(held, by="gpu-9-0")
    assert isinstance(old, OutdatedError)
    assert str(old) == "state/root.json, of commit 1, is older than machine gpu-9-0"
    writer.commit(replace(held.root, write_id="b", epoch=4), over=held)
    assert isinstance(writer.overtaken(held, by="gpu-9-0"), FencedError)


DAMAGED_GZIP = gzip.compress(b"{}", mtime=0)[:10] + b"\xff" * 20
"""A good head of ten bytes, and a body that cannot be inflated."""


@pytest.mark.parametrize(
    "data", [b"", b"[", b"{}", b"\xca" * 1_000_000, b"\x1f\x8bx", DAMAGED_GZIP]
)
def test_a_root_that_was_damaged_is_told_in_a_line_with_the_way_back(data: bytes) -> None:
    """Its leader and the next bastion get one line, without its bytes, which may be many."""
    store = MemoryStore(CLOCK.wall)
    writer = RootWriter(store, CLOCK)
    held = writer.commit(root(), over=None)
    store.swap("state/root.json", data, if_version=held.version)
    for meet in (lambda: writer.commit(root(2, "b"), over=held), writer.read):
        with pytest.raises(RecordError) as told:
            meet()
        assert told.value.message.startswith("state/root.json: ")
        assert len(told.value.message) < 300
        assert told.value.hint == "bastion restore brings a copy back"


@pytest.mark.parametrize(
    ("field", "other", "hint"),
    [
        ("future", "x", "another version of Bastion wrote it: upgrade this one to the newest"),
        ("schema", 9, "a newer Bastion wrote it: run that version or a later one here"),
        ("now", "noon", "if that is a newer build, run it or a later one here; otherwise bastion"),
    ],
)
def test_a_root_that_another_build_left_names_it(field: str, other: object, hint: str) -> None:
    """Even a newer value of an old field may be that build's, so nothing is called damaged."""
    store = MemoryStore(CLOCK.wall)
    writer = RootWriter(store, CLOCK)
    held = writer.commit(replace(root(), build="0123456789abcdef"), over=None)
    found = store.read("state/root.json")
    assert found is not None
    data = json.dumps({**json.loads(found.data), field: other}).encode()
    store.swap("state/root.json", data, if_version=held.version)
    with pytest.raises(RecordError) as told:
        writer.read()
    assert told.value.message.endswith("; build 0123456789ab led last")
    assert told.value.hint.startswith(hint)
    assert "bastion restore" in told.value.hint


def test_two_founders_make_one_root() -> None:
    """Of two writers that create a root, one learns that the other was faster."""
    store = MemoryStore(CLOCK.wall)
    RootWriter(store, CLOCK).commit(root(write_id="a"), over=None)
    with pytest.raises(FencedError):
        RootWriter(store, CLOCK).commit(root(write_id="b"), over=None)
    found = RootWriter(store, CLOCK).read()
    assert found is not None
    assert found.root.write_id == "a"


def test_a_refusal_of_the_store_is_passed_on() -> None:
    """A refusal is raised, and root is unchanged."""

    class Full(MemoryStore):
        def swap(self, key: str, data: bytes, *, if_version: Version) -> Written:
            raise StoreRefusedError("the disk is full")

    store = Full(CLOCK.wall)
    writer = RootWriter(store, CLOCK)
    held = writer.commit(root(), over=None)
    with pytest.raises(StoreRefusedError, match="the disk is full"):
        writer.commit(root(2, "w2"), over=held)
    assert writer.read() == held


class Contended:
    """A store whose root another writer takes at the `at`-th operation on it."""

    def __init__(self, faults: list[Fault | None], rival_at: int | None) -> None:
        self.inner = MemoryStore(CLOCK.wall)
        self.faults = faults
        self.rival_at = rival_at
        self.operations = 0
        self.is_on = False

    def view(self) -> FaultyStore:
        """Return the store as the writer sees it."""
        return FaultyStore(self.inner, self.fault)

    def fault(self, operation: str, key: str) -> Fault | None:
        """What goes wrong now; the rival commits first when it is time."""
        if not self.is_on:
            return None
        self.operations += 1
        if self.operations - 1 == self.rival_at:
            self.rival()
        if self.operations <= len(self.faults):
            return self.faults[self.operations - 1]
        return None

    def rival(self) -> None:
        """Another leader commits over whatever stands."""
        found = self.inner.read(layout.ROOT)
        assert found is not None
        standing = decode_root(found.data)
        theirs = Root(
            epoch=standing.epoch + 1,
            seq=standing.seq + 1,
            now=standing.now,
            write_id="theirs",
            prev_write_id=standing.write_id,
        )
        data = RootWriter(self.inner, CLOCK).encoded(theirs)
        self.inner.swap(layout.ROOT, data, if_version=found.version)


@settings(max_examples=200)
@given(
    st.lists(st.sampled_from([None, Fault.BEFORE, Fault.AFTER]), max_size=8),
    st.one_of(st.none(), st.integers(0, 9)),
)
def test_a_commit_is_what_it_says_it_was(faults: list[Fault | None], rival_at: int | None) -> None:
    """Under any faults, a commit that returns has landed, and one that raises is not in root."""
    contended = Contended(faults, rival_at)
    writer = RootWriter(contended.view(), CLOCK)
    held = writer.commit(root(), over=None)
    contended.is_on = True
    landed: Held | None = None
    try:
        landed = writer.commit(root(2, "mine"), over=held)
    except FencedError as error:
        assert error.theirs > 1
    contended.is_on = False
    found = contended.inner.read(layout.ROOT)
    assert found is not None
    standing = decode_root(found.data)
    if landed is not None:
        assert landed.root.write_id == "mine"
        assert standing.write_id == "mine" or standing.prev_write_id == "mine"
    else:
        assert standing.write_id == "theirs"


def test_a_late_landing_of_our_own_is_found() -> None:
    """A write that lands after it was given up is recognized by its write id."""
    store = MemoryStore(CLOCK.wall)
    writes: list[tuple[bytes, Version]] = []

    class Late(Wrapped):
        def swap(self, key: str, data: bytes, *, if_version: Version) -> Written:
            writes.append((data, if_version))
            if len(writes) == 1:
                raise StoreError("never answered")
            first, version = writes[0]
            super().swap(key, first, if_version=version)
            return super().swap(key, data, if_version=if_version)

    writer = RootWriter(Late(store), CLOCK)
    held = writer.commit(root(), over=None)
    landed = writer.commit(root(2, "mine"), over=held)
    assert writes[0] == writes[1], "the identical bytes are sent again"
    assert landed.root.write_id == "mine"


def test_in_doubt_the_bytes_are_sent_again_slowly() -> None:
    """Between two tries at one object more than a second passes: a cloud's limit."""
    clock = VirtualClock()
    left = [Fault.BEFORE] * 6
    store = FaultyStore(
        MemoryStore(clock.wall),
        lambda operation, _: left.pop() if operation == "swap" and left else None,
    )
    writer = RootWriter(store, clock)
    held = writer.commit(root(), over=None)
    began = clock.monotonic()
    writer.commit(root(2, "mine"), over=held)
    assert clock.monotonic() - began == pytest.approx(6 * 1.1)


@pytest.mark.parametrize(
    ("failures", "takes_s", "told"), [(0, 0.0, 0), (1, 0.0, 0), (4, 0.0, 3), (1, 20.0, 1)]
)
def test_a_commit_that_stays_in_doubt_is_reported(failures: int, takes_s: float, told: int) -> None:
    """It may take hours, and nothing else shows it; one answer lost at once is not reported."""
    clock, left, said = VirtualClock(), [Fault.BEFORE] * failures, list[str]()

    def fault(operation: str, _: str) -> Fault | None:
        if operation != "swap" or not left:
            return None
        clock.advance(takes_s)
        return left.pop()

    store = FaultyStore(MemoryStore(clock.wall), fault)
    writer = RootWriter(store, clock, when_in_doubt=lambda failure: said.append(str(failure)))
    held = writer.commit(root(), over=None)
    writer.commit(root(2, "w2"), over=held)
    assert said == ["swap of 'state/root.json' was never answered"] * told


def test_a_store_that_asks_to_be_left_alone_is() -> None:
    """Between two tries, at least the requested pause passes, reads included."""
    clock = VirtualClock()

    class Busy(MemoryStore):
        refusals = 2

        def _refuse(self) -> None:
            if self.refusals:
                self.refusals -= 1
                raise StoreError("slow down", retry_after_s=7.0)

        def swap(self, key: str, data: bytes, *, if_version: Version) -> Written:
            self._refuse()
            return super().swap(key, data, if_version=if_version)

        def read(
            self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
        ) -> Object | None:
            self._refuse()
            return super().read(key, unless=unless, limit_bytes=limit_bytes)

    writer = RootWriter(Busy(clock.wall), clock)
    held = writer.commit(root(), over=None)
    began = clock.monotonic()
    writer.commit(root(2, "mine"), over=held)
    assert clock.monotonic() - began == pytest.approx(7.0 + 7.0)


def test_root_can_be_read_with_cat() -> None:
    """In a folder, root is JSON text with one job or machine per line."""
    writer = RootWriter(MemoryStore(CLOCK.wall), CLOCK)
    text = writer.encoded(full()).decode()
    assert json.loads(text)["schema"] == 4
    assert len(text.splitlines()) >= len(full().jobs)


class Misnaming(MemoryStore):
    """A store that reports a wrong version of its first write."""

    is_first = True

    def swap(self, key: str, data: bytes, *, if_version: Version) -> Written:
        """See the port."""
        written = super().swap(key, data, if_version=if_version)
        is_first, self.is_first = self.is_first, False
        return replace(written, version=Version("9999")) if is_first else written


def test_a_version_told_wrongly_fences_no_leader() -> None:
    """The previous commit is recognized by its write id and replaced, whatever its version."""
    clock = VirtualClock()
    writer = RootWriter(Misnaming(clock.wall), clock)
    held = writer.commit(root(), over=None)
    misnamed = writer.commit(root(2, "w2"), over=held)
    assert misnamed.version == "9999"
    landed = writer.commit(root(3, "w3"), over=misnamed)
    assert writer.read() == landed


def test_another_commit_of_our_epoch_is_told_as_such() -> None:
    """If the epoch is ours and the commit is not, no other epoch is invented."""
    store = MemoryStore(CLOCK.wall)
    writer = RootWriter(store, CLOCK)
    held = writer.commit(root(), over=None)
    writer.commit(root(2, "theirs"), over=held)
    with pytest.raises(FencedError, match="root holds another commit of epoch 1 than ours"):
        writer.commit(root(2, "mine"), over=held)


@pytest.mark.parametrize("broken", ["swap", "read"])
def test_a_commit_in_doubt_is_given_up_when_the_time_is_up(broken: str) -> None:
    """Writing and reading back stop when the time is up, and the doubt is reported."""
    clock = VirtualClock()
    until = clock.monotonic() + 7
    faulty = FaultyStore(
        MemoryStore(clock.wall),
        lambda operation, _: Fault.BEFORE if operation in ("swap", broken) else None,
    )
    writer = RootWriter(faulty, clock, is_over=lambda: clock.monotonic() >= until)
    held = writer.commit(root(), over=None)
    with pytest.raises(StoreError, match="in doubt whether the last commit landed"):
        writer.commit(root(2, "w2"), over=held)
    assert clock.monotonic() == pytest.approx(until)


def test_a_store_cannot_ask_for_more_time_than_the_lease_has() -> None:
    """Whatever pause a store requests, a lease must be renewed before."""
    clock = VirtualClock()

    class Resting(MemoryStore):
        is_first = True

        def swap(self, key: str, data: bytes, *, if_version: Version) -> Written:
            is_first, self.is_first = self.is_first, False
            if is_first:
                raise StoreError("busy", retry_after_s=86_400.0)
            return super().swap(key, data, if_version=if_version)

    writer = RootWriter(Resting(clock.wall), clock)
    held = writer.commit(root(), over=None)
    began = clock.monotonic()
    writer.commit(root(2, "w2"), over=held)
    assert clock.monotonic() - began == MAX_PAUSE_S
