"""An array for its user: found, shown, changed and waited for, whole and in part."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bastion.client import Client, JobView
from bastion.client.look.find_job import find_target
from bastion.client.look.told_reason import settled
from bastion.clock import VirtualClock
from bastion.errors import NotFoundError, SpecError
from bastion.records.keys import layout
from bastion.spec import Array, Job, Launch, Process, Resources, Sweep
from bastion.value import replace
from tests.rigs.leader import Rig
from tests.rigs.scripted_bastion import publish, row


class Clock(VirtualClock):
    """A clock on which the bastion turns at every sleep; running jobs end on their own."""

    def __init__(self, rig: Rig) -> None:
        super().__init__(wall=rig.clock.wall())
        self.rig = rig
        self.codes: dict[int, int] = {}
        self.runs: Sequence[int | None] = ()
        """Running tasks; None stands for jobs that are not tasks."""

    def sleep(self, seconds: float) -> None:
        """Pass `seconds`, and take one turn of the bastion."""
        super().sleep(seconds)
        for job in list(self.rig.root.jobs.values()):
            if job.phase.value == "running" and job.task not in self.runs:
                code = self.codes.get(job.task or 0, 0)
                self.rig.agent_of(job.id).end(job.id, code)
        self.rig.turn()


class Side:
    """A user's client beside a bastion that turns."""

    def __init__(self) -> None:
        self.rig = Rig()
        self.rig.turn(2)
        self.clock = Clock(self.rig)
        self.client = Client(
            "gs://b/root", user="ann", project="blue", store=self.rig.bucket, clock=self.clock
        )

    def launch(self, tasks: str = "0-5%2", *, hold: bool = False) -> str:
        """Submit an array; return its id."""
        job = Job(processes=(Process(["true"], resources=Resources(h100=1)),), hold=hold)
        return self.client.launch(Launch(name="sweep", jobs=(job,), array=Array(tasks))).id

    def settle(self, turns: int = 6) -> None:
        """Let some turns pass."""
        for _ in range(turns):
            self.clock.sleep(1.0)


@pytest.fixture
def side() -> Side:
    """Provide a client and its bastion."""
    return Side()


def test_a_handle_counts_and_waits(side: Side) -> None:
    """It has one id, counts of all tasks, each task, and the outcome of the whole."""
    job = Job(processes=(Process(["run", "{x}"], resources=Resources(h100=1)),))
    side.clock.codes = {3: 4}
    sweep = Sweep(grid={"x": [10, 20, 30, 40]}, at_once=2)
    handle = side.client.launch(Launch(name="grid", jobs=(job,), sweep=sweep))
    assert handle.jobs == (handle.id,)
    assert handle.is_array
    assert sum(handle.counts.values()) in (1, 4)
    status = handle.wait()
    (array,) = status.jobs
    assert (array.state, array.code) == ("failed", 4)
    assert status.counts == handle.counts == {"failed": 1, "succeeded": 3}
    assert [task.state for task in handle.tasks] == ["succeeded"] * 3 + ["failed"]
    task = side.client.job(f"{handle.id}.3")
    assert task.code == 4
    assert task.parameters == handle.tasks[3].parameters == {"x": 40}
    assert array.parameters == {}
    assert [task.attempt for task in handle.tasks] == [1] * 4


def test_an_array_is_one_of_the_jobs(side: Side) -> None:
    """There is one row for all; with `tasks`, also those that were admitted."""
    side.clock.runs = range(10)
    array = side.launch()
    side.settle()
    (row,) = side.client.jobs()
    assert (row.id, row.state, row.counts) == (array, "running", {"running": 2, "queued": 4})
    assert row.ranges == {"queued": "2-5"}
    assert row.at_once == 2
    assert {job.id for job in side.client.jobs(tasks=True)} == {array, f"{array}.0", f"{array}.1"}
    assert row.text.startswith("2 running, 4 queued; waits for another task to end")


