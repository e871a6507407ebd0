"""Usage: known sums, and those of random histories, integrated step by step."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

import pytest

from bastion.errors import SpecError
from bastion.history import Record, ended_attempts
from bastion.history.ask.usage import Usage, UsageRow, usage
from bastion.history.compaction import compact
from bastion.job import (
    Attempt,
    End,
    HostPlace,
    JobClass,
    JobRecord,
    Phase,
    ReplicaPlace,
    Stop,
    StopReason,
)
from bastion.lifecycle import (
    Admitted,
    DrainEnded,
    HostCheckpointed,
    HostEnded,
    HostStarted,
    Reclassed,
    StopWanted,
)
from bastion.machine import Machine, MachinePhase
from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.reports.history import Shares
from bastion.records.root import Root
from bastion.scheduler.charge import held_by
from bastion.service.draft.root_draft import Draft
from bastion.spec.request import Request
from bastion.spec.where import Where
from bastion.store import ObjectStore
from bastion.store.memory import MemoryStore
from bastion.utilisation import Utilisation
from quota.amounts import Amounts
from tests.bastion.history.log import DAY_S, T0, Bucket
from tests.rigs.length import at_length

H = 3600.0


def workload() -> Bucket:
    """Two projects on one day, with sums computed manually."""
    bucket = Bucket()
    bucket.seal(
        bucket.told(T0, Shares(nominal={"blue": {"h100": 8}, "red": {"h100": 8}})),
        # ann held 8 for 2 hours, guaranteed, after half an hour in the queue, for $40.
        bucket.end(
            T0 + 3 * H,
            **held(T0 + 1 * H, T0 + 3 * H, waited_s=1800.0),
            guaranteed_device_s=8 * 2 * H,
            machine_s=2 * H,
            price_per_hour=20.0,
            utilisation=Utilisation(samples=720, mean=0.6, p50=0.7, max=1.0, idle=0.25),
        ),
        # ben held 4 for 3 hours, the last hour borrowed, then was preempted: 30 minutes were lost.
        bucket.end(
            T0 + 7 * H,
            user="ben",
            **held(T0 + 4 * H, T0 + 7 * H, waited_s=600.0),
            devices=4,
            guaranteed_device_s=4 * 2 * H,
            borrowed_device_s=4 * 1 * H,
            job_class="borrowed",
            outcome="preempted",
            job_outcome="",
            lost_s=0.5 * H,
            lost_device_s=4 * 0.5 * H,
        ),
        # cat's failed after an hour on 8, all of it for nothing.
        bucket.end(
            T0 + 9 * H,
            user="cat",
            project="red",
            **held(T0 + 8 * H, T0 + 9 * H, waited_s=0.0),
            guaranteed_device_s=8 * H,
            outcome="failed",
            job_outcome="failed",
            exit_code=1,
            lost_s=H,
            lost_device_s=8 * H,
        ),
        # dan's elastic job held 2 for an hour, and was stopped to grow: 15 minutes were lost.
        bucket.end(
            T0 + 10 * H,
            user="dan",
            project="red",
            **held(T0 + 9 * H, T0 + 10 * H, waited_s=60.0),
            devices=2,
            replicas=2,
            guaranteed_device_s=2 * H,
            outcome="stopped",
            job_outcome="",
            stop_reason="resize",
            lost_s=0.25 * H,
            lost_device_s=2 * 0.25 * H,
        ),
        # Cancelled in the queue: no attempt, so no usage.
        bucket.end(
            T0 + 10 * H,
            project="red",
            user="cat",
            attempt=0,
            admitted_at=None,
            freed_at=None,
            device_type="",
            devices=0,
            guaranteed_device_s=0.0,
            outcome="cancelled",
            job_outcome="cancelled",
        ),
    )
    return bucket


def held(begin: float, end: float, *, waited_s: float) -> dict[str, object]:
    return {
        "queued_at": begin - waited_s,
        "admitted_at": begin,
        "started_at": begin,
        "freed_at": end,
    }


def by_name(found: Usage, key: str) -> dict[str, UsageRow]:
    return {getattr(row, key): row for row in found.rows}


def test_the_sums_of_a_day_are_those_that_a_person_adds_up() -> None:
    """Hours by class, shares, waits, waste and cost of two projects are as computed manually."""
    bucket = workload()
    found = usage(Record(bucket.store), by=["project"], since=T0, until=T0 + 24 * H)
    rows = by_name(found, "project")
    blue, red = rows["blue"], rows["red"]
    assert (blue.jobs, blue.attempts, blue.device_type) == (2, 2, "h100")
    assert blue.guaranteed_h == pytest.approx(16 + 8)
    assert blue.borrowed_h == pytest.approx(4)
    assert blue.owned_h == pytest.approx(8 * 24)
    assert blue.share == pytest.approx(28 / 192)
    assert blue.waited_p50_s == pytest.approx(600)
    assert blue.waited_p90_s == pytest.approx(1800)
    assert blue.preempted_h == pytest.approx(2)
    assert blue.failed_h == 0
    assert blue.cost == pytest.approx(40)
    assert blue.unpriced_h == pytest.approx(12)
    assert blue.idle_h == pytest.approx(16 * 0.25)
    assert red.idle_h is None
    assert red.guaranteed_h == pytest.approx(8 + 2)
    assert red.failed_h == pytest.approx(8)
    assert red.preempted_h == 0
    assert blue.resized_h == 0
    assert red.resized_h == pytest.approx(0.5)
    assert red.cost is None


def test_users_of_a_project_add_up_to_it() -> None:
    """By project and user, each user has its own row, and its part of the project's share."""
    found = usage(Record(workload().store), by=["project", "user"], since=T0, until=T0 + 24 * H)
    hours = {(row.project, row.user): row.used_h for row in found.rows}
    assert hours == {
        ("blue", "ann"): 16.0,
        ("blue", "ben"): 12.0,
        ("red", "cat"): 8.0,
        ("red", "dan"): 2.0,
    }
    assert {row.owned_h for row in found.rows} == {192}
    whole = usage(Record(workload().store), by=["project"], since=T0, until=T0 + 24 * H)
    shares = {row.user: row.share or 0.0 for row in found.rows}
    assert by_name(whole, "project")["blue"].share == pytest.approx(shares["ann"] + shares["ben"])
    (pool,) = usage(Record(workload().store), by=["pool"], since=T0, until=T0 + 24 * H).rows
    assert pool.owned_h is None


