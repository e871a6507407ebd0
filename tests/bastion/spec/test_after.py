"""What a job can wait for, as written."""

from __future__ import annotations

import pytest

from bastion.errors import SpecError
from bastion.records.coding.codec import decode, encode
from bastion.spec import After, Job, Launch, Process
from bastion.spec.after import MAX_AFTER


def job(name: str, *after: After | str) -> Job:
    """Return a job."""
    return Job(name=name, processes=(Process(["true"]),), after=after)


def launch(*jobs: Job, together: bool = False, after: tuple[After | str, ...] = ()) -> Launch:
    """Return a launch."""
    return Launch(name="l", jobs=jobs, together=together, after=after)


def problems(*jobs: Job, together: bool = False, after: tuple[After | str, ...] = ()) -> list[str]:
    """Return what is wrong with a launch."""
    with pytest.raises(SpecError) as caught:
        launch(*jobs, together=together, after=after)
    return list(caught.value.problems)


def test_text_says_the_same_as_a_value() -> None:
    """A bare name means `ok`; a colon precedes another condition; each target counts once."""
    made = job("a", "x-1", "x-1:any", "x-1:ok", After("y-1", when="failed"), "y-1:failed")
    assert made.after == (After("x-1"), After("x-1", when="any"), After("y-1", when="failed"))
    assert [str(each) for each in made.waits_for] == ["x-1", "x-1:any", "y-1:failed"]


def test_it_is_stored_and_read() -> None:
    """What was written comes back from JSON."""
    made = launch(job("a", "x-1:any"), job("b", "a"), after=("z-1",))
    assert decode(Launch, encode(made), key="k") == made


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("a b", "after: 'a b' is neither the name nor the id of a job or launch; write it as"),
        ("", "after: '' is neither the name"),
        ("x:often", "after: 'x:often': 'often' is unknown; allowed: ok, any, failed"),
        ("x:", "after: 'x:': '' is unknown"),
        (3, "after[0]: 3 is not an After or text"),
    ],
)
def test_what_is_no_target_is_refused(written: str, problem: str) -> None:
    """For a misspelt condition or name, the error says what is allowed."""
    with pytest.raises(SpecError) as caught:
        job("a", written)
    assert str(caught.value).startswith(problem)


def test_one_string_is_no_list() -> None:
    """`after="x"` would be a list of letters."""
    with pytest.raises(SpecError, match="after: 'x' is one string; give a list"):
        Launch(name="l", jobs=(job("a"),), after="x")


def test_too_many_are_refused() -> None:
    """The limit is named."""
    with pytest.raises(SpecError, match="after: 101 is not allowed; at most 100"):
        job("a", *(f"x-{n}" for n in range(MAX_AFTER + 1)))


@pytest.mark.parametrize(
    ("waits", "circle"),
    [
        ({"a": "a"}, "a -> a"),
        ({"a": "b", "b": "a"}, "a -> b -> a"),
        ({"a": "b", "b": "c", "c": "d", "d": "b"}, "b -> c -> d -> b"),
    ],
)
def test_a_circle_is_written_out(waits: dict[str, str], circle: str) -> None:
    """Jobs that wait for each other are named in order."""
    jobs = [job(name, other) for name, other in waits.items()]
    (problem,) = problems(*jobs)
    assert problem.endswith(f"{circle} is a circle: none of them could ever start")


def test_what_is_no_circle_is_allowed() -> None:
    """Two paths to the same job, and a job outside, are allowed."""
    made = launch(job("d", "b", "c"), job("b", "a"), job("c", "a", "x-1"), job("a"))
    assert len(made.jobs) == 4


def test_long_chains_are_no_problem() -> None:
    """A thousand jobs in a row are checked without recursion."""
    launch(*(job(f"j{n}", *([f"j{n + 1}"] if n < 999 else [])) for n in range(1000)))


def test_a_gang_cannot_follow_itself() -> None:
    """Its jobs start together; the error names the solution."""
    (problem,) = problems(job("a"), job("b", "a"), together=True)
    assert problem == (
        "jobs.b.after: 'a' is a job of this launch, and its jobs start together; set together to"
        " false for one after the other"
    )


def test_a_launch_cannot_wait_for_its_own_job() -> None:
    """A condition above the jobs applies to all of them."""
    (problem,) = problems(job("a"), job("b"), after=("a",))
    assert problem.startswith("after: 'a' is one of its own jobs; say under each job what it waits")
    assert problem.endswith("name an earlier job by its id")
