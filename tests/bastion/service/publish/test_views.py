"""What is published of a job."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

from bastion.array import new_array, taken, task_over
from bastion.client.look.array_views import array_of_record, array_of_row
from bastion.client.look.rows import job_of_result, job_of_row, machine_of_row
from bastion.clock import VirtualClock
from bastion.errors import StoreRefusedError
from bastion.job import Outcome, OutcomeKind
from bastion.lifecycle import HostReported, step
from bastion.machine import Machine, MachinePhase
from bastion.metrics.meter import NoMeter
from bastion.records.keys import layout
from bastion.records.maintenance import windows_left
from bastion.records.root import Root
from bastion.scheduler.plan import Estimate, Plan, Verdicts, Wait
from bastion.scheduler.reasons.reason import Held, Planned, Promised, WaitingForCapacity
from bastion.service.act.final_record import array_result, result_of
from bastion.service.config.admin_files import AdminFiles
from bastion.service.publish.queue_view import JobRows, queue_bytes, queue_lines, queue_view
from bastion.service.publish.totals import totals
from bastion.service.publish.view_json import view_bytes
from bastion.service.publish.views import Publisher, pool_view, status_view
from bastion.spec import task_id
from bastion.spec.arrays.indices import Indices
from bastion.store.memory import MemoryStore
from bastion.store.port import Written
from bastion.web.drawing.occupancy import trouble_of
from quota import Amounts
from tests.rigs.job_records import T0, drained, ended, exited, queued, running
from tests.rigs.scripted_bastion import QUOTA
from tests.rigs.wrapped import Wrapped


def test_the_row_of_an_ended_job_agrees_with_its_record() -> None:
    """A waiting user may see the row before the final record: both have the outcome."""
    job = step(running(), HostReported(replica=0, host=0, numbers={"loss": 0.5}), T0)
    job = drained(ended(job, exited(3)))
    root = Root(epoch=1, seq=1, now=T0 + 5, write_id="w", jobs={job.id: job})
    (row,) = queue_view(root, None)["jobs"]
    of_row = job_of_row(row, as_of=T0)
    of_result = job_of_result(result_of(job))
    for name in ("state", "text", "code", "started_at", "ended_at", "priority", "units", "report"):
        assert getattr(of_row, name) == getattr(of_result, name), name
    assert (of_row.state, of_row.code) == ("failed", 3)


def test_what_is_told_of_an_ended_array_agrees_with_its_record() -> None:
    """Row and root also have its outcome and code, before its final record is written."""
    array = new_array(replace(queued(), id="many", launch="many"), Indices.of([0, 1]), at_once=None)
    for index, code in ((0, 0), (1, 3)):
        kind = OutcomeKind.FAILED if code else OutcomeKind.SUCCEEDED
        array = taken(array, index)
        array = task_over(array, index, Outcome(kind=kind, text=f"exit {code}", code=code), T0 + 5)
    root = Root(epoch=1, seq=1, now=T0 + 5, write_id="w", arrays={"many": array})
    (row,) = queue_view(root, None)["arrays"]
    of_result = job_of_result(array_result(array))
    for told in (array_of_row(row, as_of=T0), array_of_record(array, ())):
        for name in ("state", "outcome", "text", "code", "ended_at", "counts", "ranges"):
            assert getattr(told, name) == getattr(of_result, name), name
        assert (told.is_decided, told.phase, told.code) == (True, "done", 3)


@pytest.mark.parametrize("name", ["cordoned", "unwell", "waits", "stuck"])
def test_what_is_wrong_with_a_machine_is_published(name: str) -> None:
    """Commands and pages show it in the words of root."""
    machine = Machine(name="gpu-1-0", pool="gpu", **{name: "no space left"})  # type: ignore[arg-type]
    root = Root(epoch=1, seq=1, now=T0, write_id="w", machines={machine.name: machine})
    (row,) = pool_view(root, {})["machines"]
    assert getattr(machine_of_row(row), name) == "no space left"
    assert trouble_of(row) == f"{name}: no space left"


@pytest.mark.parametrize(
    ("fields", "free"),
    [
        ({}, {"h100": 6, "cpu": 60}),
        ({"cordoned": "fan"}, {}),
        ({"draining": True}, {}),
        ({"unwell": "no space left"}, {}),
        ({"phase": MachinePhase.DELETING}, {}),
        ({"bad_devices": {"h100": (0, 7)}}, {"h100": 5, "cpu": 60}),
    ],
)
def test_what_is_free_is_what_a_new_job_can_get(
    fields: Mapping[str, Any], free: Mapping[str, int]
) -> None:
    """A machine that takes no jobs and a device that is left alone do not count."""
    request = replace(queued().request, per_replica=Amounts({"h100": 2, "cpu": 4}))
    job = replace(running(), request=request)
    machine = Machine(name="m0-0", pool="gpu", resources=Amounts({"h100": 8, "cpu": 64}), **fields)
    machines, jobs = {machine.name: machine}, {job.id: job}
    root = Root(epoch=1, seq=1, now=T0, write_id="w", machines=machines, jobs=jobs)
    (row,) = pool_view(root, {})["machines"]
    assert (row["held"], row["free"]) == ({job.id: {"h100": [0, 1]}}, free)


GPU = Amounts({"h100": 1})
WAITS = WaitingForCapacity(asked=GPU, short=GPU)
AT = T0 + 60


@pytest.mark.parametrize(
    ("wait", "sure", "text"),
    [
        (
            Wait(reason=Promised(deadline=AT), start=Estimate(at=AT)),
            "promised",
            "promised, at the latest",
        ),
        (
            Wait(reason=Planned(at=AT), start=Estimate(at=AT)),
            "planned",
            "planned, unless a job within",
        ),
        (
            Wait(reason=WAITS, start=Estimate(at=AT)),
            "limits",
            "if running jobs use all of their time limits",
        ),
        (
            Wait(reason=WAITS, start=Estimate(at=AT, rests_on=12, off_by_s=1230.0)),
            "history",
            "rests on 12 earlier runs; may be off by ~20m 30s",
        ),
        (
            Wait(reason=WAITS, start=Estimate(at=AT, rests_on=1)),
            "history",
            "rests on 1 earlier run",
        ),
        (Wait(reason=WAITS), "", ""),
    ],
)
def test_an_estimated_start_is_published_with_its_confidence(
    wait: Wait, sure: str, text: str
) -> None:
    """It is published for a job, and for the next task of an array; nothing without an estimate."""
    job = queued()
    array = new_array(replace(job, id="many"), Indices.of([0, 1]), at_once=None)
    jobs, arrays = {job.id: job}, {"many": array}
    root = Root(epoch=1, seq=1, now=T0 + 5, write_id="w", jobs=jobs, arrays=arrays)
    verdicts = {job.id: wait, task_id("many", 0): wait}
    plan = Plan(verdicts=Verdicts(verdicts), promises=(), planned=(), new_machines=())
    view = queue_view(root, plan)
    (alone,), (together,) = view["jobs"], view["arrays"]
    for told in (job_of_row(alone, as_of=T0), array_of_row(together, as_of=T0)):
        assert (told.estimated_at, told.confidence) == (wait.estimated_at, sure)
        rests_on, off_by_s = (wait.start.rests_on, wait.start.off_by_s) if wait.start else (0, 0.0)
        assert (told.samples, told.margin_s) == (rests_on, off_by_s)
        assert told.confidence_text.startswith(text)
        assert bool(told.confidence_text) is bool(sure)


def test_a_view_is_json_whatever_it_holds() -> None:
    """A float that JSON cannot express is null, so the rest of the view can be read."""

    def refuse(word: str) -> object:
        raise AssertionError(f"{word} is no JSON")

    odd = {"a": [1.5, math.inf, {"b": -math.inf}], "c": (math.nan, "x"), "d": 2}
    made = json.loads(view_bytes(odd), parse_constant=refuse)
    assert made == {"a": [1.5, None, {"b": None}], "c": [None, "x"], "d": 2}


def test_the_problems_of_a_status_are_bounded() -> None:
    """Of a thousand problems, some with tracebacks, status shows fifty, shortened, and a count."""
    clock = VirtualClock()
    store = MemoryStore(clock.wall)
    files = AdminFiles(store, store, clock, every_s=1.0)
    root = Root(epoch=1, seq=1, now=T0, write_id="w")
    view = status_view(
        root, files, tuple(f"{n}: {'x' * 100_000}" for n in range(1_000)), totals=totals(root, None)
    )
    assert len(view_bytes(view)) < 20_000
    assert view["problems"][-1] == "and 950 more"


def test_a_status_has_the_maintenance_that_is_not_over() -> None:
    """As the quota file in force has it; what a reader makes of it are the same windows."""
    now = 1_800_000_000.0
    clock = VirtualClock(wall=now)
    store = MemoryStore(clock.wall)
    files = AdminFiles(store, store, clock, every_s=1.0)
    times = [datetime.fromtimestamp(now + s, UTC).isoformat() for s in (-60, 0, 60, 120)]
    windows = "".join(
        f'[[maintenance]]\nfrom = {begin}\nuntil = {end}\npools = ["gpu"]\nreason = "new fans"\n'
        for begin, end in pairwise(times)
    )
    root = Root(epoch=1, seq=1, now=now, write_id="w", quota_text=f"{QUOTA}\n{windows}")
    files.adopt(root)
    assert files.quota is not None
    view = json.loads(view_bytes(status_view(root, files, (), totals=totals(root, files.quota))))
    assert windows_left(view, now) == files.quota.maintenance[1:]
    assert windows_left(view, now + 60) == files.quota.maintenance[2:]


class SlowRows(NoMeter):
    """Takes three seconds to make rows, like a machine with no time left."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock

    def published(self, views: Mapping[str, Mapping[str, Any]]) -> None:
        """See `Meter`."""
        self._clock.advance(3.0 if "queue" in views else 0.0)