def test_a_wait_is_told_to_three_digits() -> None:
    """Below 1,000 s it is rounded to tenths, above to three digits, up to weeks."""
    waits = {
        0.0: 0.0,
        0.26: 0.3,
        999.94: 999.9,
        1234.56: 1230.0,
        12_350.0: 12_400.0,
        123_499.0: 123_000.0,
        1_234_567.0: 1_230_000.0,
    }
    bucket = Bucket()
    bucket.seal(
        *(
            bucket.end(T0 + H, user=f"waited {each}", **held(T0, T0 + H, waited_s=each))
            for each in waits
        )
    )
    rows = by_name(usage(Record(bucket.store), by=["user"], since=T0, until=T0 + H), "user")
    for waited_s, told in waits.items():
        assert rows[f"waited {waited_s}"].waited_p50_s == pytest.approx(told), waited_s


def test_an_attempt_counts_with_its_part_of_the_window() -> None:
    """If the window cuts two hours in half, one counts; waste counts where it occurred."""
    bucket = workload()
    record = Record(bucket.store)
    first = by_name(usage(record, by=["user"], since=T0, until=T0 + 2 * H), "user")
    assert first["ann"].used_h == pytest.approx(8)
    assert first["ann"].cost == pytest.approx(20)
    late = by_name(usage(record, by=["user"], since=T0 + 6.75 * H, until=T0 + 8 * H), "user")
    assert late["ben"].used_h == pytest.approx(1)
    assert late["ben"].preempted_h == pytest.approx(1)
    assert late["ben"].waited_p50_s is None


