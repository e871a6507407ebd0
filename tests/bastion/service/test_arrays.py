"""Ten thousand tasks in one record: admitted, counted, changed and ended as one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

from bastion.job import End, Phase
from bastion.records.keys import layout
from bastion.records.reports.facts import Held
from bastion.records.requests.job_request import JobsRequest, UpdateRequest
from bastion.records.requests.launch_request import LaunchRequest
from bastion.records.root import RootWriter
from bastion.spec import After, Array, Indices, Job, Launch, Notify, Process, Resources
from tests.rigs.leader import QUOTA, Rig


def ask(
    rig: Rig,
    tasks: str,
    *,
    h100: int = 1,
    after: Sequence[After | str] = (),
    notify: Sequence[Notify] = (),
    max_failures: int | None = None,
    **job: Any,
) -> str:
    """Submit an array of ann's in blue; return its ULID."""
    process = Process(["true"], resources=Resources(h100=h100))
    one = Job(processes=(process,), **job)
    launch = Launch(
        name="sweep",
        jobs=(one,),
        array=Array(tasks),
        after=tuple(after),
        notify=tuple(notify),
        max_failures=max_failures,
    )
    return rig.ask("ann", "blue", "launch", LaunchRequest(launch=launch))


def submit(rig: Rig, tasks: str, **more: Any) -> str:
    """Return the id of an array that was just accepted."""
    asked = ask(rig, tasks, **more)
    rig.turn()
    answer = rig.answer(asked)
    assert answer.accepted, answer.problems
    (array,) = answer.jobs
    return array


def running(rig: Rig, array: str) -> list[int]:
    """Return the running tasks."""
    jobs = [job for job in rig.root.jobs.values() if job.launch == array]
    tasks = [job.task for job in jobs if job.phase is Phase.RUNNING]
    return sorted(task for task in tasks if task is not None)


def finish(rig: Rig, array: str, task: int, code: int = 0) -> None:
    """Let the task's processes exit with `code`."""
    job = f"{array}.{task}"
    rig.agent_of(job).end(job, code)


def drive(rig: Rig, array: str, *, failing: frozenset[int] = frozenset(), turns: int = 200) -> None:
    """Let tasks run until the array has left root; those of `failing` exit with 3."""
    for _ in range(turns):
        if array not in rig.root.arrays:
            return
        for task in running(rig, array):
            finish(rig, array, task, 3 if task in failing else 0)
        rig.turn()
    raise AssertionError(f"{array} never ended: {rig.root.arrays[array]}")


def whole(rig: Rig, array: str) -> None:
    """Every task is in exactly one place."""
    record = rig.root.arrays[array]
    own = Indices.of(job.task for job in rig.root.jobs.values() if job.launch == array)  # type: ignore[misc]
    parts = [record.waiting, own, *record.ended.values()]
    assert sum(map(len, parts)) == len(record.tasks)
    assert Indices(pair for part in parts for pair in part.pairs) == record.tasks


def test_ten_thousand_tasks_are_one_small_record() -> None:
    """An array of 10,000 adds a few hundred bytes to root, one object and one answer of one id."""
    rig = Rig()
    rig.turn()
    writer = RootWriter(rig.bucket, rig.clock)
    before = len(writer.encoded(rig.root))
    array = submit(rig, "0-9999%1", hold=True)
    assert len(writer.encoded(rig.root)) - before < 1500
    assert rig.keys(layout.SPECS) == [layout.spec("blue", array)]
    assert not rig.root.jobs


def test_tasks_run_to_their_end_and_leave_one_record() -> None:
    """Every task runs once and has its final record; the array's has all outcomes."""
    rig = Rig()
    array = submit(rig, "0-29")
    rig.until(lambda: len(running(rig, array)) == 16)
    assert running(rig, array) == list(range(16))
    whole(rig, array)
    drive(rig, array, failing=frozenset({4, 17}))
    result = rig.result(array)
    assert result is not None
    assert result.outcome == "failed"
    assert result.code == 3
    assert {kind: str(over) for kind, over in result.tasks.items()} == {
        "succeeded": "0-3,5-16,18-29",
        "failed": "4,17",
    }
    assert result.text.startswith("2 of 30 tasks failed; task 4: ")
    ran = [name for agent in rig.agents.values() for name in agent.ran]
    assert sorted(ran) == sorted(f"{array}.{task}/1" for task in range(30))
    for task in range(30):
        own = rig.result(f"{array}.{task}")
        assert own is not None
        assert own.task == task
        assert own.launch == array
    assert not rig.root.jobs


