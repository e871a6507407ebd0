"""Rows of ended attempts: one each, with manually computed sums."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bastion.history import AttemptRow, Record, ended_attempts
from bastion.history.ask.query import query
from bastion.history.compaction import compact
from bastion.history.ended_attempt import Hardware, standing_attempt
from bastion.history.parquet import connect
from bastion.records.keys import layout
from bastion.records.reports.history import EndedAttempt
from bastion.records.requests.result import Result
from bastion.spec.where import Where
from bastion.store.folder.local import LocalStore
from bastion.store.port import READ_LIMIT_BYTES, Object, Version
from bastion.utilisation import Utilisation
from tests.bastion.history.log import DAY_S, T0, Bucket
from tests.rigs.job_records import running
from tests.rigs.leader import Rig
from tests.rigs.wrapped import Wrapped

PRICED = """
[pools.gpu]
provider = "fake"
resources = { h100 = 8 }
count = 2
price = 80.0
terms = "spot"
"""


def rows(rig: Rig) -> list[AttemptRow]:
    return list(ended_attempts(rig.bucket))


def run(rig: Rig, job: str, *codes: int, for_turns: int = 0) -> None:
    rig.turn(for_turns)
    rig.agent_of(job).end(job, *(codes or (0,)))
    rig.ended(job)


def test_an_attempt_that_ended_is_one_row() -> None:
    """An attempt is one row, with what it held, for how long, and the cost."""
    rig = Rig(config=PRICED)
    job = rig.start("mine", h100=4)
    run(rig, job, for_turns=100)
    (row,) = rows(rig)
    assert (row.project, row.user, row.job, row.name) == ("blue", "ann", job, "main")
    assert (row.attempt, row.outcome, row.job_outcome) == (1, "succeeded", "succeeded")
    assert (row.job_class, row.device_type, row.devices) == ("guaranteed", "h100", 4)
    assert row.admitted_at is not None and row.freed_at is not None
    held_s = row.freed_at - row.admitted_at
    assert held_s >= 100
    assert row.guaranteed_device_s == pytest.approx(4 * held_s)
    assert row.borrowed_device_s == 0
    assert row.machine_s == pytest.approx(held_s / 2)
    assert row.cost == pytest.approx(held_s / 2 / 3600 * 80)
    assert (row.pool, row.terms, row.lost_s) == ("gpu", "spot", None)
    assert row.machines and row.machines[0].startswith("gpu-")


@pytest.mark.parametrize(("price", "each"), [("price = 10.0", 10.0), ("", None)])
def test_replicas_in_two_pools_cost_what_each_costs(price: str, each: float | None) -> None:
    """Each replica has the price of its pool; without a price, the sum is unknown."""
    pool = '{}\nprovider = "fake"\nresources = {{ h100 = 8 }}\ncount = 1\n{}\n'
    first = pool.format("[pools.first]", price)
    rig = Rig(config=first + pool.format("[pools.second]", 'price = 80.0\nterms = "spot"'))
    job = rig.start("mine", h100=8, replicas=2)
    rig.turn(100)
    for replica in range(2):
        rig.agent_of(job, replica=replica).end(job, replica=replica)
    rig.ended(job)
    (row,) = rows(rig)
    assert (row.pool, len(row.machines), row.terms) == ("first", 2, None)
    assert row.machine_s is not None
    cost = None if each is None else row.machine_s / 2 / 3600 * (each + 80.0)
    assert (row.cost is None) == (cost is None)
    assert row.cost == pytest.approx(cost)


def test_what_was_used_is_in_the_row_and_in_the_result() -> None:
    """Two hosts' ends are one utilization of the attempt; a host without devices adds cores."""
    rig = Rig(config=PRICED)
    job = rig.start("mine", h100=8, replicas=2)
    for replica, used in enumerate((1.0, 0.5)):
        told = Utilisation(samples=10, mean=used, p50=used, max=used, idle=replica / 2, cores=2.0)
        rig.agent_of(job, replica=replica).end(job, replica=replica, utilisation=told)
    rig.ended(job)
    (row,) = rows(rig)
    assert (row.utilisation_mean, row.utilisation_p50, row.utilisation_max) == (0.75, 0.5, 1.0)
    assert row.idle_fraction == 0.25
    result = rig.read(layout.result("blue", job), Result)
    assert result is not None
    assert result.past[-1].utilisation == Utilisation(
        samples=20, mean=0.75, p50=0.5, max=1.0, idle=0.25, cores=4.0
    )


