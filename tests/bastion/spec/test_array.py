"""The tasks of an array, as written and as stored."""

from __future__ import annotations

import random
import re
import tracemalloc
from cProfile import Profile
from typing import Any

import pytest

from bastion.errors import SpecError
from bastion.records.coding.codec import decode, encode
from bastion.spec import Array, Indices, Job, Launch, Process, Sweep
from bastion.spec.arrays.task import task_id, tasks_named, tasks_of_id

JOB = Job(processes=(Process(["true"]),))


@pytest.mark.parametrize(
    ("written", "tasks", "at_once"),
    [
        ("0-99%10", "0-99", 10),
        ("17", "17", None),
        ("4,0-2, 9", "0-2,4,9", None),
        ("0-9:3%2", "0,3,6,9", 2),
        (5, "0-4", None),
        ([3, 1, 2, 7], "1-3,7", None),
    ],
)
def test_an_array_says_its_tasks(written: object, tasks: str, at_once: int | None) -> None:
    """Ranges, single indices, steps, a limit; or a number, or a list of indices."""
    array = Array(written)  # type: ignore[arg-type]
    assert (str(array.tasks), array.at_once) == (tasks, at_once)
    assert Array(str(array)) == array


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("9-0", "'9-0' ends before it begins; write 0-9"),
        ("0-9%0", "%0 in '0-9%0' is not allowed; after % stands how many tasks may run at once"),
        ("0-9%", "% in '0-9%' is not allowed"),
        ("0-4,3-7", "'0-4,3-7' names an index twice"),
        ("-3", "with commas, and indices begin at 0"),
        ("0-30000", "30001 tasks are not allowed; 1 to 30000"),
        ("1000000", "1000000 is too high an index; 0 to 999999"),
        ("", "'' in '' is not a range; allowed: 17, 0-99, 0-99:10"),
        ("0-9:0", "'0-9:0' has a step of 0; 1 or more"),
        ("0-9999:2", "is 5000 separate ranges; at most 1000"),
        ("ten", "'ten' in 'ten' is not a range"),
        (0, "0 tasks are not allowed; 1 to 30000"),
        ([1, 1], "an index is given twice"),
        ([-1], "-1 is not an index; whole numbers from 0 to 999999"),
        (range(0, 2002, 2), "28,' is 1001 separate ranges; at most 1000"),
    ],
)
def test_a_wrong_array_is_refused(written: object, problem: str) -> None:
    """Each error has its own text, with what is allowed."""
    with pytest.raises(SpecError) as caught:
        Array(written)  # type: ignore[arg-type]
    (told,) = caught.value.problems
    assert told.startswith("array: ")
    assert problem in told


def test_a_limit_is_said_once() -> None:
    """Setting the concurrency in both ways is an error; either one is accepted."""
    assert Array("0-9", at_once=3) == Array("0-9%3")
    with pytest.raises(SpecError, match="both set the limit"):
        Array("0-9%3", at_once=4)
    with pytest.raises(SpecError, match="0 at once is not allowed"):
        Array("0-9", at_once=0)


def test_an_array_is_of_one_job_and_waits() -> None:
    """Several jobs, and `when_busy="fail"`, are refused with separate errors."""
    other = Job(name="b", processes=(Process(["true"]),))
    with pytest.raises(SpecError) as caught:
        Launch(name="a", jobs=(JOB, other), array=Array("0-9"), when_busy="fail")
    first, second = caught.value.problems
    assert first == "array: the launch has 2 jobs; an array is of one"
    assert second.startswith("when_busy: 'fail' is not possible with array: its tasks start as")


def test_failures_are_counted_of_tasks_alone() -> None:
    """The number is at least one, and only for an array or a sweep."""
    with pytest.raises(SpecError, match="max_failures: 0 is not allowed; 1 or more"):
        Launch(name="a", jobs=(JOB,), array=Array("0-9"), max_failures=0)
    with pytest.raises(SpecError, match="max_failures: without array or sweep there are no tasks"):
        Launch(name="a", jobs=(JOB,), max_failures=1)


def test_an_array_picks_tasks_of_a_sweep() -> None:
    """With both, the array's indices are tasks of the sweep; others are refused."""
    sweep = Sweep(grid={"x": [1, 2, 3]})
    job = Job(processes=(Process(["run", "{x}"]),))
    launch = Launch(name="s", jobs=(job,), sweep=sweep, array=Array("1-2%1"))
    assert (str(launch.tasks), launch.at_once) == ("1-2", 1)
    with pytest.raises(SpecError, match="array: the sweep has no task 3; its tasks are 0 to 2"):
        Launch(name="s", jobs=(job,), sweep=sweep, array=Array("0-3"))