def test_no_more_run_at_once_than_allowed() -> None:
    """`%3` holds at every moment, and the next task takes each place that becomes free."""
    rig = Rig()
    array = submit(rig, "0-9%3")
    most = 0
    for _ in range(100):
        if array not in rig.root.arrays:
            break
        holding = [job for job in rig.root.jobs.values() if job.is_admitted]
        most = max(most, len(holding))
        for task in running(rig, array)[:1]:
            finish(rig, array, task)
        rig.turn()
    assert most == 3
    result = rig.result(array)
    assert result is not None
    assert result.outcome == "succeeded"
    assert result.text == "all 10 tasks succeeded"


def test_the_view_says_why_the_next_task_waits() -> None:
    """At the limit the reason is the limit; otherwise it is the scheduler's for the next task."""
    rig = Rig()
    limited = submit(rig, "0-99%2")
    rig.until(lambda: len(running(rig, limited)) == 2)
    rig.turn(2)
    row = _row(rig, limited)
    assert row["state"] == "running"
    assert row["counts"] == {"running": 2, "queued": 98}
    assert row["waiting"] == "2-99"
    assert row["text"] == "waits for another task to end: its array runs at most 2 tasks at once"
    finish(rig, limited, 0)
    rig.until(lambda: running(rig, limited) == [1, 2])
    free = submit(rig, "0-99")
    rig.until(lambda: len(running(rig, free)) == 14)
    rig.turn(2)
    assert _row(rig, free)["text"].startswith("waits for 1 h100")


def _row(rig: Rig, array: str) -> Any:
    found = rig.bucket.read(layout.view("queue"))
    assert found is not None
    (row,) = [row for row in json.loads(found.data)["arrays"] if row["id"] == array]
    return row


def test_the_scheduler_is_shown_no_more_tasks_than_could_start() -> None:
    """Of 10,000 tasks a cycle sees as many as the machines hold, and one if they hold none."""
    rig = Rig()
    array = submit(rig, "0-9999", h100=2)
    plan = rig.leader._plan
    assert plan is not None
    assert len([name for name in plan.verdicts if name.startswith(array)]) == 8
    rig.until(lambda: len(running(rig, array)) == 8)
    rig.turn(2)
    plan = rig.leader._plan
    assert plan is not None
    assert len([name for name in plan.verdicts if name.startswith(array)]) == 8 + 1


def test_an_array_is_cancelled_as_one() -> None:
    """One commit stops running tasks and cancels waiting ones; one event says so."""
    rig = Rig()
    array = submit(rig, "0-9999%4")
    rig.until(lambda: len(running(rig, array)) == 4)
    asked = rig.verb("cancel", array)
    rig.turn()
    assert rig.answer(asked).jobs == (array,)
    assert not rig.root.arrays[array].waiting
    whole(rig, array)
    drive(rig, array)
    result = rig.result(array)
    assert result is not None
    assert {kind: str(over) for kind, over in result.tasks.items()} == {"cancelled": "0-9999"}
    assert result.outcome == "cancelled"
    of_array = [(event.what, event.text) for event in rig.history() if event.job == array]
    assert of_array == [
        ("submitted", "by ann: 10000 tasks"),
        ("cancelled", "tasks 4-9999 by ann, before they started"),
        ("cancelled", "10000 of 10000 tasks cancelled; task 0: cancelled by ann"),
    ]
    assert len(rig.keys("jobs/")) == 5


def test_some_tasks_are_cancelled_and_the_others_go_on() -> None:
    """A range reaches running and waiting tasks; ended ones are left alone."""
    rig = Rig()
    array = submit(rig, "0-9%2")
    rig.until(lambda: len(running(rig, array)) == 2)
    asked = rig.verb("cancel", f"{array}.1-3,7")
    rig.turn()
    assert rig.answer(asked).jobs == (f"{array}.1-3,7",)
    drive(rig, array)
    result = rig.result(array)
    assert result is not None
    assert str(result.tasks["cancelled"]) == "1-3,7"
    assert str(result.tasks["succeeded"]) == "0,4-6,8-9"
    again = rig.verb("cancel", f"{array}.0-2")
    rig.turn()
    assert rig.answer(again).accepted


