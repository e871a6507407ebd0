"""A range of replicas: its syntax, and which jobs can have one."""

from typing import Any

import pytest

from bastion.errors import SpecError
from bastion.spec import Job, Launch, Process, Where, request_of
from bastion.spec.replicas import Replicas, replicas_of
from quota.amounts import Amounts
from tests.bastion.spec.problems import problems

ECHO = Process(["echo"])


def job(**given: Any) -> Job:
    """Return a job of one process."""
    return Job(processes=(ECHO,), **given)


@pytest.mark.parametrize(
    ("written", "found"),
    [(4, (4, 4)), ("2-8", (2, 8)), (" 2 - 8 ", (2, 8)), ("3-3", (3, 3)), ("1-257", (1, 257))],
)
def test_a_range_is_read(written: int | str, found: tuple[int, int]) -> None:
    """A number is a range of one; blanks are ignored."""
    assert replicas_of(written) == Replicas(least=found[0], most=found[1])


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("8-2", "replicas: '8-2' ends before it begins; allowed: \"2-8\""),
        ("0-4", "replicas: 0 is not allowed; 1 to 10000"),
        ("2-10001", "replicas: 10001 is not allowed; 1 to 10000"),
        ("1-300", "replicas: '1-300' is too wide; at most \"1-257\""),
        (
            "2:8",
            "replicas: '2:8' is not a range; allowed: a whole number, or the fewest and the most,"
            ' as "2-8"',
        ),
    ],
)
def test_a_wrong_range_is_refused(written: str, problem: str) -> None:
    """The problem has the written value and what is allowed."""
    with pytest.raises(SpecError) as refused:
        replicas_of(written)
    assert refused.value.problems == (problem,)
    assert problems(job, replicas=written) == (problem,)


def test_a_range_of_one_number_is_that_number() -> None:
    """`3-3` never grows, so it is not an elastic job."""
    assert (job(replicas="3-3").replicas, job(replicas=" 2-8").replicas) == (3, "2-8")


def test_an_elastic_job_must_resume() -> None:
    """It is stopped to grow, so a job that must not resume would end."""
    (problem,) = problems(job, replicas="2-8", resume=False)
    assert problem == (
        'replicas: "2-8" needs resume=True: to grow or shrink, a job is stopped and resumed;'
        " or replicas=2"
    )


def test_an_elastic_job_starts_alone_and_on_parts_of_machines() -> None:
    """A gang of several jobs, or of whole machines, keeps its size."""
    elastic, other = job(name="a", replicas="2-8"), job(name="b")
    assert problems(Launch, name="x", jobs=(elastic, other)) == (
        'jobs.0.replicas: "2-8" is not possible, as its launch has 1 more to start with it;'
        " together=False; or replicas=2",
    )
    assert problems(Launch, name="x", jobs=(elastic,), where=Where(exclusive=True)) == (
        'jobs.0.replicas: "2-8" is not possible, as it takes whole machines; leave exclusive out;'
        " or replicas=2",
    )
    assert Launch(name="x", jobs=(elastic, other), together=False).jobs[0] is elastic


def test_the_scheduler_is_asked_for_the_fewest() -> None:
    """Everything above the minimum is an extra."""
    made = job(replicas="2-8")
    launch = Launch(name="x", jobs=(made,))
    request = request_of(launch, made, per_replica=Amounts({"h100": 1}), hosts=1)
    assert (request.replicas, request.max_replicas, request.units["h100"]) == (2, 8, 2)
    assert (request.is_elastic, made.stops_others) == (True, True)
    rigid = request_of(launch, job(replicas=3), per_replica=Amounts({}), hosts=1)
    assert (rigid.is_elastic, rigid.most) == (False, 3)