def test_a_job_without_devices_has_no_utilisation_of_devices() -> None:
    """Cores were sampled and no device: the columns of devices are null."""
    rig = Rig(config=PRICED)
    job = rig.start("mine", h100=8)
    rig.agent_of(job).end(job, utilisation=Utilisation(cores=2.0))
    rig.ended(job)
    (row,) = rows(rig)
    assert (row.utilisation_mean, row.idle_fraction) == (None, None)


def test_a_preempted_attempt_names_what_stopped_it() -> None:
    """A preempted attempt says for which project it was stopped, and how much work was lost."""
    rig = Rig()
    rig.start("own", h100=8)
    borrower = rig.start("borrower", h100=8, borrow=True)
    rig.turn(50)
    rig.agent_of(borrower).checkpoint(borrower)
    rig.turn(10)
    preemptor = rig.submit("mine", user="cat", project="red", h100=8)
    rig.until(lambda: rig.phase(preemptor) == "running")
    row = next(each for each in rows(rig) if each.job == borrower)
    assert (row.outcome, row.job_outcome, row.job_class) == ("preempted", None, "borrowed")
    assert (row.stop_reason, row.stopped_by, row.stopped_for) == ("preempt", preemptor, "red")
    assert row.admitted_at is not None and row.freed_at is not None
    held_s = row.freed_at - row.admitted_at
    assert row.borrowed_device_s == pytest.approx(8 * held_s)
    assert row.lost_s is not None
    assert 9 <= row.lost_s <= 20 < held_s
    assert row.lost_device_s == pytest.approx(8 * row.lost_s)


def test_each_replica_counts_until_its_own_end() -> None:
    """A replica that ends early stops counting then, though its attempt continues."""
    rig = Rig()
    job = rig.start("two", h100=2, replicas=2, on_failure="continue")
    rig.agent_of(job).end(job, 0, replica=0)
    rig.turn(100)
    rig.agent_of(job, replica=1).end(job, 0, replica=1)
    rig.ended(job)
    (row,) = rows(rig)
    assert row.admitted_at is not None and row.freed_at is not None
    held_s = row.freed_at - row.admitted_at
    assert 2 * held_s < row.guaranteed_device_s < 2 * held_s + 20
    assert row.devices == 4
    (record,) = (each.record for each in rig.history() if isinstance(each.record, EndedAttempt))
    first_s, last_s = record.replica_s
    assert 0 < first_s < 20 and last_s == held_s
    assert row.guaranteed_device_s == pytest.approx(2 * (first_s + last_s))


def test_a_job_on_whole_machines_is_charged_for_them() -> None:
    """A job that takes whole machines counts all their devices."""
    rig = Rig()
    job = rig.start("full", h100=1, where=Where(exclusive=True))
    run(rig, job)
    (row,) = rows(rig)
    assert row.devices == 8
    assert row.admitted_at is not None and row.freed_at is not None
    assert row.guaranteed_device_s == pytest.approx(8 * (row.freed_at - row.admitted_at))


def test_no_wait_in_the_queue_is_negative() -> None:
    """A request may be dated after the time by which the same turn admitted its job."""
    job = replace(running(), submitted_at=1000.007, queued_at=1000.007)
    row = standing_attempt(job, 1005.0, Hardware(machines={}, pools={}))
    assert (row.queued_at, row.admitted_at, row.submitted_at) == (1000.0, 1000.0, 1000.007)


def test_a_job_that_ends_in_the_queue_is_a_row() -> None:
    """A job that was cancelled before it started is a row without an attempt."""
    rig = Rig()
    rig.start("own", h100=8, replicas=2)
    job = rig.submit("waits", h100=8)
    rig.verb("cancel", job)
    rig.ended(job)
    (row,) = rows(rig)
    assert (row.attempt, row.outcome, row.job_outcome) == (0, "cancelled", "cancelled")
    assert (row.machines, row.guaranteed_device_s, row.freed_at) == ((), 0, None)