def test_a_verb_for_tasks_that_are_none_is_refused() -> None:
    """For an index that the array does not have, the error names its indices."""
    rig = Rig()
    array = submit(rig, "0-9")
    asked = rig.verb("cancel", f"{array}.7-12")
    rig.turn()
    assert rig.answer(asked).problems == (f"{array}.7-12: the tasks of {array} are 0-9",)


def test_a_held_array_starts_what_is_released() -> None:
    """The first tasks of a held array are released and run; the others keep waiting."""
    rig = Rig()
    array = submit(rig, "0-9", hold=True)
    rig.turn(3)
    assert not rig.root.jobs
    assert _row(rig, array)["text"] == "held by ann; it joins the queue when released"
    at = rig.clock.wall()
    rig.verb("release", f"{array}.0-1")
    rig.until(lambda: running(rig, array) == [0, 1])
    joined = [job.queued_at for job in rig.root.jobs.values()]
    assert joined == [rig.root.arrays[array].each.queued_at] * 2 and min(joined) >= at
    assert str(rig.root.arrays[array].held) == "2-9"
    again = rig.verb("release", f"{array}.0-1")
    rig.turn()
    assert rig.answer(again).problems == (f"{array}.1: is not held",)
    rig.verb("release", array)
    rig.until(lambda: len(running(rig, array)) == 10)
    asked = rig.verb("hold", array)
    rig.turn()
    assert "only a waiting job can be held" in rig.answer(asked).problems[0]


def test_a_held_part_is_passed_over() -> None:
    """Held waiting tasks do not start, and running ones continue."""
    rig = Rig()
    array = submit(rig, "0-5%2")
    rig.until(lambda: len(running(rig, array)) == 2)
    rig.verb("hold", f"{array}.0-4")
    rig.turn()
    for task in (0, 1):
        finish(rig, array, task)
    rig.until(lambda: running(rig, array) == [5])
    rig.turn(3)
    assert running(rig, array) == [5]


def test_priority_and_time_limit_are_the_whole_arrays() -> None:
    """An update reaches running tasks and all tasks that never started."""
    rig = Rig()
    array = submit(rig, "0-9%2")
    rig.until(lambda: len(running(rig, array)) == 2)
    rig.ask("ann", "blue", "update", UpdateRequest(targets=(array,), priority=1))
    rig.turn()
    assert rig.job(f"{array}.1").request.priority == 1
    assert rig.root.arrays[array].each.request.priority == 1
    asked = rig.ask("ann", "blue", "update", UpdateRequest(targets=(f"{array}.5",), priority=2))
    rig.turn()
    assert rig.answer(asked).problems == (
        f"{array}.5: tasks that never started are changed together; name the array, {array}",
    )
    other = rig.ask("ben", "blue", "update", UpdateRequest(targets=(array,), priority=2))
    rig.turn()
    (problem,) = rig.answer(other, user="ben").problems
    assert problem == f"{array}: is ann's; ann or an admin of blue (none is named) may update it"


def test_a_task_that_failed_is_tried_again_with_its_history() -> None:
    """A retried task keeps its record, and its place among the concurrent ones."""
    rig = Rig()
    array = submit(rig, "0-5%2", retries=1, retry_backoff=5.0)
    rig.until(lambda: len(running(rig, array)) == 2)
    finish(rig, array, 0, 7)
    rig.until(lambda: running(rig, array) == [1, 2])
    record = rig.job(f"{array}.0")
    assert record.failures == 1
    whole(rig, array)
    rig.clock.advance(10)
    rig.turn(3)
    assert running(rig, array) == [1, 2]
    finish(rig, array, 1)
    rig.until(lambda: running(rig, array) == [0, 2])
    drive(rig, array)
    result = rig.result(f"{array}.0")
    assert result is not None
    assert (result.attempts, result.failures) == (2, 1)


def test_a_failure_ends_the_array_where_its_scope_is_the_launch() -> None:
    """With `scope="launch"`, the first task that fails permanently cancels all others."""
    rig = Rig()
    array = submit(rig, "0-99%2", scope="launch", on_failure="stop_others")
    rig.until(lambda: len(running(rig, array)) == 2)
    finish(rig, array, 1, 9)
    rig.until(lambda: array not in rig.root.arrays)
    result = rig.result(array)
    assert result is not None
    assert result.outcome == "failed"
    assert str(result.tasks["failed"]) == "1"
    assert str(result.tasks["cancelled"]) == "0,2-99"


