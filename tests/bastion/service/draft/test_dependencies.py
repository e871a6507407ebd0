"""Jobs that wait for others, through the leader: intake, ends, crashes, verbs, refusals."""

from __future__ import annotations

from cProfile import Profile
from dataclasses import replace

import pytest

from bastion.errors import SpecError
from bastion.job import Dependency
from bastion.lane import InlineLane
from bastion.records.keys import layout
from bastion.records.requests.answer import Answer
from bastion.records.requests.queued import queued_jobs
from bastion.records.root import Root
from bastion.scheduler.reasons.reason import text
from bastion.service.draft.dependencies import joining
from bastion.service.draft.root_draft import Draft
from bastion.service.intake.inbox import InboxReader
from bastion.spec import After, Job, Launch, Process, Resources
from tests.rigs import job_records
from tests.rigs.leader import QUOTA, Rig
from tests.rigs.scripted_bastion import end


def why(rig: Rig, job: str) -> str:
    """Return the reason that the last cycle gave."""
    plan = rig.leader._plan
    assert plan is not None
    return text(plan.verdicts[job].reason, rig.root.now)


def job(name: str, *after: After | str, h100: int = 1) -> Job:
    """Return a job of a launch of several."""
    process = Process(["true"], resources=Resources(h100=h100))
    return Job(name=name, processes=(process,), after=after)


def ids(rig: Rig, asked: str) -> dict[str, str]:
    """Return the jobs of a launch that was just submitted, by name."""
    rig.turn()
    return {rig.job(each).name: each for each in rig.answer(asked).jobs}


def refusal(rig: Rig, asked: str) -> str:
    """Return the single problem for which a request was refused."""
    rig.turn()
    answer: Answer = rig.answer(asked)
    (problem,) = answer.problems
    return problem


@pytest.fixture
def rig() -> Rig:
    """Provide a bastion with two ready machines of eight devices."""
    made = Rig()
    made.turn(3)
    return made


def test_it_starts_when_the_other_has_succeeded(rig: Rig) -> None:
    """It waits with its own reason, joins the queue in the commit that sees the end, and runs."""
    first = rig.start("first")
    second = rig.submit("second", after=[first])
    rig.turn(3)
    assert rig.phase(second) == "queued"
    assert why(rig, second) == f"waits for {first} to succeed (running); it joins the queue then"
    rig.agent_of(first).end(first)
    rig.until(lambda: rig.phase(first) in ("done", "gone"))
    assert rig.job(second).after == ()
    rig.until(lambda: rig.phase(second) == "running")
    assert [e.text for e in rig.history() if e.job == second and e.what == "ready"] == [
        "all that it waited for has ended"
    ]


def test_a_failure_goes_down_a_chain_in_one_commit(rig: Rig) -> None:
    """A job that waits for success ends cancelled with the cause, and so do those behind it."""
    first = rig.start("first")
    second = rig.submit("second", after=[first])
    third = rig.submit("third", after=[second])
    clean = rig.submit("clean", after=[After(second, when="any")])
    rig.agent_of(first).end(first, 3)
    rig.until(lambda: rig.phase(first) in ("done", "gone"))
    assert [rig.phase(each) for each in (second, third)] == ["done", "done"]
    assert rig.ended(second).text == f"its dependency {first} failed (exited with code 3)"
    assert rig.ended(second).outcome == "cancelled"
    assert rig.ended(third).text == f"its dependency {second} was cancelled"
    assert rig.ended(third).attempts == 0
    rig.until(lambda: rig.phase(clean) == "running")


def test_a_retry_and_a_preemption_are_no_end(rig: Rig) -> None:
    """A target that will run again has not ended."""
    first = rig.start("first", retries=1, retry_backoff=5.0)
    second = rig.submit("second", after=[first])
    rig.agent_of(first).end(first, 3)
    rig.until_attempt(first, 2)
    assert rig.phase(second) == "queued"
    assert rig.job(second).after
    rig.agent_of(first).end(first)
    rig.until(lambda: rig.phase(second) == "running")


@pytest.mark.parametrize("turns", range(8))
def test_a_crash_forgets_nothing(rig: Rig, turns: int) -> None:
    """A new bastion knows what happened to the target, whenever it takes over."""
    first = rig.start("first")
    good = rig.submit("good", after=[After(first, when="failed")])
    bad = rig.submit("bad", after=[first])
    rig.agent_of(first).end(first, 3)
    rig.turn(turns)
    rig.leader = rig.take("other")
    rig.until(lambda: rig.phase(first) == "gone")
    rig.until(lambda: rig.phase(good) == "running")
    assert rig.ended_later(bad).outcome == "cancelled"


def test_jobs_of_one_launch_follow_each_other(rig: Rig) -> None:
    """Names refer to the jobs of the same launch, which is stored as it was written."""
    asked = rig.launch(
        "line", jobs=(job("a"), job("b", "a"), job("c", After("b", when="any"))), together=False
    )
    found = ids(rig, asked)
    rig.until(lambda: rig.phase(found["a"]) == "running")
    assert [each.on for each in rig.job(found["c"]).after] == [found["b"]]
    rig.agent_of(found["a"]).end(found["a"])
    rig.until(lambda: rig.phase(found["b"]) == "running")
    assert rig.phase(found["c"]) == "queued"
    rig.agent_of(found["b"]).end(found["b"], 1)
    rig.until(lambda: rig.phase(found["c"]) == "running")