@pytest.mark.parametrize("name", ["{array}", "sweep", "sweep-"])
def test_tasks_are_found_behind_any_name_of_their_array(side: Side, name: str) -> None:
    """They are found by id, by name, or by a prefix of the id; running or waiting."""
    side.clock.runs = range(10)
    array = side.launch()
    side.settle()
    given = name.format(array=array)
    assert side.client.job(f"{given}.1").state == "running"
    waiting = side.client.job(f"{given}.4")
    assert (waiting.id, waiting.state, waiting.task) == (f"{array}.4", "queued", 4)
    assert side.client.why(f"{given}.4").text.startswith("waits for another task to end")
    with pytest.raises(NotFoundError, match=f"{array} has no task 6"):
        side.client.job(f"{given}.6")
    with pytest.raises(SpecError, match="names 3 tasks"):
        side.client.job(f"{given}.0-2")


def test_a_task_whose_row_drains_has_ended_once_its_record_is_there(side: Side) -> None:
    """`wait` has reported it, and its row stays for a moment."""
    array = side.launch("0-1")
    side.client.wait(array)
    drains = row(f"{array}.1", state="draining", launch=array, task=1)
    publish(side.rig.bucket, "queue", {"jobs": [drains]})
    fresh = Client("gs://b/root", user="ann", project="blue", store=side.rig.bucket)
    assert [job.state for job in fresh.jobs(tasks=True)] == ["draining"]
    assert [task.state for task in fresh.tasks(array)] == ["succeeded", "succeeded"]


def test_a_job_that_is_called_so_goes_before_a_task(side: Side) -> None:
    """A job named `v1.5` is not task 5 of an array `v1`."""
    side.clock.runs = [*range(10), None]
    one = Job(processes=(Process(["true"]),))
    side.client.launch(Launch(name="v1", jobs=(one,), array=Array("0-9")))
    plain = side.client.launch(Launch(name="v1.5", jobs=(one,))).id
    side.settle()
    assert side.client.job("v1.5").id == plain
    assert side.client.job("v1.4").task == 4


def test_some_tasks_are_one_target(side: Side) -> None:
    """A range is sent as it is written, and shown as requested."""
    side.clock.runs = range(10)
    array = side.launch()
    side.settle()
    assert side.client.cancel("sweep.1,4-5") == (f"{array}.1,4-5",)
    side.settle()
    assert side.client.job(f"{array}.5").text == "cancelled before it started"
    ended = side.client.wait([f"{array}.4-5", f"{array}.1"])
    assert [job.state for job in ended] == ["cancelled"] * 3
    side.clock.runs = ()
    (whole,) = side.client.wait([array])
    assert whole.ranges == {"cancelled": "1,4-5", "succeeded": "0,2-3"}
    assert side.client.cancel(array) == ()
    assert [job.state for job in side.client.tasks("sweep.3-4")] == ["succeeded", "cancelled"]


def test_tasks_are_run_again_alone(side: Side) -> None:
    """Only the named tasks run again, by their indices, at the same concurrency."""
    side.clock.codes = {4: 1}
    first = side.launch()
    assert side.client.wait([first])[0].ranges["failed"] == "4"
    side.clock.codes = {}
    for name, tasks in ((f"{first}.4", "4%2"), (f"{first}.1,4-5", "1,4-5%2"), (first, "0-5%2")):
        again = side.client.rerun(name).id
        spec = side.client.spec(again)
        assert (str(spec.launch.array), spec.again_of) == (tasks, first)
        (whole,) = side.client.wait([again])
        assert whole.ranges == {"succeeded": tasks.partition("%")[0]}
    with pytest.raises(NotFoundError, match="has no task 6"):
        side.client.rerun(f"{first}.6")


def test_a_held_array_is_released_by_part(side: Side) -> None:
    """`hold` and `release` take ranges too."""
    array = side.launch("0-9", hold=True)
    side.settle()
    assert side.client.job(array).state == "held"
    side.client.release("sweep.0-1")
    side.settle(10)
    assert side.client.job(array).counts == {"held": 8, "succeeded": 2}
    side.client.hold("sweep.9")
    side.client.prioritize(array, priority=1)
    side.settle()
    assert side.client.job(array).priority == 1
    side.client.release(array)
    assert side.client.wait([array])[0].counts == {"succeeded": 10}