def test_a_launch_with_an_array_is_stored_as_it_is_written() -> None:
    """The spec has the text, however many tasks it means."""
    launch = Launch(name="a", jobs=(JOB,), array=Array("0-9999%16"))
    data = encode(launch)
    assert b'"array":"0-9999%16"' in data
    assert decode(Launch, data, key="x") == launch


def test_indices_are_sets() -> None:
    """Union, difference, intersection, order and counting agree with sets of numbers."""
    chance = random.Random(7)
    for _ in range(500):
        a, b = ({chance.randrange(40) for _ in range(chance.randrange(30))} for _ in range(2))
        x, y = Indices.of(a), Indices.of(b)
        assert (set(x | y), set(x - y), set(x & y)) == (a | b, a - b, a & b)
        assert (len(x), list(x)) == (len(a), sorted(a))
        assert x.lowest(5) == sorted(a)[:5]
        assert [x.place_of(i) for i in range(41)] == [sum(j < i for j in a) for i in range(41)]
        assert [i in x for i in range(41)] == [i in a for i in range(41)]
        assert (Indices.parse(str(x)) if a else Indices()) == x


def test_sets_of_thousands_of_ranges_are_sets() -> None:
    """The same holds for many ranges, with few and many others, in any order of operations."""
    chance = random.Random(11)
    for few, many in ((3, 900), (900, 3), (800, 900)):
        a, b = ({chance.randrange(5_000) for _ in range(size)} for size in (few, many))
        x, y = Indices.of(a), Indices.of(b)
        for made, wanted in ((x | y, a | b), (x - y, a - b), (x & y, a & b), (y - x, b - a)):
            again = Indices.known(str(made))
            assert (made == again, bool(made), len(made)) == (True, bool(wanted), len(wanted))
            assert (hash(made), made.ranges) == (hash(again), len(again.pairs))
            assert [i for i in range(5_001) if i in made] == sorted(wanted) == list(made)
        rest = (x | y) - Indices.of(sorted(b)[:1])
        assert rest.lowest(3) == sorted((a | b) - {min(b)})[:3]
        assert rest.first == rest.lowest(1)[0]
        assert rest.lowest(200) == list(rest)[:200]


def test_one_of_thousands_of_ranges_is_taken_out_without_going_through_them() -> None:
    """Each task that starts or ends is removed from a set of up to fifteen thousand ranges."""

    def first_but_two(every: Indices) -> int:
        return (every - Indices.of([2])).first

    calls = []
    for size in (1_000, 20_000):
        every = Indices.of(range(0, size, 2)) - Indices.of([0])
        profile = Profile()
        profile.runcall(first_but_two, every)
        calls.append(sum(each.callcount for each in profile.getstats()))
    assert calls[1] < calls[0] + 100


def test_a_task_is_named_by_its_array() -> None:
    """A task id is never mistaken for another job's: no name contains a dot."""
    assert task_id("a-0123456789", 17) == "a-0123456789.17"
    assert tasks_of_id("a-0123456789.17") == ("a-0123456789", Indices.of([17]))
    assert tasks_of_id("a-0123456789.0-4,9") == ("a-0123456789", Indices.parse("0-4,9"))
    assert tasks_of_id("v1.5-0123456789") is None
    assert tasks_of_id("v1.5") is None
    assert tasks_named("v1.5") == ("v1", Indices.of([5]))
    assert tasks_named("v1.9-5") is None


@pytest.mark.parametrize(
    "text",
    [
        "9" * 5_000,
        "0-" + "9" * 5_000,
        "0-99:" + "9" * 5_000,
        ",".join(["0-999999:2"] * 100),
        "0-999999:2",
        "1," * 30_000,
    ],
    ids=["digits", "end", "step", "many sets", "a set", "characters"],
)
def test_a_set_of_indices_is_measured_before_it_is_made(text: str) -> None:
    """Text for more tasks than allowed is refused before any is created."""
    tracemalloc.start()
    try:
        with pytest.raises(SpecError):
            Indices.parse(text)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("tasks", "at_once", "told"),
    [
        ("0-9", "5", "array: '5' at once is not allowed"),
        ("0-9", 2.5, "array: 2.5 at once is not allowed"),
        (10.0, None, "array: 10.0 is not tasks; written as 100, 0-99"),
        (True, None, "array: True is not tasks"),
        (None, None, "array: None is not tasks"),
    ],
)
def test_an_array_of_a_wrong_type_is_told(tasks: Any, at_once: Any, told: str) -> None:
    """A number of a wrong type is refused, and never causes a Python error."""
    with pytest.raises(SpecError, match=re.escape(told)):
        Array(tasks, at_once=at_once)
