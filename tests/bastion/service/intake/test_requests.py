"""Every answer that a request can get."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bastion.catalog import lookup
from bastion.records.coding.codec import decode, encode
from bastion.records.keys import layout, ulid
from bastion.records.requests.answer import Answer
from bastion.records.requests.job_request import FollowRequest, JobsRequest, UpdateRequest
from bastion.records.requests.launch_request import LaunchRequest, SpecRecord
from bastion.records.requests.machine_request import DrainRequest
from bastion.spec import Array, Job, Process, Resources, Secret, Where
from bastion.store.memory import Fault, FaultyStore, Operation
from tests.bastion.service.launch_request import launch_request
from tests.rigs.leader import CONFIG, QUOTA, Rig


def refused(rig: Rig, asked: str, *, user: str = "ann", project: str = "blue") -> str:
    """Return the single problem for which a request was refused."""
    rig.turn()
    answer = rig.answer(asked, user=user, project=project)
    assert not answer.accepted
    (problem,) = answer.problems
    return problem


def test_a_stranger_is_refused() -> None:
    """The path determines membership, whatever the body says."""
    rig = Rig()
    asked = rig.ask("cat", "blue", "launch", launch_request())
    problem = refused(rig, asked, user="cat")
    assert problem == "cat is not a member of blue, yours are red"


def test_an_unknown_project_is_refused() -> None:
    """For a project that is not in the quota file, the error names the nearest one."""
    rig = Rig()
    asked = rig.ask("ann", "bleu", "launch", launch_request())
    problem = refused(rig, asked, project="bleu")
    assert problem == "bleu is not in the quota file, nearest is blue, yours are blue"


def test_a_body_cannot_name_another_project() -> None:
    """A launch with another project than that of its inbox is refused."""
    rig = Rig()
    asked = rig.ask("ann", "blue", "launch", launch_request(project="red"))
    assert refused(rig, asked) == (
        "project: the launch says 'red', but was put in the inbox of 'blue'"
    )


def test_an_unknown_verb_is_refused() -> None:
    """The answer to an unknown verb lists the known ones."""
    rig = Rig()
    asked = rig.ask("ann", "blue", "explode", b"{}")
    assert refused(rig, asked) == (
        "'explode' is not a verb; the verbs are launch, cancel, hold, release,"
        " update, follow, exec,"
        " cordon, uncordon, drain, check, warm"
    )


def test_a_name_that_is_no_ulid_is_refused() -> None:
    """A request whose name has 26 characters but is no ULID is refused."""
    rig = Rig()
    name = "u" * 26
    rig.bucket.create(layout.request("blue", "ann", name, "launch"), encode(launch_request()))
    assert refused(rig, name) == f"request {name}: its name is not a ULID"


@pytest.mark.parametrize("days", [-8.0, 8.0])
def test_a_clock_that_is_a_week_wrong_is_refused(days: float) -> None:
    """A launch whose ULID is more than 7 days from the store's time is refused."""
    rig = Rig()
    name = ulid.make(rig.clock.wall() + days * 86400, bytes(10))
    rig.bucket.create(layout.request("blue", "ann", name, "launch"), encode(launch_request()))
    assert refused(rig, name) == (
        "the request was made more than 7 days from the bucket's time: check your clock"
    )


def test_a_week_less_a_day_is_taken() -> None:
    """A launch that waited six days on its user's machine is accepted."""
    rig = Rig()
    name = ulid.make(rig.clock.wall() - 6 * 86400, bytes(10))
    rig.bucket.create(layout.request("blue", "ann", name, "launch"), encode(launch_request()))
    rig.turn()
    assert rig.answer(name).accepted


def test_an_unknown_type_is_refused_with_the_nearest() -> None:
    """For a type that no pool, quota or catalog knows, the error names the nearest one."""
    rig = Rig()
    job = Job(processes=(Process(["true"], resources=Resources(h1000=1)),))
    asked = rig.ask("ann", "blue", "launch", launch_request(jobs=(job,)))
    assert refused(rig, asked) == (
        "jobs.main.resources.h1000: no pool has this type, and the quota file has no total of it;"
        " did you mean h100?"
    )


