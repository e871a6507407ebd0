"""Requests designed to stop a bastion: each is answered, and all others are served."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from bastion.records.coding.codec import encode
from bastion.records.keys import layout, ulid
from bastion.service.intake.requests import (
    MAX_PROBLEM_CHARACTERS,
    MAX_PROBLEMS,
    UNKNOWN_JOB_WAIT_S,
    told,
)
from bastion.spec import Job, Process, Resources, Secret
from tests.bastion.service.launch_request import launch_request
from tests.rigs.leader import Rig

NUMBER = "9" * 5_000
BODIES = {
    "a number of 5,000 digits": {"targets": [f"x-0123456789.{NUMBER}"]},
    "half a million ranges": {"targets": ["x-0123456789." + ",".join(["0-999999:2"] * 20)]},
    "ranges in every target": {"targets": ["x-0123456789.0-999999:2"] * 200},
    "a thousand ranges in every target": {"targets": ["x-0123456789.0-1999:2"] * 1_000},
    "numbers for targets": {"targets": [5] * 60_000},
    "a target of a megabyte": {"targets": ["x" * 200_000]},
    "depth": {"targets": json.loads("[" * 400 + "]" * 400)},
}


@pytest.mark.parametrize("user", ["ann", "eve"])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_hostile_verb_is_answered(user: str, body: dict[str, object]) -> None:
    """Every verb of a member or a stranger is answered, and others' requests are served."""
    rig = Rig()
    asked = ulid.make(rig.clock.wall(), b"\1" * 10)
    data = json.dumps({"schema": 1, **body}).encode()
    rig.bucket.create(layout.request("blue", user, asked, "cancel"), data)
    other = rig.launch("train")
    rig.turn(3)
    assert rig.answer(other).accepted
    rig.clock.advance(UNKNOWN_JOB_WAIT_S)
    rig.turn(2)
    assert not rig.answer(asked, user=user).accepted


def test_a_strangers_body_is_not_read() -> None:
    """A request of a user who is no member and owns nothing is refused by its name alone."""
    rig = Rig()
    asked = ulid.make(rig.clock.wall(), b"\1" * 10)
    rig.bucket.create(layout.request("blue", "eve", asked, "cancel"), b"not even JSON")
    rig.turn(2)
    (problem,) = rig.answer(asked, user="eve").problems
    assert "eve" in problem
    assert "JSON" not in problem


def test_an_answer_is_bounded() -> None:
    """An answer has the first problems, shortened, and the number of the others."""
    problems = told(["x" * 1_000] * 500)
    assert len(problems) == MAX_PROBLEMS + 1
    assert max(map(len, problems)) <= MAX_PROBLEM_CHARACTERS + 3
    assert problems[-1] == "and 450 more"


def test_a_job_that_root_cannot_keep_is_refused() -> None:
    """A job whose record is larger than root may keep is refused, with its size."""
    rig = Rig()
    secrets = [Secret(f"{'N' * 90}{n}", source="aws:" + "x" * 2_000) for n in range(40)]
    process = Process(["true"], secrets=secrets, resources=Resources(h100=1))
    asked = rig.launch("big", jobs=(Job(processes=[process]),))
    rig.turn(2)
    assert any("at most 65536" in each for each in rig.answer(asked).problems)
    assert not rig.root.jobs


@pytest.mark.parametrize("ends", [False, True])
def test_no_launch_takes_the_id_of_anothers_job(ends: bool) -> None:
    """`a` with a job `b-c` and `a-b` with a job `c` have the same id: the second is refused."""
    rig = Rig()
    first, second = (ulid.make(rig.clock.wall() + s, b"\7" * 10) for s in (0.0, 60.0))
    body = launch_request()
    (job,) = body.launch.jobs
    jobs = (replace(job, name="b-c"), replace(job, name="x"))
    asked = replace(body, launch=replace(body.launch, name="a", jobs=jobs))
    rig.bucket.create(layout.request("blue", "ann", first, "launch"), encode(asked))
    rig.turn(3)
    made = rig.answer(first).jobs
    if ends:
        for each in made:
            rig.agent_of(each).end(each)
            rig.ended(each)
        rig.turn(3)
    jobs = (replace(job, name="c"), replace(job, name="y"))
    other = replace(body, launch=replace(body.launch, name="a-b", jobs=jobs))
    rig.bucket.create(layout.request("blue", "ben", second, "launch"), encode(other))
    rig.turn(3)
    answer = rig.answer(second, user="ben")
    assert not answer.accepted
    assert answer.problems == (f"there is a job {made[0]} already",)


def test_a_refused_launch_with_a_cancelled_job_stops_no_turn() -> None:
    """A job that one turn accepts, cancels and withdraws with its launch is not looked up."""
    rig = Rig()
    rig.turn(2)
    fits, never = (
        Job(name=name, processes=(Process(["true"], resources=Resources(h100=n)),))
        for name, n in (("fits", 1), ("never", 64))
    )
    asked = rig.launch("pair", jobs=(fits, never), together=False)
    rig.verb("cancel", f"pair-fits-{asked[-10:].lower()}")
    rig.turn(3)
    assert not rig.answer(asked).accepted
    assert not rig.keys(layout.INBOX)
    assert rig.start("next")


@pytest.mark.parametrize("name", ["pair", "pair-x"])
def test_no_launch_takes_the_id_of_anothers_in_another_project(name: str) -> None:
    """A failure in it would end the jobs of the other, which are found by that id alone."""
    rig = Rig()
    one = Job(processes=(Process(["true"], resources=Resources(h100=1)),))
    pair = (replace(one, name="x"), replace(one, name="y"))
    asked = rig.launch("pair", jobs=pair, together=False)
    rig.turn(3)
    jobs = (replace(one, name="evil", scope="launch"), replace(one, name="other"))
    body = launch_request(name=name, jobs=jobs, together=False)
    rig.bucket.create(layout.request("red", "cat", asked, "launch"), encode(body))
    rig.turn(3)
    answer = rig.answer(asked, user="cat", project="red")
    assert not answer.accepted
    (problem,) = answer.problems
    assert problem.startswith("there is a ")
    assert problem.endswith(" already")
    assert {each.project for each in rig.root.jobs.values()} == {"blue"}