def test_a_slow_list_of_jobs_delays_no_sign_of_life() -> None:
    """If rows take seconds, the status of each commit still appears, and marks old rows."""
    clock = VirtualClock(wall=T0)
    store = MemoryStore(clock.wall)
    publisher = Publisher(store, clock, every_s=0.1, meter=SlowRows(clock))
    files = AdminFiles(store, store, clock, every_s=0.1)

    def published(seq: int) -> tuple[int, int, int]:
        clock.advance(1.0)
        job = replace(queued(), submitted_at=T0 + seq)
        root = Root(epoch=1, seq=seq, now=T0 + seq, write_id="w", jobs={job.id: job})
        work = publisher.works(root, None, files, ())
        assert work is not None
        work()
        status, queue = (_view(store, name) for name in ("status", "queue"))
        return status["seq"], status["views_seq"], queue["seq"]

    seen = [published(seq) for seq in range(1, 25)]
    assert [status for status, *_ in seen] == list(range(1, 25))
    assert [views for _, views, _ in seen] == list(range(1, 25)), "old rows are not vouched for"
    assert {rows for *_, rows in seen} == {1, 11, 21}


def _plan(verdicts: Mapping[str, Wait]) -> Plan:
    return Plan(verdicts=Verdicts(verdicts), promises=(), planned=(), new_machines=())