def test_a_gang_waits_as_one(rig: Rig) -> None:
    """All jobs of a gang wait for what one waits for, and all end when it can never happen."""
    first = rig.start("first")
    found = ids(rig, rig.launch("gang", jobs=(job("a", first), job("b"))))
    rig.turn(3)
    assert why(rig, found["b"]) == why(rig, found["a"])
    rig.agent_of(first).end(first, 1)
    assert rig.ended_later(found["a"]).outcome == "cancelled"
    assert rig.ended_later(found["b"]).outcome == "cancelled"


def test_a_launch_is_waited_for_as_one(rig: Rig) -> None:
    """This holds even if some of its jobs ended, and left, before another job named it."""
    asked = rig.launch("many", jobs=(job("a"), job("b")), together=False)
    found = ids(rig, asked)
    launch = rig.answer(asked).launch
    rig.until(lambda: all(rig.phase(each) == "running" for each in found.values()))
    rig.agent_of(found["a"]).end(found["a"], 2)
    rig.ended(found["a"])
    late = rig.submit("late", after=[After(launch, when="failed")])
    assert rig.job(late).after[0].failed == found["a"]
    assert why(rig, late) == (
        f"waits for {launch} to end without success (1 running); it joins the queue then"
    )
    refused = rig.launch("never", after=[launch])
    assert refusal(rig, refused).startswith(f"after: its dependency {found['a']} failed (exited")
    rig.agent_of(found["b"]).end(found["b"])
    rig.until(lambda: rig.phase(late) == "running")


def test_what_has_ended_before_need_not_be_waited_for(rig: Rig) -> None:
    """A target with a final record is looked up when the launch arrives."""
    first = rig.start("first")
    rig.agent_of(first).end(first)
    rig.ended(first)
    second = rig.submit("second", after=[first, After(first, when="any")])
    assert rig.job(second).after == ()
    never = rig.launch("third", after=[After(first, when="failed")])
    problem = refusal(rig, never)
    assert problem.startswith(f"after: its dependency {first} succeeded, and it was to start on a")
    assert "could never start; with :any behind the name it starts" in problem


@pytest.mark.parametrize("turns", range(6))
def test_a_target_that_is_just_leaving_is_known(rig: Rig, turns: int) -> None:
    """The target is found in every turn between its end and its last trace in root."""
    first = rig.start("first")
    rig.agent_of(first).end(first)
    rig.turn(turns)
    second = rig.submit("second", after=[first])
    rig.until(lambda: rig.phase(second) == "running")


def test_a_turn_that_is_lost_asks_again_what_became_of_a_target(rig: Rig) -> None:
    """What was read of a target is not kept: it may end before the launch is tried again."""
    first = rig.start("first")
    rig.launch("second", after=[first])
    reader = InboxReader(rig.bucket, InlineLane(), rig.clock)
    for ended in ([], [first]):
        for each in ended:
            end(rig.bucket, each)
        found = reader.read(skip=lambda key: False, is_active=lambda job: True)
        (targets,) = (each.targets for each in found.requests)
        assert [each.job for each in targets[first]] == ended


def test_an_unknown_target_is_refused_with_the_nearest(rig: Rig) -> None:
    """A typo is reported with the nearest name; jobs of other projects are unknown here."""
    first = rig.start("first")
    typo = first[:-1] + ("0" if first[-1] != "0" else "1")
    assert refusal(rig, rig.launch("second", after=[typo])) == (
        f"after: there is no job or launch {typo!r} in project blue; did you mean {first}?"
    )
    asked = rig.launch("foreign", user="cat", project="red", after=[first])
    rig.turn()
    (problem,) = rig.answer(asked, user="cat", project="red").problems
    assert problem == f"after: there is no job or launch {first!r} in project red"


def test_one_that_may_not_wait_is_refused_while_another_goes_on(rig: Rig) -> None:
    """With `when_busy="fail"` and an unmet condition, it cannot start in this cycle."""
    first = rig.start("first")
    problem = refusal(rig, rig.launch("now", after=[first], when_busy="fail"))
    assert f"waits for {first} to succeed (running)" in problem


def test_hold_release_cancel_and_update_work_while_it_waits(rig: Rig) -> None:
    """A dependent is a queued job like others."""
    first = rig.start("first")
    second = rig.submit("second", after=[first])
    rig.verb("hold", second)
    rig.turn(2)
    assert why(rig, second).startswith("held by ann")
    rig.agent_of(first).end(first)
    rig.ended(first)
    rig.turn(3)
    assert rig.phase(second) == "queued"
    rig.verb("release", second)
    rig.until(lambda: rig.phase(second) == "running")
    third = rig.submit("third", after=[second])
    rig.verb("cancel", third)
    assert rig.ended_later(third).text == "cancelled by ann"