def test_a_job_counts_in_each_window_in_which_it_held_anything() -> None:
    """It counts once, with its first attempt there, even if it was held or drained before."""
    bucket, told = Bucket(), {"submitted_at": T0 - 60, "job_outcome": ""}
    spans = [(1, 2), (26, 27), (28, 29), (50, 51)]
    bucket.seal(
        *(
            bucket.end(
                T0 + end * H,
                job="train-1",
                attempt=n,
                **told,
                **held(T0 + begin * H, T0 + end * H, waited_s=60.0),
            )
            for n, (begin, end) in enumerate(spans, 1)
        )
    )
    record = Record(bucket.store)
    for day, attempts in enumerate((1, 2, 1)):
        (row,) = usage(
            record, by=["user"], since=T0 + 24 * day * H, until=T0 + 24 * (day + 1) * H
        ).rows
        assert (row.jobs, row.attempts) == (1, attempts), day
    (row,) = usage(record, by=["user"], since=T0 - 3600, until=T0 + 72 * H).rows
    assert (row.jobs, row.attempts) == (1, 4)


def test_windows_side_by_side_add_up() -> None:
    """The sums of a day's hours are those of the day."""
    record = Record(workload().store)
    day = usage(record, by=["project"], since=T0, until=T0 + 12 * H)
    hours = [
        usage(record, by=["project"], since=T0 + i * 4 * H, until=T0 + (i + 1) * 4 * H)
        for i in range(3)
    ]
    for name, row in by_name(day, "project").items():
        parts = [by_name(each, "project")[name] for each in hours]
        assert sum(part.used_h for part in parts) == pytest.approx(row.used_h)
        assert sum(part.failed_h for part in parts) == pytest.approx(row.failed_h)


def test_shares_count_from_when_they_were_given() -> None:
    """A share that doubles at noon counts half a day each; an unused project has a row."""
    bucket = workload()
    later = Shares(nominal={"blue": {"h100": 16}, "red": {"h100": 0}, "green": {"h100": 4}})
    bucket.seal(bucket.told(T0 + 12 * H, later))
    found = usage(Record(bucket.store), by=["project"], since=T0, until=T0 + 24 * H)
    rows = by_name(found, "project")
    assert rows["blue"].owned_h == pytest.approx(8 * 12 + 16 * 12)
    assert rows["red"].owned_h == pytest.approx(8 * 12)
    assert (rows["green"].owned_h, rows["green"].attempts, rows["green"].share) == (48.0, 0, 0.0)


def test_a_question_that_makes_no_sense_is_refused() -> None:
    """Unknown keys, duplicate keys, no key and an empty window are named."""
    record = Record(MemoryStore(lambda: 0.0))
    for by in (["day"], [], ["user", "user"]):
        with pytest.raises(SpecError, match="each once"):
            usage(record, by=by, since=0.0, until=1.0)  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="is not before"):
        usage(record, by=["user"], since=1.0, until=1.0)


def test_an_empty_record_has_no_rows() -> None:
    """A bucket without any history gives sums without an error."""
    assert usage(Record(MemoryStore(lambda: 0.0)), by=["pool"], since=0.0, until=1.0).rows == ()


MACHINES = {
    f"gpu-1-{i}": Machine(
        name=f"gpu-1-{i}",
        pool="gpu",
        phase=MachinePhase.READY,
        resources=Amounts({"h100": 8 if i % 2 else 4}),
    )
    for i in range(6)
}


