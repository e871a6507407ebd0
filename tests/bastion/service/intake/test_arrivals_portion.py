"""The requests that one turn applies after reading: a portion that keeps the turn short."""

from __future__ import annotations

from dataclasses import replace

from bastion.records.keys import layout
from bastion.records.requests.inbox import Waiting
from bastion.records.requests.job_request import JobsRequest
from bastion.records.requests.launch_request import LaunchRequest
from bastion.service.intake.arrivals import apply_portion
from bastion.service.intake.inbox import ReadRequest
from bastion.spec import Array, Job, Launch, Process
from bastion.store import Entry, Version
from tests.rigs.leader import PACE, Rig


def _request(user: str, number: int, jobs: int) -> ReadRequest:
    """Return a cancel of `jobs` jobs."""
    ulid = f"{number:026}"
    name = layout.parse_request(layout.request("blue", user, ulid, "cancel"))
    assert name is not None
    key = layout.request("blue", user, ulid, "cancel")
    entry = Entry(key=key, version=Version("1"), size=1, modified_at=float(number))
    targets = tuple(f"x{n:06}-0123456789" for n in range(jobs))
    return ReadRequest(waiting=Waiting(entry=entry, name=name), body=JobsRequest(targets=targets))


def _applied(requests: list[ReadRequest], *, most_jobs: int, wait: int = 0) -> list[ReadRequest]:
    """Return what one turn applies if the first `wait` requests must wait."""
    waits = requests[:wait]
    return apply_portion(requests, lambda each: each not in waits, most_jobs=most_jobs)


def test_requests_of_few_jobs_are_all_applied_in_their_order() -> None:
    """Requests with no more jobs than a turn may take are one portion, in order of arrival."""
    few = [_request("ann", 1, 60), _request("ann", 2, 30), _request("ben", 3, 10)]
    assert _applied(few, most_jobs=100) == few


def test_a_flood_is_applied_in_portions_and_keeps_no_other_user_waiting() -> None:
    """Of many requests, one turn applies some, in order, and those of the other user."""
    flood = [_request("ann", n, 100) for n in range(30)]
    other = _request("ben", 99, 900)
    assert _applied([*flood, other], most_jobs=1_000) == [flood[0], other]
    assert _applied(flood, most_jobs=1_000) == flood[:10]


def test_what_has_to_wait_takes_no_room() -> None:
    """Requests that cannot be applied yet block no later ones, of any user."""
    flood = [_request("ann", n, 100) for n in range(30)]
    other = _request("ben", 99, 900)
    assert _applied([*flood, other], most_jobs=1_000, wait=20) == [flood[20], other]


def test_a_launch_counts_for_all_of_its_jobs() -> None:
    """A hold of one launch of a thousand jobs is as much work as one of a thousand jobs."""
    flood = [_request("ann", n, 1) for n in range(30)]
    taken = apply_portion(flood, lambda _: True, most_jobs=2_500, named=lambda _: 1_000)
    assert taken == flood[:3]


def test_a_request_larger_than_a_turn_is_applied() -> None:
    """A request that names more jobs than a turn may take is one portion."""
    large = [_request("ann", 1, 900), _request("ann", 2, 1)]
    assert _applied(large, most_jobs=100) == large[:1]


def test_an_array_counts_as_one_job() -> None:
    """An array of many tasks is one row of the state, so it takes as much room as a job."""
    job = Job(processes=[Process(["true"])])
    body = LaunchRequest(launch=Launch(name="sweep", jobs=(job,), array=Array("0-9999")))
    array = ReadRequest(waiting=_request("ann", 1, 1).waiting, body=body)
    last = [_request("ann", 2, 99), _request("ann", 3, 1)]
    assert _applied([array, *last], most_jobs=100) == [array, last[0]]


def test_a_flood_of_launches_is_taken_in_over_several_commits() -> None:
    """A turn takes in no more jobs than its pace allows, and the next turns take the others."""
    rig = Rig(pace=replace(PACE, turn_jobs=40))
    rig.turn(3)
    jobs = tuple(Job(name=f"j{n}", processes=[Process(["true"])]) for n in range(10))
    for _ in range(6):
        rig.launch("many", jobs=jobs, together=False)
    rig.turn()
    assert len(rig.root.jobs) == 40
    rig.turn()
    assert len(rig.root.jobs) == 60


def test_a_job_that_ends_while_its_cancel_waits_is_told_to_have_ended() -> None:
    """A cancel that a full turn leaves over reports the job's state when it is applied."""
    rig = Rig(pace=replace(PACE, turn_jobs=1))
    job = rig.submit()
    rig.until_attempt(job, 1)
    for _ in range(20):
        rig.verb("hold", job)
    asked = rig.verb("cancel", job)
    rig.turn()
    rig.agent_of(job).end(job)
    rig.until(lambda: rig.phase(job) == "gone")
    assert len(rig.keys(layout.user_inbox("blue", "ann"))) > 1
    rig.until(lambda: not rig.keys(layout.user_inbox("blue", "ann")))
    answer = rig.answer(asked)
    assert answer.accepted, answer.problems