def test_a_cancelled_target_is_an_end(rig: Rig) -> None:
    """Jobs that wait for any end of it start; those that wait for success end."""
    first = rig.submit("first", hold=True)
    any_end = rig.submit("any", after=[After(first, when="any")])
    success = rig.submit("ok", after=[first])
    rig.verb("cancel", first)
    rig.until(lambda: rig.phase(any_end) == "running")
    assert rig.ended_later(success).text == f"its dependency {first} was cancelled"


def test_a_target_of_the_same_turn_is_waited_for_until_it_is_committed(rig: Rig) -> None:
    """The turn in which it arrives does not know whether it will be accepted."""
    asked = rig.launch("first")
    ulid_end = asked[-10:].lower()
    rig.launch("second", after=[f"first-{ulid_end}"])
    rig.turn()
    assert [each.name for each in rig.root.jobs.values()] == ["main"]
    rig.turn()
    assert len(rig.root.jobs) == 2


def test_dependents_count_as_queued() -> None:
    """A limit on queued jobs counts those that wait for others."""
    rig = Rig(quota=QUOTA + "max_queued_per_user = 2\n")
    rig.turn(3)
    first = rig.start("first")
    for name in ("a", "b"):
        rig.submit(name, after=[first])
    assert "max_queued_per_user allows" in refusal(rig, rig.launch("c", after=[first]))


@pytest.mark.parametrize("spoilt", ["not JSON", "unknown outcome"])
def test_a_spoilt_record_of_a_target_harms_only_jobs_that_name_it(rig: Rig, spoilt: str) -> None:
    """The launch is refused with the key that cannot be read; everything else continues."""
    if spoilt == "not JSON":
        rig.bucket.create(layout.result("blue", "old-1"), b"{")
    else:
        end(rig.bucket, "old-1", outcome="vanished")
    asked = rig.launch("second", after=["old-1"])
    other = rig.submit("other")
    (problem,) = rig.answer(asked).problems
    assert problem.startswith("after: jobs/blue/old-1/result.json: ")
    rig.until(lambda: rig.phase(other) == "running")


def test_a_launch_that_was_refused_cannot_be_waited_for(rig: Rig) -> None:
    """It leaves no spec, and nothing of it will ever end."""
    huge = rig.launch("huge", h100=100)
    rig.turn()
    assert not rig.answer(huge).accepted
    name = f"huge-{huge[-10:].lower()}"
    assert not rig.keys(layout.spec("blue", name))
    asked = rig.launch("second", after=[name])
    assert refusal(rig, asked) == f"after: there is no job or launch {name!r} in project blue"


def test_what_leaves_root_in_the_turn_in_which_its_dependent_arrives_is_known() -> None:
    """Its final record may not have existed yet when the bucket was read."""
    over = replace(job_records.done(), launch="pair-1")
    root = Root(epoch=1, seq=1, now=1.0, write_id="w", jobs={over.id: over})
    draft = Draft(root, 2.0)
    draft.result_written(over.id)
    for name in (over.id, over.launch):
        after = (Dependency(on=name, when="any"),)
        joined = replace(job_records.queued(after=after), id="next-1", launch="next-1")
        assert joining(draft, [joined], {})[0].after == ()


def calls(queued: int, wanted: int) -> int:
    """Return the functions called to refuse a launch with that many targets that do not exist."""
    jobs = {
        name: replace(job_records.queued(), id=name, launch=name)
        for name in (f"job-{number:010}" for number in range(queued))
    }
    draft = Draft(Root(epoch=1, seq=1, now=1.0, write_id="w", jobs=jobs), 2.0)
    draft.by_launch.like("blue", "x")
    draft.by_launch.named("x")
    after = tuple(Dependency(on=f"jab-{number:010}") for number in range(wanted))
    new = replace(job_records.queued(after=after), id="next-1", launch="next-1")
    profile = Profile()
    with pytest.raises(SpecError):
        profile.runcall(joining, draft, [new], {})
    return sum(each.callcount for each in profile.getstats())


def test_unknown_targets_cost_the_same_whatever_waits() -> None:
    """Thousands of unknown ids are not compared with thousands of known ones."""
    assert calls(2_000, 50) < calls(5, 50) + 500


def gang(jobs: int, each: int) -> Launch:
    """Return a launch of jobs that start together; each waits for that many others of its own."""
    return Launch(
        name="gang",
        jobs=tuple(
            Job(
                name=f"j{job}",
                processes=(Process(["true"]),),
                after=[f"x{job}-{n}" for n in range(each)],
            )
            for job in range(jobs)
        ),
    )


def test_the_jobs_of_a_gang_share_what_they_wait_for() -> None:
    """Each waits for what any of them does; a thousand would need a thousand copies of it."""
    made = queued_jobs(gang(10, 100), project="blue", user="ann", ulid="0" * 26, at=1.0)
    assert len(made[0].after) == 1_000
    assert {id(each.after) for each in made} == {id(made[0].after)}
    with pytest.raises(SpecError, match="waits for: 1100 jobs and launches; at most 1000"):
        queued_jobs(gang(11, 100), project="blue", user="ann", ulid="0" * 26, at=1.0)