def test_a_row_is_read_once_wherever_it_lies() -> None:
    """Rows in root, in sealed segments and in both are read once, even across leaders."""
    rig = Rig()
    jobs = []
    for n in range(4):
        jobs.append(rig.start(f"job-{n}"))
        run(rig, jobs[-1])
        assert [row.job for row in rows(rig)] == jobs
        rig.turn(40)
        if n == 1:
            rig.leader = rig.take("next")
    assert [row.job for row in rows(rig)] == jobs
    numbers = [row.event for row in rows(rig)]
    assert len(set(numbers)) == 4


def test_a_spoilt_line_is_named_and_the_others_are_read() -> None:
    """A line that is no event is reported with its place, and the rows after it are read."""
    rig = Rig()
    job = rig.start("mine")
    run(rig, job)
    rig.turn(80)
    key = rig.keys(layout.EVENTS)[0]
    found = rig.bucket.read(key)
    assert found is not None
    lines = found.data.splitlines(keepends=True)
    lines.insert(1, b'{"n": "many"}\n')
    rig.bucket.delete(key)
    rig.bucket.create(key, b"".join(lines))
    record = Record(rig.bucket)
    assert [row.job for row in record.attempts()] == [job]
    assert list(record.spoilt) == [f"{key}:2"]


def test_files_of_a_cloud_are_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a cloud are kept in the user's cache; an incomplete copy is fetched again."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    bucket = Bucket()
    bucket.seal(bucket.end(T0), bucket.end(T0 + DAY_S), bucket.end(T0 + DAY_S + 1))
    compact(bucket.store)
    read: list[str] = []

    class Counting(Wrapped):
        def read(
            self, key: str, *, unless: Version | None = None, limit_bytes: int = READ_LIMIT_BYTES
        ) -> Object | None:
            read.append(key)
            return super().read(key, unless=unless, limit_bytes=limit_bytes)

    record = Record(Counting(bucket.store), "gs://bucket/bastion")
    for _ in range(2):
        assert [row.event for row in record.attempts()] == [0, 1, 2]
    fetched = [key for key in read if key.endswith(".parquet")]
    assert len(fetched) == len(set(fetched)) > 0
    kept = sorted(tmp_path.rglob("*.parquet"))
    kept[0].write_bytes(b"PAR1")
    assert [row.event for row in record.attempts()] == [0, 1, 2]


def test_a_spoilt_day_is_read_from_the_log(tmp_path: Path) -> None:
    """A file in a folder that is no Parquet is named, and its rows come from the log."""
    bucket = Bucket()
    store = LocalStore(tmp_path, makes_root=True, durable=False)
    bucket.store = store  # type: ignore[assignment]
    bucket.seal(bucket.end(T0), bucket.end(T0 + DAY_S), bucket.end(T0 + 3 * DAY_S))
    compact(store)
    (day, *_) = sorted(tmp_path.glob("history/attempts/*/*.parquet"))
    day.write_bytes(b"half")
    record = Record(store, tmp_path.as_uri())
    assert [row.event for row in record.attempts()] == [0, 1, 2]
    assert list(record.spoilt) == [str(day.relative_to(tmp_path))]


def test_nothing_is_drawn_on_stdout(tmp_path: Path) -> None:
    """DuckDB's progress bar is off: standard output is for data."""
    found = connect(tmp_path).execute("SELECT current_setting('enable_progress_bar')").fetchone()
    assert found == (False,)


def test_what_code_runs_and_ran_is_known_at_once() -> None:
    """SQL reads the code of a running attempt, and of one that has just ended."""
    rig = Rig()
    ended, running = rig.start("mine", h100=4), rig.start("other", h100=4)
    for job, digest in ((ended, b"d1"), (running, b"d2")):
        key = layout.spec("blue", rig.job(job).launch)
        rig.bucket.delete(key)
        rig.bucket.create(key, b'{"launch":{"code":{"digest":"%s"}}}' % digest)
    run(rig, ended)
    record = Record(rig.bucket)
    assert query(record, "SELECT job, code FROM attempts").rows == ((ended, "d1"),)
    assert query(record, "SELECT job, code FROM running").rows == ((running, "d2"),)