def test_memory_that_no_pool_counts_is_told_to_be_left_out() -> None:
    """Users add it out of habit; here every job can use what its machine has."""
    rig = Rig()
    job = Job(processes=(Process(["true"], resources=Resources(memory="4GiB")),))
    asked = rig.ask("ann", "blue", "launch", launch_request(jobs=(job,)))
    assert refused(rig, asked) == (
        "jobs.main.resources.memory: no pool here counts memory, and a job may use what its machine"
        " has; leave it out, or an admin gives a pool its memory in config/bastion.toml"
    )


@pytest.mark.parametrize("is_filled", [False, True])
def test_an_instance_type_that_no_pool_can_be_is_told_as_it_was_written(is_filled: bool) -> None:
    """Its components are named beside it, even if a client wrote those into the process."""
    rig = Rig()
    named = dict(lookup("tpu-v4-32").resources.items()) if is_filled else {}
    process = Process(["true"], resources=Resources(**named))
    job = Job(processes=(process,), instance_type="tpu-v4-32")
    asked = rig.ask("ann", "blue", "launch", launch_request(jobs=(job,)))
    assert refused(rig, asked).startswith(
        "jobs.main.instance_type: 'tpu-v4-32' is made of v4, and no pool has it, and the quota file"
    )


def test_every_problem_of_a_launch_is_told_at_once() -> None:
    """Two jobs with problems are two lines of one answer."""
    rig = Rig()
    process = Process(["true"], resources=Resources(nothing=1))
    jobs = (
        Job(name="a", processes=(process,)),
        Job(name="b", processes=(Process(["x"]),), instance_type="nonsense"),
    )
    asked = rig.ask("ann", "blue", "launch", launch_request(jobs=jobs))
    rig.turn()
    first, second = rig.answer(asked).problems
    assert first.startswith("jobs.a.resources.nothing: ")
    assert second == "jobs.b.instance_type: 'nonsense' is not an instance type known here"


def test_what_can_never_run_is_refused_at_once() -> None:
    """A launch that asks for more than exists is refused in the turn that reads it."""
    rig = Rig()
    asked = rig.launch("huge", h100=8, replicas=3)
    rig.turn()
    answer = rig.answer(asked)
    assert not answer.accepted
    assert "h100" in answer.problems[0]
    assert not rig.root.jobs


def test_a_grace_period_is_never_cut_in_silence() -> None:
    """One that is longer than the quota file allows is refused, with both numbers."""
    rig = Rig()
    job = Job(name="a", processes=(Process(["true"]),), grace="1d")
    asked = rig.ask("ann", "blue", "launch", launch_request(jobs=(job,)))
    assert refused(rig, asked) == "grace: 1d is longer than the 1m that max_grace_s allows"


def test_a_user_may_have_so_many_waiting() -> None:
    """More waiting jobs than `max_queued_per_user` are refused, with the numbers."""
    rig = Rig(quota=f"{QUOTA}max_queued_per_user = 3\n")
    rig.submit("one", hold=True)
    rig.submit("two", hold=True)
    jobs = tuple(Job(name=name, processes=(Process(["true"]),), hold=True) for name in ("a", "b"))
    asked = rig.ask("ann", "blue", "launch", launch_request(jobs=jobs))
    assert refused(rig, asked) == (
        "ann has 2 jobs in the queue; with these 2 it would be more than the 3 that"
        " max_queued_per_user allows"
    )
    other = rig.ask("ben", "blue", "launch", launch_request())
    rig.turn()
    assert rig.answer(other, user="ben").accepted


def test_long_filters_take_several_places_in_the_queue() -> None:
    """Root holds all of them, and each commit writes root."""
    rig = Rig(quota=f"{QUOTA}max_queued_per_user = 7\n", config="")
    where = Where(hostnames=tuple(f"{number:0200}" for number in range(20)))
    for name in ("a", "b"):
        job = Job(name=name, processes=(Process(["true"]),), hold=True)
        asked = rig.ask("ann", "blue", "launch", launch_request(jobs=(job,), where=where))
        if name == "a":
            rig.turn()
            assert rig.answer(asked).accepted
    assert refused(rig, asked) == (
        "jobs: they take 4 places in the queue, ann has 4, and max_queued_per_user allows 7: a job"
        " takes one more for each 1,024 characters of its hosts, labels, secrets and dependencies"
    )