def _view(store: MemoryStore, name: str) -> Any:
    found = store.read(layout.view(name))
    assert found is not None
    return json.loads(found.data)


def test_rows_tell_of_a_silent_agent_although_nothing_else_changes() -> None:
    """Once the agent of a job's machine is overdue, its row and the status say since when."""
    clock = VirtualClock(wall=T0)
    store = MemoryStore(clock.wall)
    publisher = Publisher(store, clock, every_s=0.1)
    files = AdminFiles(store, store, clock, every_s=0.1)
    job = running()
    assert job.attempt is not None
    ((_, _, place, _),) = job.attempt.each_host()
    machine = Machine(name=place.machine, pool="gpu", resources=GPU, created_at=T0)
    machine = replace(machine, life=1, heard_at=T0, heartbeat_s=30.0)
    jobs, machines = {job.id: job}, {machine.name: machine}

    def told(seq: int) -> tuple[str, list[str]]:
        clock.advance(70.0)
        root = Root(epoch=1, seq=seq, now=clock.wall(), write_id="w", jobs=jobs, machines=machines)
        work = publisher.works(root, None, files, ())
        assert work is not None
        work()
        return _view(store, "queue")["jobs"][0]["text"], _view(store, "status")["problems"]

    seen = [told(seq) for seq in range(1, 5)]
    assert seen[0] == ("", [])
    assert (
        seen[1][0] == f"runs on machine {machine.name}, whose agent was last heard from 2m 20s ago"
    )
    assert (
        seen[3][0] == f"runs on machine {machine.name}, whose agent was last heard from 4m 40s ago"
    )
    (problem,) = seen[1][1]
    assert problem.startswith(f"machine {machine.name}: its agent reports every 30s and was last")