class History:
    """A random history: each event passes through the real draft, and time is integrated."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.root = Root(epoch=1, seq=1, now=T0, write_id="w", machines=MACHINES)
        self.truth: dict[tuple[str, str], float] = defaultdict(float)
        """Device seconds by project and class, as the scheduler charged them at each moment."""
        self.replicas: dict[tuple[str, int], int] = {}
        """How many each attempt had, by job and number."""
        self.count = 0

    def run(self, steps: int = 120) -> MemoryStore:
        """Return the bucket after that many steps; some jobs may still run."""
        store = MemoryStore(lambda: self.root.now)
        for _ in range(steps):
            self._pass(self.chance.choice([0.5, 7.25, 600.0, 30_000.0]))
            draft = Draft(self.root, self.root.now)
            self._step(draft)
            draft.seal(at_most=8, older_than=0.0)
            self.root = draft.finish(write_id=f"w{draft.seq}")
            self._write_sealed(store)
        store.create(layout.ROOT, encode(self.root))
        return store

    def _pass(self, seconds: float) -> None:
        for job in self.root.jobs.values():
            if job.attempt is not None and job.is_admitted:
                units = held_by(job, MACHINES)["h100"]
                self.truth[job.project, job.attempt.job_class.value] += units * seconds
        self.root = replace(self.root, now=self.root.now + seconds)

    def _step(self, draft: Draft) -> None:
        running = [job for job in draft.jobs.values() if job.is_admitted]
        queued = [job for job in draft.jobs.values() if job.phase is Phase.QUEUED]
        if not draft.jobs or self.chance.random() < 0.2:
            self._submit(draft)
        elif queued and self.chance.random() < 0.5:
            self._admit(draft, self.chance.choice(queued))
        elif running:
            self._happen(draft, self.chance.choice(running))
        for job in list(draft.jobs.values()):
            if job.phase is Phase.DRAINING:
                draft.apply(job.id, DrainEnded())
            if draft.jobs[job.id].phase is Phase.DONE:
                draft.result_written(job.id)

    def _submit(self, draft: Draft) -> None:
        self.count += 1
        where = Where(exclusive=True) if self.chance.random() < 0.3 else Where()
        fewest = self.chance.randint(1, 3)
        is_elastic = not where.exclusive and self.chance.random() < 0.4
        request = Request(
            replicas=fewest,
            max_replicas=fewest + 2 if is_elastic else 0,
            per_replica=Amounts({"h100": 2}),
            where=where,
        )
        draft.add(
            JobRecord(
                id=f"job-{self.count}",
                project=self.chance.choice(["blue", "red"]),
                user="ann",
                launch=f"job-{self.count}",
                ulid="U",
                submitted_at=draft.now,
                queued_at=draft.now,
                request=request,
                retries=1,
            )
        )

    def _admit(self, draft: Draft, job: JobRecord) -> None:
        fewest = job.request.replicas
        count = self.chance.randint(fewest, max(fewest, job.request.max_replicas))
        self.replicas[job.id, job.attempts + 1] = count
        names = self.chance.sample(sorted(MACHINES), count)
        placement = tuple(
            ReplicaPlace(hosts=(HostPlace(machine=name, devices={"h100": (0, 1)}),))
            for name in names
        )
        kind = self.chance.choice(list(JobClass))
        draft.apply(job.id, Admitted(nonce="n", placement=placement, job_class=kind))

    def _happen(self, draft: Draft, job: JobRecord) -> None:
        attempt = job.attempt
        assert attempt is not None
        open_hosts = [r for r, _, _, state in attempt.each_host() if state.end is None]
        r = self.chance.choice(open_hosts)
        match self.chance.choice(["start", "class", "class", "mark", "stop", "end", "end", "lost"]):
            case "start":
                draft.apply(job.id, HostStarted(replica=r, host=0))
            case "class":
                other = JobClass.BORROWED
                if attempt.job_class is JobClass.BORROWED:
                    other = JobClass.GUARANTEED
                draft.apply(job.id, Reclassed(job_class=other))
            case "mark":
                draft.apply(job.id, HostCheckpointed(replica=r, host=0))
            case "stop" if job.phase is not Phase.STOPPING:
                reason = self.chance.choice([StopReason.PREEMPT, StopReason.RESIZE])
                stop = Stop(reason=reason, at=draft.now, deadline=draft.now + 9)
                draft.apply(job.id, StopWanted(stop=stop))
            case "lost":
                draft.apply(job.id, HostEnded(replica=r, host=0, end=End(kind="lost")))
            case _:
                code = self.chance.choice([0, 0, 1])
                used = Utilisation(samples=100, mean=0.5, idle=self.chance.choice([0.0, 0.25, 1.0]))
                end = End(
                    kind="exited",
                    codes=(code,),
                    first_failed=0 if code else None,
                    utilisation=self.chance.choice([None, used]),
                )
                draft.apply(job.id, HostEnded(replica=r, host=0, end=end))

    def _write_sealed(self, store: ObjectStore) -> None:
        draft = Draft(self.root, self.root.now)
        for segment in self.root.sealed:
            lines = b"".join(encode(event) + b"\n" for event in segment.events)
            store.create(layout.events(segment.first), lines)
            draft.segment_written(segment.first)
        self.root = draft.finish(write_id=f"w{draft.seq}")


def check_history(seed: int) -> None:
    """The sums of usage are what the scheduler charged, integrated over time."""
    history = History(seed)
    store = history.run()
    if seed % 2:
        compact(store)
    found = usage(Record(store), by=["project"], since=T0 - DAY_S, until=history.root.now + 1)
    sums: dict[tuple[str, str], float] = defaultdict(float)
    for row in found.rows:
        assert row.project is not None
        sums[row.project, "guaranteed"] += row.guaranteed_h * H
        sums[row.project, "borrowed"] += row.borrowed_h * H
    for key in {*sums, *history.truth}:
        assert sums[key] == pytest.approx(history.truth[key], abs=1e-3), (seed, key)
    idle_h: dict[str, float] = defaultdict(float)
    for each in ended_attempts(store):
        if each.idle_fraction is not None:
            held_s = each.guaranteed_device_s + each.borrowed_device_s
            idle_h[each.project] += held_s * each.idle_fraction / H
        if each.attempt:
            assert each.replicas == history.replicas[each.job, each.attempt], (seed, each.job)
    for row in found.rows:
        assert (row.idle_h or 0.0) == pytest.approx(idle_h[str(row.project)], abs=1e-6), seed
    middle = (T0 + history.root.now) / 2
    record = Record(store)
    halves = [
        usage(record, by=["project"], since=T0 - DAY_S, until=middle),
        usage(record, by=["project"], since=middle, until=history.root.now + 1),
    ]
    total = sum(row.used_h for row in found.rows)
    assert sum(row.used_h for half in halves for row in half.rows) == pytest.approx(total)


@pytest.mark.parametrize("seed", range(3))
def test_the_sums_are_those_of_the_scheduler_on_random_histories(seed: int) -> None:
    """For any history, device hours by class are what was held, and windows add up."""
    check_history(seed)


def forgets_its_last_stretch(attempt: Attempt, now: float) -> float:
    """A mutant: what was borrowed since the class changed last is not counted."""
    return attempt.borrowed_s


def counts_from_its_admission(attempt: Attempt, now: float) -> float:
    """A mutant: a class counts for the whole attempt, whenever it changed."""
    return now - attempt.admitted_at if attempt.job_class is JobClass.BORROWED else 0.0


@pytest.mark.parametrize("mutant", [forgets_its_last_stretch, counts_from_its_admission])
def test_the_property_catches_a_wrong_account(
    monkeypatch: pytest.MonkeyPatch, mutant: Callable[[Attempt, float], float]
) -> None:
    """Sums computed by a wrong rule differ from those of the scheduler."""
    monkeypatch.setattr(Attempt, "borrowed_until", mutant)
    with pytest.raises(AssertionError):
        for seed in range(6):
            check_history(seed)


@pytest.mark.prove
@pytest.mark.parametrize("portion", range(10))
def test_the_sums_are_those_of_the_scheduler_on_many_histories(portion: int) -> None:
    """The same holds for hundreds of histories."""
    each = at_length(10)
    for seed in range(100 + portion * each, 100 + (portion + 1) * each):
        check_history(seed)