def test_a_request_is_applied_once() -> None:
    """A request that is put into the inbox again is already answered, and changes nothing."""
    rig = Rig()
    asked = rig.launch()
    rig.turn(4)
    (job,) = rig.answer(asked).jobs
    rig.agent_of(job).end(job)
    rig.ended(job)
    rig.turn(3)
    rig.bucket.create(layout.request("blue", "ann", asked, "launch"), encode(launch_request()))
    rig.turn(3)
    assert not rig.root.jobs
    assert not rig.keys(layout.INBOX)
    assert rig.answer(asked).accepted


def test_a_verb_waits_for_a_launch_on_its_way() -> None:
    """A cancel that arrives before its launch waits, and is applied after the launch."""
    rig = Rig()
    rig.turn(2)
    name = ulid.make(rig.clock.wall(), bytes(10))
    cancel = rig.verb("cancel", "train-0000000000")
    rig.turn(30)
    assert rig.keys(layout.user_inbox("blue", "ann"))
    rig.bucket.create(layout.request("blue", "ann", name, "launch"), encode(launch_request()))
    result = rig.ended_later("train-0000000000")
    assert result.outcome == "cancelled"
    assert rig.answer(cancel).accepted


def test_a_verb_for_an_unknown_job_waits_ten_minutes() -> None:
    """After 10 minutes of the store's time, a verb for a job that never arrived is refused."""
    rig = Rig()
    asked = rig.verb("cancel", "nobody-0000000000")
    rig.turn(60, seconds=9.9)
    assert rig.keys(layout.user_inbox("blue", "ann"))
    rig.turn(3, seconds=9.9)
    answer = rig.answer(asked)
    assert answer.problems == ("nobody-0000000000: no such active job in project blue",)
    assert not rig.keys(layout.user_inbox("blue", "ann"))


@pytest.mark.parametrize("verb", ["hold", "release", "update"])
def test_what_has_ended_cannot_be_changed(verb: str) -> None:
    """If nothing of a request is left, the answer says so; what is left is changed."""
    rig = Rig()
    job = rig.start()
    rig.agent_of(job).end(job)
    rig.ended(job)
    other = rig.submit("other", hold=True)

    def ask(*targets: str) -> Answer:
        update = UpdateRequest(targets=targets, priority=3)
        body = update if verb == "update" else JobsRequest(targets=targets)
        asked = rig.ask("ann", "blue", verb, body)
        rig.turn()
        return rig.answer(asked)

    assert ask(job).problems == (f"{job}: has ended; {verb} is not possible any more",)
    assert ask(job, other).jobs == (other,)


def test_a_cancel_of_what_has_ended_is_accepted() -> None:
    """A cancel of a job or a launch that has ended has nothing to do."""
    rig = Rig()
    process = Process(["true"], resources=Resources(h100=1))
    jobs = tuple(Job(name=name, processes=(process,)) for name in ("a", "b"))
    asked = rig.launch("two", jobs=jobs)
    rig.turn(5)
    answer = rig.answer(asked)
    for job in answer.jobs:
        rig.agent_of(job).end(job)
    for job in answer.jobs:
        rig.ended(job)
    cancel = rig.verb("cancel", answer.launch, answer.jobs[0])
    rig.turn()
    assert rig.answer(cancel).accepted
    assert rig.answer(cancel).jobs == ()


def test_another_projects_jobs_are_unknown() -> None:
    """A user cannot cancel a job of another project, by any name."""
    rig = Rig()
    job = rig.start("mine")
    asked = rig.verb("cancel", job, user="cat", project="red")
    rig.turn(62, seconds=10.0)
    assert rig.phase(job) == "running"
    answer = rig.answer(asked, user="cat", project="red")
    assert answer.problems == (f"{job}: no such active job in project red",)