def test_an_array_is_given_up_after_so_many_failures() -> None:
    """Tasks to be retried do not count; running and waiting tasks are cancelled."""
    rig = Rig()
    array = submit(rig, "0-99%3", max_failures=2, retries=1, retry_backoff=0)

    def runs(*tasks: int) -> bool:
        return running(rig, array) == [*tasks]

    def is_over(task: int) -> bool:
        return task not in running(rig, array)

    for task, others in ((0, [1, 2]), (1, [2, 3])):
        for _ in range(2):
            rig.until(partial(runs, task, *others))
            assert not rig.root.arrays[array].cancelled_by
            finish(rig, array, task, 3)
            rig.until(partial(is_over, task))
    rig.until(lambda: array not in rig.root.arrays)
    result = rig.result(array)
    assert result is not None
    assert str(result.tasks["failed"]) == "0-1"
    assert str(result.tasks["cancelled"]) == "2-99"
    assert result.text == (
        "2 of 100 tasks failed; task 0: exited with code 3; 98 cancelled by the failure of 2 tasks"
    )


def test_a_held_worker_that_decides_nothing_is_no_failure_of_its_task() -> None:
    """The first replica of the task continues, and determines how it ends."""
    rig = Rig()
    array = submit(
        rig,
        "0-9%1",
        max_failures=1,
        replicas=2,
        success="first",
        on_failure="continue",
        hold_on_failure=60.0,
    )
    rig.until(lambda: running(rig, array) == [0])
    task = f"{array}.0"
    worker = rig.agent_of(task, replica=1)
    failed = End(kind="exited", codes=(1,), first_failed=0)
    of = worker.of(task, replica=1)
    worker.ring(Held(of=of, for_s=60.0, folder="/code", end=failed))
    rig.turn(3)
    assert rig.job(task).kept
    assert not rig.root.arrays[array].cancelled_by
    rig.agent_of(task).end(task, 0, replica=0)
    rig.until(lambda: running(rig, array) == [1])
    assert str(rig.root.arrays[array].ended["succeeded"]) == "0"


def test_a_task_that_can_never_run_refuses_the_array() -> None:
    """What no machine can hold is refused at submission, as for a job."""
    rig = Rig()
    asked = ask(rig, "0-9", h100=9)
    rig.turn()
    (problem,) = rig.answer(asked).problems
    assert "can never run: one replica asks for 9 h100" in problem
    assert not rig.root.arrays
    assert not rig.history()[1:] or all(event.what != "submitted" for event in rig.history())


def test_a_new_leader_goes_on_where_the_old_one_died() -> None:
    """Counts and ranges are committed: nothing starts twice and nothing is lost."""
    rig = Rig()
    array = submit(rig, "0-19%4")
    rig.until(lambda: len(running(rig, array)) == 4)
    for pid in range(2, 40):
        if array not in rig.root.arrays:
            break
        for task in running(rig, array):
            finish(rig, array, task)
        rig.turn()
        rig.leader = rig.take(pid=pid)
        if array in rig.root.arrays:
            whole(rig, array)
    drive(rig, array)
    ran = [name for agent in rig.agents.values() for name in agent.ran]
    assert sorted(ran) == sorted(f"{array}.{task}/1" for task in range(20))


def test_an_array_counts_as_one_job_in_the_queue() -> None:
    """`max_queued_per_user` counts records, not tasks."""
    from tests.rigs.leader import QUOTA

    rig = Rig(quota=QUOTA + "max_queued_per_user = 2\n")
    submit(rig, "0-999%1")
    submit(rig, "0-999%1")
    asked = ask(rig, "0-9")
    rig.turn()
    (problem,) = rig.answer(asked).problems
    assert problem.startswith("ann has 2 jobs in the queue")


def test_a_verb_for_an_array_that_is_over_is_accepted() -> None:
    """There is nothing left to do, and that is no error."""
    rig = Rig()
    array = submit(rig, "0-1")
    drive(rig, array)
    for target in (array, f"{array}.0", f"{array}.0-1"):
        asked = rig.ask("ann", "blue", "cancel", JobsRequest(targets=(target,)))
        rig.turn()
        assert rig.answer(asked).accepted