def test_a_machine_that_is_heard_again_leaves_the_queue_as_it_is() -> None:
    """A heartbeat publishes only the pools; the status names the commit of either view."""
    clock = VirtualClock(wall=T0)
    store = MemoryStore(clock.wall)
    publisher = Publisher(store, clock, every_s=0.1)
    files = AdminFiles(store, store, clock, every_s=0.1)
    job = running()
    machine = Machine(name="m1", pool="gpu", resources=GPU, created_at=T0, life=1, heartbeat_s=30.0)
    jobs = {job.id: job}

    def published(seq: int, machine: Machine) -> tuple[int, int, int]:
        clock.advance(15.0)
        machine = replace(machine, heard_at=clock.wall(), last_bell=seq)
        machines = {machine.name: machine}
        root = Root(epoch=1, seq=seq, now=clock.wall(), write_id="w", jobs=jobs, machines=machines)
        work = publisher.works(root, None, files, ())
        assert work is not None
        work()
        status = _view(store, "status")
        assert status["views_seq"] == _view(store, "queue")["seq"]
        assert status["pool_seq"] == _view(store, "pool")["seq"]
        heard = _view(store, "pool")["machines"][0]["heard_at"]
        assert heard == clock.wall()
        return status["seq"], status["views_seq"], status["pool_seq"]

    assert [published(seq, machine) for seq in (1, 2, 3)] == [(1, 1, 1), (2, 1, 2), (3, 1, 3)]
    jobs = {job.id: replace(job, preemptions=1)}
    assert published(4, machine) == (4, 4, 4)


def test_rows_that_say_the_same_are_not_written_again() -> None:
    """A cycle with the same verdicts does not change the view of the queue."""
    clock = VirtualClock(wall=T0)
    store = MemoryStore(clock.wall)
    publisher = Publisher(store, clock, every_s=0.1)
    files = AdminFiles(store, store, clock, every_s=0.1)
    job = queued()
    jobs = {job.id: job}

    def published(seq: int, wait: Wait) -> tuple[int, str]:
        clock.advance(1.0)
        root = Root(epoch=1, seq=seq, now=clock.wall(), write_id="w", jobs=jobs)
        work = publisher.works(root, _plan({job.id: wait}), files, ())
        assert work is not None
        work()
        view = _view(store, "queue")
        return view["seq"], view["jobs"][0]["text"]

    first = published(1, Wait(reason=WAITS))
    assert [published(seq, Wait(reason=WAITS)) for seq in (2, 3)] == [first, first]
    assert published(4, Wait(reason=Held(by="ada")))[0] == 4


@pytest.mark.parametrize("name", ["queue", "pool", "status"])
def test_a_view_that_was_deleted_is_written_again(name: str) -> None:
    """Only the lease changes, and within two minutes every view exists again."""
    clock = VirtualClock(wall=T0)
    store = MemoryStore(clock.wall)
    publisher = Publisher(store, clock, every_s=0.1)
    files = AdminFiles(store, store, clock, every_s=0.1)
    job = running()
    jobs, machines = {job.id: job}, dict[str, Machine]()

    def publish(seq: int) -> None:
        clock.advance(10.0)
        root = Root(epoch=1, seq=seq, now=clock.wall(), write_id="w", jobs=jobs, machines=machines)
        work = publisher.works(root, None, files, ())
        assert work is not None
        work()

    publish(1)
    store.delete(layout.view(name))
    for seq in range(2, 13):
        publish(seq)
    assert _view(store, name)["seq"] > 1
    assert _view(store, "queue")["jobs"][0]["id"] == job.id


class RefusingStore(Wrapped):
    """Refuses every write of one view."""

    refused = layout.view("queue")

    def create(self, key: str, data: bytes) -> Written:
        """See the port."""
        if key == self.refused:
            raise StoreRefusedError("not today")
        return super().create(key, data)