def test_a_verb_does_all_or_nothing() -> None:
    """If one target cannot obey a hold, none of them is held, and the error names it."""
    rig = Rig()
    runs = rig.start("runs")
    waits = rig.submit("waits", hold=True)
    asked = rig.verb("hold", runs, waits, user="ben")
    rig.turn()
    answer = rig.answer(asked, user="ben")
    assert answer.problems == (f"{runs}: is running, and only a waiting job can be held",)
    assert rig.job(waits).held == "ann"


def test_a_launch_is_cancelled_by_its_id() -> None:
    """A cancel of a launch cancels all of its jobs."""
    rig = Rig()
    process = Process(["true"], resources=Resources(h100=1))
    jobs = tuple(Job(name=name, processes=(process,)) for name in ("a", "b"))
    asked = rig.launch("two", jobs=jobs)
    rig.turn(5)
    answer = rig.answer(asked)
    cancel = rig.verb("cancel", answer.launch)
    rig.turn()
    assert rig.answer(cancel).jobs == answer.jobs
    assert [rig.ended(job).outcome for job in answer.jobs] == ["cancelled", "cancelled"]


@pytest.mark.parametrize(
    ("verb", "body", "problem"),
    [
        ("cancel", b'{"schema":1,"targets":[]}', "targets: 0 is not allowed; 1 to 1000"),
        ("update", b'{"schema":1,"targets":["a"]}', "nothing to change"),
        ("update", b'{"schema":1,"targets":["a"],"priority":9}', "priority: 9 is not allowed"),
        (
            "update",
            b'{"schema":1,"targets":["a"],"max_runtime_s":-5}',
            "max_runtime: -5.0 is not allowed",
        ),
        ("update", b'{"schema":1,"targets":["a"],"max_runtime_s":NaN}', "max_runtime: nan"),
        ("update", b'{"schema":1,"targets":["a"],"max_runtime_s":0}', "more than 0 seconds"),
        ("cancel", b'{"schema":1,"targets":["a"],"colour":1}', "colour: unknown field"),
        ("cancel", b'{"schema":9,"targets":["a"]}', "schema: "),
    ],
)
def test_a_body_is_checked(verb: str, body: bytes, problem: str) -> None:
    """A meaningless verb is refused with field, value and what is allowed."""
    rig = Rig()
    assert problem in refused(rig, rig.ask("ann", "blue", verb, body))


def test_too_many_targets_are_refused() -> None:
    """One request names at most a thousand jobs: each may cost a read of the bucket."""
    targets = ",".join(f'"j{n}"' for n in range(1001))
    rig = Rig()
    body = b'{"schema":1,"targets":[%s]}' % targets.encode()
    assert "1001 is not allowed" in refused(rig, rig.ask("ann", "blue", "cancel", body))


def test_following_flushes_the_machines_that_print() -> None:
    """A follow becomes an instruction to the machines of the job, and leaves no answer."""
    rig = Rig()
    job = rig.start()
    rig.ask("ben", "blue", "follow", FollowRequest(targets=(job,)))
    rig.turn(3)
    told = [each for each in rig.agent_of(job).told if each.kind == "follow"]
    assert len(told) == 1
    assert not rig.keys(layout.user_inbox("blue", "ben"))
    assert not rig.keys("results/blue/ben/")


def test_requests_are_applied_in_the_stores_order() -> None:
    """Of two requests, the one that the store received first is applied first."""
    rig = Rig()
    job = rig.submit("mine", hold=True)
    late = ulid.make(rig.clock.wall() + 60, bytes(10))
    early = ulid.make(rig.clock.wall() - 60, bytes(10))
    body = encode(JobsRequest(targets=(job,)))
    rig.bucket.create(layout.request("blue", "ann", late, "release"), body)
    rig.clock.advance(1.0)
    rig.bucket.create(layout.request("blue", "ann", early, "hold"), body)
    rig.turn()
    assert rig.answer(late).accepted
    assert rig.answer(early).accepted
    assert rig.job(job).held == "ann"