def test_a_job_waits_for_all_of_an_array() -> None:
    """It starts once the last task has succeeded; by then the end of all is committed."""
    rig = Rig()
    array = submit(rig, "0-3%2")
    waits = rig.submit("waits", after=[array])
    rig.turn(2)
    found = rig.bucket.read(layout.view("queue"))
    assert found is not None
    (row,) = [row for row in json.loads(found.data)["jobs"] if row["id"] == waits]
    assert "2 queued" in row["text"]
    for _ in range(100):
        if rig.phase(waits) != "queued":
            break
        assert array in rig.root.arrays
        for task in running(rig, array):
            finish(rig, array, task)
        rig.turn()
    assert rig.phase(waits) in ("starting", "running")


def test_a_failed_task_ends_jobs_that_wait_for_success() -> None:
    """Jobs that wait for success end immediately; jobs that wait for any end continue to wait."""
    rig = Rig()
    array = submit(rig, "0-3%1")
    good = rig.submit("good", after=[array])
    any_end = rig.submit("any", after=[After(array, when="any")])
    rig.until(lambda: running(rig, array) == [0])
    finish(rig, array, 0, 3)
    result = rig.ended_later(good)
    assert result.text.startswith(f"its dependency {array}.0 failed")
    assert rig.phase(any_end) == "queued"
    drive(rig, array)
    rig.until(lambda: rig.phase(any_end) == "running")


def test_an_array_waits_for_a_job() -> None:
    """No task starts before it has ended; a failure ends every task without a start."""
    rig = Rig()
    first, bad = rig.start("first"), rig.start("bad")
    array = submit(rig, "0-3", after=[first])
    never = submit(rig, "0-9999", after=[bad])
    rig.turn(3)
    assert not running(rig, array)
    assert str(_row(rig, array)["text"]).startswith(f"waits for {first}")
    rig.agent_of(first).end(first)
    rig.agent_of(bad).end(bad, 4)
    rig.until(lambda: len(running(rig, array)) == 4)
    rig.until(lambda: never not in rig.root.arrays)
    result = rig.result(never)
    assert result is not None
    assert str(result.tasks["cancelled"]) == "0-9999"
    assert f"its dependency {bad} failed" in result.text


def test_a_task_is_nothing_to_wait_for() -> None:
    """A job that waits for one task is refused, with the array's name."""
    rig = Rig()
    array = submit(rig, "0-3")
    asked = rig.launch("waits", after=[f"{array}.1"])
    rig.turn()
    assert rig.answer(asked).problems == (
        f"after: {array}.1 is a task; wait for its array, {array}",
    )


def test_a_webhook_is_told_of_the_array_once() -> None:
    """However many tasks there are, one notification says how the array ended."""
    rig = Rig()
    array = submit(rig, "0-5", notify=[Notify("https://example.com/hook")])
    told: set[str] = set()
    for _ in range(60):
        if array not in rig.root.arrays:
            break
        told |= {each.id for each in rig.root.outbox}
        for task in running(rig, array):
            finish(rig, array, task)
        rig.turn()
    told |= {each.id for each in rig.root.outbox}
    assert told == {f"{array}.0.ended.0"}


def test_a_cancel_that_splits_an_array_further_than_root_may_hold_is_refused() -> None:
    """Every other task of many arrays would make root hundreds of megabytes; all is allowed."""
    rig = Rig(quota=QUOTA + "max_queued_per_user = 10\n")
    array = submit(rig, "0-9999", hold=True)
    for first in (0, 900, 1_800):
        rig.verb("cancel", f"{array}.{first}-{first + 898}:2")
        rig.turn()
    held = rig.root.arrays[array]
    asked = rig.verb("cancel", f"{array}.2700-3598:2")
    rig.turn()
    (problem,) = rig.answer(asked).problems
    assert problem == (
        f"{array}.2700-3598:2: its tasks would lie in so many ranges that ann takes 11 places"
        " in the queue, and max_queued_per_user allows 10: name tasks that follow each other, or"
        " the whole array"
    )
    assert rig.root.arrays[array] == held
    asked = rig.verb("cancel", array)
    rig.turn()
    assert rig.answer(asked).accepted
    assert rig.root.arrays[array].ended_at is not None


def test_an_event_names_some_of_thousands_of_ranges() -> None:
    """Root holds events until they are sealed."""
    rig = Rig()
    array = submit(rig, "0-9999", hold=True)
    rig.verb("cancel", f"{array}.0-998:2")
    rig.turn()
    (text,) = (event.text for event in rig.history() if event.what == "cancelled")
    assert text.startswith("tasks 0,2,4,")
    assert text.endswith(",38 and 480 more by ann, before they started")