def test_a_view_that_cannot_be_written_holds_back_no_other() -> None:
    """The status tells the refusal; it is fresh, and does not vouch for the old rows."""
    clock = VirtualClock(wall=T0)
    bucket = MemoryStore(clock.wall)
    store = RefusingStore(bucket)
    publisher = Publisher(store, clock, every_s=0.1)
    files = AdminFiles(store, store, clock, every_s=0.1)
    job = queued()

    def publish(seq: int) -> None:
        clock.advance(10.0)
        root = Root(epoch=1, seq=seq, now=clock.wall(), write_id="w", jobs={job.id: job})
        work = publisher.works(root, None, files, ())
        assert work is not None
        work()

    for seq in (1, 2):
        with pytest.raises(StoreRefusedError, match="not today"):
            publish(seq)
        assert [_view(bucket, name)["seq"] for name in ("pool", "status")] == [seq, seq]
    store.refused = ""
    publish(3)
    assert _view(bucket, "queue")["seq"] == _view(bucket, "status")["views_seq"] == 3


def test_a_text_that_tells_a_time_does_not_grow_old() -> None:
    """Nothing changes, and a row still says every twenty seconds in how long its job starts."""
    clock = VirtualClock(wall=T0)
    store = MemoryStore(clock.wall)
    publisher = Publisher(store, clock, every_s=0.1)
    files = AdminFiles(store, store, clock, every_s=0.1)
    job = queued()
    jobs, machines = {job.id: job}, dict[str, Machine]()
    plan = _plan({job.id: Wait(reason=Planned(at=T0 + 300), start=Estimate(at=AT))})

    def told(seq: int) -> str:
        clock.advance(21.0)
        root = Root(epoch=1, seq=seq, now=clock.wall(), write_id="w", jobs=jobs, machines=machines)
        work = publisher.works(root, plan, files, ())
        assert work is not None
        work()
        return str(_view(store, "queue")["jobs"][0]["text"])

    seen = [told(seq) for seq in (1, 2, 3)]
    assert len(set(seen)) == 3, seen


def test_rows_that_are_kept_are_those_that_would_be_made_anew() -> None:
    """Whatever changes between two views, the second equals the one of a new bastion."""
    rows = JobRows()
    waiting = replace(queued(), id="b-0123456789")
    base = running()
    verdicts: list[dict[str, Wait]] = [
        {},
        {waiting.id: Wait(reason=WAITS)},
        {waiting.id: Wait(reason=Planned(at=T0 + 300), start=Estimate(at=AT))},
        {waiting.id: Wait(reason=Planned(at=T0 + 300), start=Estimate(at=AT))},
        {waiting.id: Wait(reason=Held(by="ada"))},
    ]
    for seq, waits in enumerate(verdicts):
        jobs = {each.id: each for each in (replace(base, preemptions=seq // 2), waiting)}
        root = Root(epoch=1, seq=seq, now=T0 + 30 * seq, write_id="w", jobs=jobs)
        plan = _plan(waits)
        kept = queue_view(root, plan, jobs=rows)
        assert kept == queue_view(root, plan)
        assert queue_bytes(kept, queue_lines(kept, rows.line)) == queue_bytes(kept)
        assert rows.tells_time == (seq in (2, 3))


def test_a_row_is_made_once_while_nothing_that_it_tells_changes() -> None:
    """If one of ten thousand jobs changes, one row is made."""
    rows = JobRows()
    jobs = {each.id: each for each in (replace(queued(), id=f"a-{n:010}") for n in range(3))}
    root = Root(epoch=1, seq=1, now=T0, write_id="w", jobs=jobs)
    first = {row["id"]: row for row in rows.rows(root, None)}
    lines = {name: rows.line(row) for name, row in first.items()}
    changed = replace(jobs["a-0000000001"], preemptions=1)
    root = replace(root, now=T0 + 90, jobs=jobs | {changed.id: changed})
    second = {row["id"]: row for row in rows.rows(root, None)}
    assert [name for name in first if second[name] is not first[name]] == [changed.id]
    assert [name for name in first if rows.line(second[name]) is not lines[name]] == [changed.id]