def test_a_request_that_is_not_read_yet_holds_back_the_users_later_ones() -> None:
    """Of two updates the later one is final, even if the store returns the first a turn later."""
    bad: set[str] = set()

    def faults(operation: Operation, key: str) -> Fault | None:
        return Fault.BEFORE if operation == "read" and key in bad else None

    rig = Rig(spoil=lambda store: FaultyStore(store, faults))
    job = rig.submit("mine", hold=True)
    before = rig.job(job).request.priority
    asked = []
    for priority in (1, 4):
        body = UpdateRequest(targets=(job,), priority=priority)
        asked.append(rig.ask("ann", "blue", "update", body))
        rig.clock.advance(1.0)
    bad.add(layout.request("blue", "ann", asked[0], "update"))
    launch, cancel = rig.launch("other"), rig.verb("cancel", rig.submit("third", hold=True))
    rig.turn()
    assert rig.job(job).request.priority == before
    assert rig.answer(launch).accepted
    assert rig.answer(cancel).accepted
    bad.clear()
    rig.turn()
    assert all(rig.answer(each).accepted for each in asked)
    assert rig.job(job).request.priority == 4


def test_an_unread_request_on_jobs_holds_back_none_on_machines() -> None:
    """An admin's drain applies immediately, although an update of the same user cannot be read."""
    bad: set[str] = set()

    def faults(operation: Operation, key: str) -> Fault | None:
        return Fault.BEFORE if operation == "read" and key in bad else None

    rig = Rig(spoil=lambda store: FaultyStore(store, faults))
    rig.start()
    machine = min(rig.root.machines)
    update = rig.ask("root", layout.ADMIN, "update", UpdateRequest(targets=("x",), priority=1))
    bad.add(layout.request(layout.ADMIN, "root", update, "update"))
    drain = rig.ask("root", layout.ADMIN, "drain", DrainRequest(machines=(machine,)))
    rig.turn()
    assert rig.answer(drain, user="root", project=layout.ADMIN).accepted
    assert rig.root.machines[machine].draining


def test_many_requests_are_one_commit() -> None:
    """What arrived together is committed together."""
    rig = Rig()
    rig.turn(5)
    seq = rig.root.seq
    asked = [rig.launch(f"job-{n}", h100=0) for n in range(40)]
    rig.turn()
    assert rig.root.seq == seq + 1
    assert all(rig.answer(each).accepted for each in asked)


@pytest.mark.parametrize("ends", [False, True])
def test_a_key_that_made_its_jobs_before_is_answered_with_them(ends: bool) -> None:
    """A keyed launch whose jobs exist under another ULID is accepted as these, and starts none."""
    rig = Rig()
    body = replace(launch_request(), idempotency_key="k")
    first, second = (ulid.make(rig.clock.wall() + s, b"\7" * 10) for s in (0.0, 60.0))
    rig.bucket.create(layout.request("blue", "ann", first, "launch"), encode(body))
    rig.turn(3)
    (job,) = rig.answer(first).jobs
    if ends:
        rig.agent_of(job).end(job)
        rig.ended(job)
        rig.turn(3)
    rig.bucket.create(layout.request("blue", "ann", second, "launch"), encode(body))
    rig.turn(3)
    assert rig.answer(second).jobs == (job,)
    assert (job in rig.root.jobs) is not ends


@pytest.mark.parametrize("h100", [1, 64])
def test_a_key_that_came_twice_in_one_turn_is_answered_twice_alike(h100: int) -> None:
    """Two requests of one key are accepted as the same jobs, or both refused."""
    rig = Rig()
    rig.turn(2)
    job = Job(processes=(Process(["true"], resources=Resources(h100=h100)),))
    body = replace(launch_request(jobs=(job,)), idempotency_key="k")
    names = [ulid.make(rig.clock.wall() + s, b"\7" * 10) for s in (0.0, 60.0)]
    for name in names:
        rig.bucket.create(layout.request("blue", "ann", name, "launch"), encode(body))
    rig.turn(3)
    first, second = map(rig.answer, names)
    assert (first.accepted, first.jobs) == (second.accepted, second.jobs)
    assert tuple(rig.root.jobs) == first.jobs
    assert first.accepted is (h100 == 1)