def test_events_of_an_array_are_those_of_its_tasks_too(side: Side) -> None:
    """Events of one task are among those of the whole array, with its submission."""
    array = side.launch("0-1")
    other = side.launch("0-1")
    side.client.wait([array, other])
    told = side.client.events(array)
    assert {event.job for event in told} == {array, f"{array}.0", f"{array}.1"}
    assert [event.what for event in told if event.job == array] == ["submitted", "succeeded"]
    own = [(event.job, event.what) for event in told if event.job == f"{array}.1"]
    of_task = [(event.job, event.what) for event in side.client.events(f"{array}.1")]
    assert of_task == [(array, "submitted"), *own]


def test_finished_arrays_are_listed_without_their_tasks(side: Side) -> None:
    """`list --all` shows an array as one line, and its tasks can still be found by name."""
    array = side.launch("0-3")
    side.client.wait([array])
    side.settle()
    assert [job.id for job in side.client.jobs(finished=10)] == [array]
    assert side.client.job("sweep.2").id == f"{array}.2"
    assert len(side.rig.keys(layout.results_of("blue"))) == 5


def test_tasks_are_nothing_to_wait_for_with_after(side: Side) -> None:
    """If a job is required, a task name is refused with the array's name."""
    side.clock.runs = range(10)
    array = side.launch()
    side.settle()
    published = side.client._published
    assert find_target(published, "sweep", project="blue") == array
    for text in ("sweep.0", "sweep.0-2", "sweep.4"):
        with pytest.raises(SpecError, match=f"wait for their array, {array}"):
            find_target(published, text, project="blue")


def test_a_job_that_is_no_array_has_no_tasks(side: Side) -> None:
    """`tasks` says so; where tasks are only looked up, there are none."""
    one = Job(processes=(Process(["true"]),))
    job = side.client.launch(Launch(name="plain", jobs=(one,))).id
    with pytest.raises(SpecError, match=f"{job} is not an array and has no tasks"):
        side.client.tasks(job)
    assert side.client.tasks(job, needed=False) == ()


def test_a_dry_run_asks_about_as_many_as_could_start(side: Side) -> None:
    """Of ten thousand tasks it returns those that would start; nothing is written."""
    job = Job(processes=(Process(["true"], resources=Resources(h100=1)),))
    before = side.rig.keys()
    outlook = side.client.what_if(Launch(name="many", jobs=(job,), array=Array(10_000)))
    assert len(outlook.starts) == 16
    assert side.rig.keys() == before


def test_views_of_tasks_are_read_from_root_before_they_are_published(side: Side) -> None:
    """Right after the answer the array is found, though no view shows it yet."""
    side.clock.runs = range(10)
    array = side.launch()
    side.rig.bucket.delete(layout.view("queue"))
    found: JobView = side.client.job(array)
    assert found.counts["queued"] == 4
    assert side.client.job(f"{array}.5").state == "queued"
    taken = side.client.job(f"{array}.0")
    assert (taken.phase, taken.text.partition(";")[0]) == ("starting", "it changed a moment ago")


def test_a_reason_is_waited_for_until_a_view_tells_it(side: Side) -> None:
    """Right after a submission, the reason is awaited; after a second, the known state returned."""
    side.clock.runs = range(10)
    array = side.launch()
    side.rig.bucket.delete(layout.view("queue"))
    unpublished = side.client.job(f"{array}.0")
    told = replace(unpublished, text="within its share")
    looks, clock = iter([unpublished, unpublished, told]), VirtualClock(wall=0.0)
    assert settled(lambda: next(looks), clock) is told
    began = clock.monotonic()
    assert settled(lambda: unpublished, clock) is unpublished
    assert 1.0 <= clock.monotonic() - began < 2.0
    assert "it changed a moment ago" not in side.client.why(f"{array}.0").text


def test_an_array_in_thousands_of_ranges_is_told(side: Side) -> None:
    """It is in every user's list: one array that was cancelled in parts must not break that."""
    array = side.launch("0-2999", hold=True)
    for first in (0, 900, 1_800):
        side.rig.verb("cancel", f"{array}.{first}-{first + 898}:2")
    side.settle()
    (row,) = side.client.jobs()
    assert row.counts == {"cancelled": 1_350, "held": 1_650}
    assert side.client.job(f"{array}.1").state == "held"
    assert side.client.job(f"{array}.2").state == "cancelled"