def test_a_key_that_came_twice_in_one_turn_for_other_jobs_is_refused() -> None:
    """Their specs differ, and there is one spec per id: the first one remains."""
    rig = Rig()
    rig.turn(2)
    names = [ulid.make(rig.clock.wall() + s, b"\7" * 10) for s in (0.0, 60.0)]
    for name, job in zip(names, "xy"):
        one = Job(name=job, processes=(Process(["true"], resources=Resources(h100=1)),))
        body = launch_request(jobs=(one, replace(one, name=f"{job}2")))
        body = replace(body, idempotency_key="k")
        rig.bucket.create(layout.request("blue", "ann", name, "launch"), encode(body))
    rig.turn(3)
    first, second = map(rig.answer, names)
    assert (first.accepted, second.accepted) == (True, False)
    assert second.problems == ("there was a launch of this id; submit again",)
    assert tuple(rig.root.jobs) == first.jobs


@pytest.mark.parametrize("verb", ["cancel", "hold"])
def test_an_array_of_which_a_task_waits_no_more_is_judged_by_the_others(verb: str) -> None:
    """It can never run, and says so; the check is not limited to its first task."""
    rig = Rig()
    rig.turn(2)
    asked = rig.launch("sweep", array=Array("0-9"), h100=64)
    rig.verb(verb, f"sweep-{asked[-10:].lower()}.0")
    rig.turn(2)
    (problem,) = rig.answer(asked).problems
    assert problem.startswith("main: can never run: it asks for 64 h100")
    assert not rig.root.arrays


def test_where_a_launch_came_from_is_filed_with_its_spec() -> None:
    """The stored spec names the origin that the client stored, and the repeated launch."""
    rig = Rig()
    asked = rig.ask(
        "ann", "blue", "launch", replace(launch_request(), origin="a" * 64, again_of="old")
    )
    rig.turn()
    launch = rig.answer(asked, user="ann", project="blue").launch
    found = rig.bucket.read(layout.spec("blue", launch))
    assert found is not None
    spec = decode(SpecRecord, found.data, key="spec")
    assert (spec.origin, spec.again_of) == ("a" * 64, "old")


def test_an_origin_that_is_no_digest_is_refused() -> None:
    """It becomes part of a key: anything but a sha256 is refused on arrival."""
    rig = Rig()
    body = encode(launch_request())[:-1] + b',"origin":"../../state/root.json"}'
    asked = rig.ask("ann", "blue", "launch", body)
    assert "origin: '../../state/root.json' is not 64 lowercase" in refused(rig, asked)


DECLARED = (
    CONFIG
    + """
[secrets.HF_TOKEN]
source = "gcp:projects/acme/secrets/hf"
projects = ["blue"]
"""
)


def _with_secret(*secrets: Secret) -> LaunchRequest:
    process = Process(["true"], resources=Resources(h100=1), secrets=secrets)
    return launch_request(jobs=(Job(processes=(process,)),))


def test_an_undeclared_secret_is_refused_before_anything_is_made() -> None:
    """For a secret that it may not have, a launch is told the nearest permitted one."""
    rig = Rig(config=DECLARED)
    asked = rig.ask("ann", "blue", "launch", _with_secret(Secret("HF_TOKN")))
    assert refused(rig, asked) == "secrets: HF_TOKN is not declared; did you mean HF_TOKEN?"
    asked = rig.ask("ann", "blue", "launch", _with_secret(Secret("HF_TOKEN", source="env:X")))
    assert refused(rig, asked) == (
        "secrets: HF_TOKEN: no secret_sources lets project blue ask for env:X"
    )
    assert not rig.leader.held.root.jobs


def test_a_record_keeps_what_is_asked_for_and_no_more() -> None:
    """A queued job knows its requests; whether it may have them is checked at its start."""
    rig = Rig(config=DECLARED)
    asked = rig.ask("ann", "blue", "launch", _with_secret(Secret("HF_TOKEN")))
    rig.turn()
    (job,) = rig.answer(asked).jobs
    assert rig.leader.held.root.jobs[job].secrets == (Secret("HF_TOKEN"),)
