"""The Python API, with a scripted bastion."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from bastion.client import Client, LaunchHandle
from bastion.client.status.display import Changed
from bastion.clock import VirtualClock
from bastion.errors import (
    ConflictError,
    InDoubtError,
    NotFoundError,
    RecordError,
    RefusedError,
    SpecError,
    TimedOutError,
)
from bastion.records.coding.codec import decode
from bastion.records.keys import layout
from bastion.records.requests.job_request import JobsRequest, UpdateRequest
from bastion.records.requests.launch_request import LaunchRequest
from bastion.spec import BundleRef, Indices, Job, Launch, Process, Resources
from bastion.store.memory import Fault, FaultyStore, MemoryStore
from bastion.store.port import Version, Written
from bastion.value import replace
from bundler.code import LocalDir
from tests.bastion.client.scripted_client import JOB, client_of, launch_of, taken_launch
from tests.rigs.scripted_bastion import (
    NOW,
    QUOTA,
    ScriptedBastion,
    end,
    lead,
    print_log,
    publish,
    put,
    row,
    world,
)
from tests.rigs.wrapped import Wrapped


def test_a_command_beside_an_ended_job_is_refused_at_once() -> None:
    """The bastion gets no request; the message says how it ended, for a shell too."""
    client, store, _, bastion_ = client_of()
    end(store, "train-0123456789")
    publish(store, "queue", {"jobs": []})
    told = "train-0123456789 has ended: succeeded; "
    with pytest.raises(NotFoundError, match=f"{told}a command needs a running job"):
        client.execute("train", ["ls"])
    with pytest.raises(NotFoundError, match=f"{told}it has no machine"):
        client.way_in("train")
    assert not bastion_.taken


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"replica": 2}, "has no replica 2; it has 2, counted from 0"),
        ({"host": 1}, "has no host 1; each replica has 1, counted from 0"),
        ({"process": 1}, "has no process 1; each replica has 1, counted from 0"),
    ],
)
def test_a_command_where_nothing_is_finds_nothing(asked: dict[str, Any], why: str) -> None:
    """The error is that of a shell or logs; the bastion gets no request."""
    client, store, _, bastion = client_of()
    handle = client.launch(launch_of())
    placement = [["m0"], ["m1"]]
    publish(store, "queue", {"jobs": [row(handle.id, state="running", placement=placement)]})
    with pytest.raises(NotFoundError, match=why):
        client.execute(handle.id, ["ls"], **asked)
    if "process" not in asked:
        with pytest.raises(NotFoundError, match=why):
            client.way_in(handle.id, **asked)
    assert len(bastion.taken) == 1


def test_a_launch_that_no_bastion_would_read_is_not_sent() -> None:
    """It is refused with its size, even by a dry run, before any part is in the bucket."""
    client, store, _, _ = client_of()
    long = Process(["run", "x" * 90_000])
    launch = Launch(name="large", jobs=[Job(processes=[long] * 50)])
    for ask in (client.checked, client.launch):
        with pytest.raises(SpecError, match=r"^the request: 45\d* bytes is too large"):
            ask(launch)
    assert not store.list("inbox/")


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (
            "echo hi",
            r"argv: 'echo hi' is one string; give a list of arguments \(\['echo', 'hi'\]\), or a"
            r" shell line: \['sh', '-c', 'echo hi'\]",
        ),
        (["sleep", 5], "argv: 5 is not a string"),
    ],
)
def test_a_command_is_a_list_of_strings(argv: list[str], why: str) -> None:
    """One string would be treated as a list of its characters."""
    client, store, _, bastion = client_of()
    handle = client.launch(launch_of())
    placement = [["m0"], ["m1"]]
    publish(store, "queue", {"jobs": [row(handle.id, state="running", placement=placement)]})
    with pytest.raises(SpecError, match=why):
        client.execute(handle.id, argv)
    assert len(bastion.taken) == 1
    command = client.execute(handle.id, ["ls"])
    assert repr(command) == (
        f"<a command beside {handle.id}: .output() is what it prints, then .end its end>"
    )


def test_an_update_is_told_of_by_the_names_that_it_has() -> None:
    """The request has another name for a limit."""
    client, store, _, _ = client_of()
    publish(store, "queue", {"jobs": [row(JOB)]})
    with pytest.raises(SpecError, match=r"nothing to change: give priority or max_runtime$"):
        client.update(JOB)
    with pytest.raises(SpecError, match=r"^max_runtime: 0\.0 is not allowed; more than 0 seconds"):
        client.update(JOB, max_runtime="0s")
    for priority in (0, 2.5, "2", True):
        with pytest.raises(SpecError, match=rf"^priority: {priority!r} is not allowed; 1 "):
            client.update(JOB, priority=priority)  # type: ignore[arg-type]
    with pytest.raises(SpecError, match=r"more than 0 seconds, at most 10000000000$"):
        UpdateRequest(targets=(JOB,), max_runtime_s=1e11)


def test_a_command_beside_an_array_is_told_to_name_a_task() -> None:
    """An array has no machine: its tasks do, and the hint says how to name one."""
    client, store, _, bastion_ = client_of()
    array = {"id": "train-0123456789", "project": "blue", "state": "running", "waiting": ""}
    publish(store, "queue", {"jobs": [], "arrays": [{**array, "counts": {"running": 2}}]})
    for ask in (lambda: client.execute("train", ["ls"]), lambda: client.way_in("train")):
        with pytest.raises(NotFoundError, match="0123456789 is an array; name one") as refused:
            ask()
        assert refused.value.hint == (
            "bastion show train-0123456789 shows which run; task 3 is train-0123456789.3"
        )
    assert not bastion_.taken


def test_a_launch_goes_to_the_users_only_project() -> None:
    """A user in one project need not name it; the request is in the user's inbox there."""
    client, _, _, bastion = client_of()
    handle = client.launch(launch_of())
    assert bastion.taken[0][0].startswith("inbox/blue/ada/")
    assert taken_launch(bastion).project == "blue"
    assert handle.jobs == (handle.id,)
    assert handle.project == "blue"


@pytest.mark.parametrize(
    ("user", "project", "message"),
    [
        ("eve", None, "project: eve has several projects, name one of blue, green"),
        (
            "bob",
            None,
            "project: bob is not a member of any project; ask an admin of the quota file",
        ),
        ("ada", "green", "project: ada is not a member of green, yours are blue"),
        (
            "ada",
            "bleu",
            "project: bleu is not in the quota file, nearest is blue, yours are blue",
        ),
    ],
)
def test_a_project_that_cannot_be_resolved_is_refused_here(
    user: str, project: str | None, message: str
) -> None:
    """The error comes before anything is sent, and lists the user's projects."""
    store, clock = world()
    client = Client("memory:", user=user, project=project, store=store, clock=clock)
    with pytest.raises(SpecError) as caught:
        client.launch(launch_of())
    assert str(caught.value) == message
    assert "--pool=NAME" in caught.value.hint  # which -p is in Slurm
    keeps = "bastion config set project=NAME names one for every launch"
    assert (keeps in caught.value.hint) == (user == "eve")
    assert not store.list(layout.INBOX)


def test_without_a_readable_quota_file_a_named_project_is_left_to_the_bastion() -> None:
    """If the quota file is elsewhere, only the bastion knows the members."""
    client, store, _, bastion = client_of("zoe")
    store.delete(layout.QUOTA)
    with pytest.raises(SpecError, match="project: none named, and the quota file"):
        client.launch(launch_of())
    Client("memory:", user="zoe", project="red", store=store, clock=client.clock).launch(
        launch_of()
    )
    assert bastion.taken[0][0].startswith("inbox/red/zoe/")


def test_a_limit_that_the_quota_file_gives_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """A job without `max_runtime` gets the project's, with a note that names the line."""
    client, store, _, bastion = client_of()
    limits = '[project_options.blue]\ndefault_max_runtime = "8h"\nmax_max_runtime = "1d"\n'
    put(store, layout.QUOTA, (QUOTA + limits).encode())
    handle = client.launch(launch_of())
    assert handle.warnings == (
        "jobs.main.max_runtime: none is named, so it is 8h, from"
        " project_options.blue.default_max_runtime, line 14",
    )
    assert caplog.messages == [f"warning: {handle.warnings[0]}"]
    assert taken_launch(bastion).jobs[0].max_runtime_s is None
    assert client.launch(launch_of(max_runtime="2h")).warnings == ()
    with pytest.raises(SpecError, match="2d is more than the 1d that blue allows"):
        client.launch(launch_of(max_runtime="2d"))


def test_an_instance_type_fills_what_the_process_left_open() -> None:
    """A process without requests asks for the whole instance type."""
    client, _, _, bastion = client_of()
    client.launch(launch_of(instance_type="tpu-v4-32"))
    (job,) = taken_launch(bastion).jobs
    assert dict(job.per_replica.items()) == {"v4": 32}
    assert job.instance_type == "tpu-v4-32"


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (
            {"instance_type": "tpu-v4-33"},
            "jobs.main.instance_type: 'tpu-v4-33' is not an instance type known here",
        ),
        (
            {
                "instance_type": "a3-highgpu-1g",
                "processes": (Process(["a"], resources=Resources(h100=2)),),
            },
            "jobs.main.processes: ask for 1 h100 more than a a3-highgpu-1g has (1 h100)",
        ),
        (
            {"instance_type": "a3-highgpu-1g", "processes": (Process(["a"]), Process(["b"]))},
            "jobs.main.processes: 2 share one a3-highgpu-1g; give the resources of each",
        ),
        (
            {"processes": (Process(["a"], resources=Resources(h10=2)),)},
            "resources.h10: no resource type 'h10' here",
        ),
    ],
)
def test_what_cannot_be_is_refused_at_the_users_machine(job: dict[str, Any], message: str) -> None:
    """Unknown instance types and resources never reach the inbox."""
    client, store, _, _ = client_of()
    with pytest.raises(SpecError) as caught:
        client.launch(launch_of(**job))
    assert str(caught.value) == message
    assert caught.value.hint or "processes" in message
    assert not store.list(layout.INBOX)


def test_a_type_that_only_a_machine_knows_is_known() -> None:
    """Pools may have resources that no catalog sells."""
    client, store, _, bastion = client_of()
    machine = {"name": "m", "resources": {"quantum": 8}}
    publish(store, "pool", {"machines": [machine], "pools": []})
    client.launch(launch_of(processes=(Process(["a"], resources=Resources(quantum=1)),)))
    assert len(bastion.taken) == 1


def test_a_refusal_is_the_bastions_own_words() -> None:
    """The bastion's answer reaches the user unchanged."""
    client, _, _, bastion = client_of()
    bastion.refusals.append("asks for 2000 v4 and there are 1024")
    with pytest.raises(RefusedError, match=r"\Aasks for 2000 v4 and there are 1024\Z"):
        client.launch(launch_of())


def test_a_key_that_an_older_bastion_does_not_know_is_told_as_that() -> None:
    """This client knows it, so the hint says which side is older."""
    client, _, _, bastion = client_of()
    with pytest.raises(RecordError) as unknown:
        decode(LaunchRequest, b'{"schema":1,"launch":{"name":"x","flavour":1}}', key="launch")
    bastion.refusals.append(unknown.value.message)
    with pytest.raises(RefusedError, match="flavour: unknown field") as refused:
        client.launch(launch_of())
    assert refused.value.hint.startswith("the bastion is of an older version than this client: ")
    bastion.refusals.append("not now")
    with pytest.raises(RefusedError) as refused:
        client.launch(launch_of())
    assert refused.value.hint == ""


def test_submitting_twice_with_one_key_gives_the_same_jobs() -> None:
    """The second submission sends nothing new and gets the first one's answer."""
    client, _, _, bastion = client_of()
    first = client.launch(launch_of(), idempotency_key="nightly")
    again = client.launch(launch_of(name="other"), idempotency_key="nightly")
    assert (first.id, first.jobs) == (again.id, again.jobs)
    assert len(bastion.taken) == 1


def test_a_key_holds_across_its_time_windows() -> None:
    """Ten days later, when new names have another time, the key still means the same jobs."""
    client, _, clock, bastion = client_of()
    first = client.launch(launch_of(), idempotency_key="nightly")
    clock.advance(10 * 86400)
    assert client.launch(launch_of(), idempotency_key="nightly").jobs == first.jobs
    assert len(bastion.taken) == 1


def test_a_key_finds_its_request_while_no_bastion_answers() -> None:
    """With the bastion down, a second submission puts no second request into the inbox."""
    store, clock = world()
    client = Client("memory:", user="ada", store=store, clock=clock)
    for _ in range(2):
        with pytest.raises(TimedOutError):
            client.launch(launch_of(), idempotency_key="nightly", timeout_s=1)
        clock.advance(4 * 86400)
    assert len(store.list(layout.INBOX)) == 1


def test_a_refusal_does_not_use_a_key_up() -> None:
    """A refused launch can be submitted again with the same key."""
    client, _, _, bastion = client_of()
    bastion.refusals.append("not now")
    with pytest.raises(RefusedError):
        client.launch(launch_of(), idempotency_key="nightly")
    handle = client.launch(launch_of(), idempotency_key="nightly")
    assert client.launch(launch_of(), idempotency_key="nightly").jobs == handle.jobs
    assert len(bastion.taken) == 2


def test_a_key_refused_for_ever_ends() -> None:
    """The number of tries is limited."""
    client, _, _, bastion = client_of()
    bastion.refusals.extend(["no"] * 20)
    for _ in range(20):
        with pytest.raises(RefusedError, match="no"):
            client.launch(launch_of(), idempotency_key="k")
    with pytest.raises(RefusedError, match="idempotency_key 'k' was refused 20 times"):
        client.launch(launch_of(), idempotency_key="k")


def test_code_becomes_a_digest_in_the_bucket(tmp_path: Path) -> None:
    """A folder is bundled and sent, and its digest is in the spec."""
    (tmp_path / "train.py").write_text("print(1)\n")
    client, store, _, bastion = client_of()
    launch = Launch(
        name="train",
        jobs=(Job(processes=(Process(["python3", "train.py"]),)),),
        code=LocalDir(str(tmp_path)),
    )
    client.launch(launch)
    code = taken_launch(bastion).code
    assert isinstance(code, BundleRef)
    assert code.kind == "bundle"
    assert store.list(f"bundles/manifests/{code.digest}")
    assert client.bundle(tmp_path).ref == code


def test_code_that_may_hold_secrets_is_warned_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged once, in the log that Python shows on stderr, and is in the handle."""
    (tmp_path / ".env").write_text("TOKEN=1\n")
    client, *_ = client_of()
    code = LocalDir(str(tmp_path))
    (warning,) = client.launch(replace(launch_of(), code=code)).warnings
    assert "will be readable by all who can read the bucket: .env; to leave" in warning
    assert caplog.messages == [f"warning: {warning}"]
    client.bundle(tmp_path)
    assert caplog.messages == 2 * [f"warning: {warning}"]


def test_code_that_cannot_be_bundled_is_a_spec_error() -> None:
    """A missing folder is the user's error, which names the field."""
    client, store, _, _ = client_of()
    with pytest.raises(SpecError, match=r"^code.root: '/nowhere/at/all' is not a folder: nothing"):
        client.bundle("/nowhere/at/all")
    assert not store.list("bundles/")


def test_changes_are_asked_for_in_the_jobs_own_project() -> None:
    """Cancel, hold, release and prioritize use the job's project, one request per project."""
    client, store, _, bastion = client_of("eve")
    publish(
        store,
        "queue",
        {"jobs": [row(JOB), row("serve-0123456789", project="green"), row("eval-0123456789")]},
    )
    changed = client.cancel("train", "serve", "eval")
    assert set(changed) == {JOB, "serve-0123456789", "eval-0123456789"}
    asked = {key.split("/")[1]: body for key, body in bastion.taken}
    assert asked["blue"] == JobsRequest(targets=(JOB, "eval-0123456789"))
    assert asked["green"] == JobsRequest(targets=("serve-0123456789",))
    client.prioritize("train", priority=1)
    assert bastion.taken[-1][1] == UpdateRequest(targets=(JOB,), priority=1)
    client.hold("train")
    client.release("train")
    assert [key.split(".")[-2] for key, _ in bastion.taken[-2:]] == ["hold", "release"]


def test_a_priority_that_is_none_is_refused_here() -> None:
    """Only 1 to 5 are sent."""
    with pytest.raises(SpecError, match="priority: 6 is not allowed"):
        client_of()[0].prioritize("train", priority=6)


def test_a_cancel_of_many_names_looks_at_the_queue_once() -> None:
    """A hundred names are resolved in one read of the queue."""
    store, clock = world()
    ScriptedBastion(store, clock)
    ids = tuple(f"a-{number:010}" for number in range(100))
    publish(store, "queue", {"jobs": [row(each) for each in ids]})
    reads: list[str] = []

    def count(operation: str, key: str) -> None:
        reads.extend([key] if operation == "read" else [])

    client = Client("memory:", user="ada", store=FaultyStore(store, count), clock=clock)
    assert client.cancel(ids) == ids
    assert reads.count(layout.view("queue")) == 1


def test_a_launch_is_cancelled_whole() -> None:
    """The id of a launch means all of its jobs."""
    client, store, _, bastion = client_of()
    jobs = ["sweep-a-0123456789", "sweep-b-0123456789"]
    publish(store, "queue", {"jobs": [row(job, launch="sweep-0123456789") for job in jobs]})
    assert client.cancel("sweep-0123456789") == tuple(jobs)
    assert bastion.taken[0][1] == JobsRequest(targets=tuple(jobs))


def test_a_final_record_of_a_newer_bastion_is_shown() -> None:
    """The bastion may have been upgraded while this client waited."""
    client, store, _, _ = client_of()
    end(store, JOB)
    key = layout.result("blue", JOB)
    found = store.read(key)
    assert found is not None
    store.swap(key, found.data.replace(b"{", b'{"newer":1,', 1), if_version=found.version)
    assert client.job(JOB).text == "exited with code 0"


def test_what_has_ended_is_not_cancelled() -> None:
    """No request is sent for ended jobs, so a slightly old list does no harm."""
    client, store, _, bastion = client_of()
    publish(store, "queue", {"jobs": [row("b-0123456789")]})
    end(store, JOB)
    assert client.cancel(JOB) == ()
    assert client.cancel(JOB, "b-0123456789") == ("b-0123456789",)
    assert [body for _, body in bastion.taken] == [JobsRequest(targets=("b-0123456789",))]


def test_a_changed_quota_file_counts_at_once() -> None:
    """The cached quota file is never older than the file."""
    store, clock = world()
    ScriptedBastion(store, clock)
    client = Client("memory:", user="ada", store=store, clock=clock)
    client.launch(launch_of())
    put(store, layout.QUOTA, QUOTA.replace("ada", "ann").encode())
    with pytest.raises(SpecError, match="ada is not a member of any project"):
        client.launch(launch_of())


def test_waiting_ends_when_every_job_has_its_record() -> None:
    """A job is over when its final record is written, not when it leaves a view."""
    client, store, clock, _ = client_of()
    publish(store, "queue", {"jobs": [row(JOB, state="running"), row("b-0123456789")]})
    script = iter((lambda: end(store, JOB), lambda: publish(store, "queue", {"jobs": []}),
                   lambda: end(store, "b-0123456789", outcome="failed", code=7)))  # fmt: skip
    clock.on_sleep.append(lambda: next(script, lambda: None)())
    one, two = client.wait(["train", "b"])
    assert (one.state, one.code) == ("succeeded", 0)
    assert (two.state, two.code) == ("failed", 7)


def test_a_wait_that_times_out_names_what_goes_on() -> None:
    """The message counts and names the jobs that are not over."""
    client, store, _, _ = client_of()
    publish(store, "queue", {"jobs": [row(JOB, state="running")]})
    with pytest.raises(TimedOutError) as caught:
        client.wait(["train"], timeout_s=5)
    assert str(caught.value) == f"{JOB} has not ended after 5s"


def test_a_handle_says_what_its_jobs_do_and_printed() -> None:
    """One submission gives status, counts, logs by the job's name, and cancel."""
    client, store, _, bastion = client_of()
    handle = client.launch(launch_of())
    assert handle.status().counts == {"queued": 1}
    publish(store, "queue", {"jobs": [row(handle.id, state="running")]})
    assert handle.status().counts == {"running": 1}
    print_log(store, handle.id, b"one\n", b"two\n")
    assert handle.logs("main") == handle.logs(handle.id) == "one\ntwo\n"
    with pytest.raises(NotFoundError, match="has no job 'other'"):
        handle.logs("other")
    with pytest.raises(NotFoundError, match="has no replica 3; it has 1, counted from 0"):
        handle.logs(replica=3)
    assert handle.cancel() == handle.jobs
    publish(store, "queue", {"jobs": [row(handle.id, state="draining")]})
    end(store, handle.id)
    assert handle.wait(timeout_s=5).has_ended
    assert client.job(handle.id).has_ended, "although the queue does not say so yet"
    assert len(bastion.taken) == 2
    assert repr(handle).startswith(f"LaunchHandle(id='{handle.id}'")


def test_reading_says_as_of_when() -> None:
    """Every view has the store's time at which it was valid."""
    client, store, clock, _ = client_of()
    publish(store, "queue", {"jobs": [row(JOB)]})
    publish(store, "pool", {"machines": [], "pools": []})
    publish(store, "status", {"leader": "b", "quota": {"problem": "line 3: bad"}})
    assert client.job("train").as_of == client.queue_as_of() == NOW + 10
    assert client.pool().as_of == NOW + 10
    clock.advance(100)
    status = client.status()
    assert status.silent_s == pytest.approx(90)
    assert status.quota_problem == "line 3: bad"


@pytest.mark.parametrize("off_s", [-600.0, 0.0, 600.0])
def test_a_wrong_clock_of_a_laptop_makes_no_bastion_silent(off_s: float) -> None:
    """Silence is measured by the bucket's clock, in its answers."""
    _, store, clock, _ = client_of()
    client = Client(
        "gs://b", user="ada", store=store, clock=VirtualClock(wall=clock.wall() + off_s)
    )
    lead(store, now=clock.wall())
    assert not client.status().absence
    clock.advance(90)
    assert client.status().absence.endswith("on vm has published nothing for 1m 30s")


def test_why_is_the_reason_with_its_numbers() -> None:
    """It has the published text and fields; for a new job it says that more will follow."""
    client, store, _, _ = client_of()
    publish(
        store,
        "queue",
        {"jobs": [row(JOB, estimated_at=NOW + 99, sure="limits"), row("new-012", text="")]},
    )
    publish(store, "status", {"leader": "b", "quota": {"in_force": True}})
    why = client.why("train")
    assert (why.text, why.reason) == ("behind two jobs", {"kind": "behind"})
    assert (why.estimated_at, why.confidence) == (NOW + 99, "limits")
    assert client.why("new-012").text == "queued; the next cycle of the scheduler will say more"
    assert client.why("train").quota_problem == ""
    bad = {"problem": "line 3: bad"}
    publish(store, "status", {"leader": "b", "quota": {"in_force": True, **bad}})
    assert client.why("train").quota_problem == "line 3: bad"
    assert client.why("new-012").text == "queued; the next cycle of the scheduler will say more"
    publish(store, "status", {"leader": "b", "quota": {"in_force": False, **bad}})
    why = client.why("new-012")
    assert why.text == "queued; nothing starts while no quota file is in force"
    assert (why.has_quota, why.quota_problem) == (False, "line 3: bad")


def test_nothing_published_yet_is_told() -> None:
    """On a root where no bastion ever ran, reading says so."""
    client, store, *_ = client_of()
    store.delete(layout.view("status"))
    with pytest.raises(NotFoundError, match="no bastion has published anything here yet"):
        client.jobs()


def test_jobs_are_filtered_and_finished_ones_added() -> None:
    """By project, user and state; the newest finished jobs on demand."""
    client, store, _, _ = client_of()
    publish(
        store,
        "queue",
        {"jobs": [row(JOB, state="running"), row("b-0123456789", user="eve", project="green")]},
    )
    end(store, "old-0123456789")

    def ids(**filters: Any) -> list[str]:
        return [job.id for job in client.jobs(**filters)]

    assert ids() == [JOB, "b-0123456789"]
    assert ids(project="green") == ids(user="eve") == ["b-0123456789"]
    assert ids(states=("running",)) == [JOB]
    assert ids(finished=5) == [JOB, "b-0123456789", "old-0123456789"]
    assert ids(finished=5, states=("succeeded",)) == ["old-0123456789"]


def test_a_quota_file_is_checked_before_it_is_written() -> None:
    """A bad file changes nothing; a good one replaces what was read."""
    client, store, _, _ = client_of()
    with pytest.raises(SpecError, match=r"quota file: line \d+: .*version"):
        client.apply_quota(QUOTA.replace('version = "1"', 'version = "2"'))
    assert client.quota_text() == QUOTA
    changed = QUOTA.replace(
        "v4 = 0.5\n[project_resources.green]", "v4 = 0.25\n[project_resources.green]"
    )
    client.apply_quota(changed)
    assert client.quota().project("blue").nominal["v4"] == 256
    store.delete(layout.QUOTA)
    with pytest.raises(NotFoundError, match="there is no quota file at project-quotas/") as none:
        client.quota()
    assert "in a new folder, run bastion serve first" in none.value.hint
    client.apply_quota(QUOTA)
    assert client.quota_text() == QUOTA


def test_two_admins_do_not_overwrite_each_other() -> None:
    """A quota file that changed while it was being replaced is a conflict."""

    class Racing(Wrapped):
        def swap(self, key: str, data: bytes, *, if_version: Version) -> Written:
            put(store, key, b"theirs")
            return super().swap(key, data, if_version=if_version)

    store, clock = world()
    client = Client("memory:", user="ada", store=Racing(store), clock=clock)
    with pytest.raises(ConflictError, match="changed by someone else after it was read; nothing"):
        client.apply_quota(QUOTA + "\n# mine\n")
    found = store.read(layout.QUOTA)
    assert found is not None
    assert found.data == b"theirs"


def test_a_quota_file_replaces_the_text_that_it_was_made_of() -> None:
    """A later change or removal is a conflict; an identical file is not."""
    client, store, _, _ = client_of()
    client.apply_quota(QUOTA + "\n# mine\n", replacing=QUOTA)
    client.apply_quota(QUOTA + "\n# mine\n", replacing=QUOTA)
    for remove in (False, True):
        if remove:
            store.delete(layout.QUOTA)
        with pytest.raises(ConflictError, match="was changed by someone else"):
            client.apply_quota(QUOTA + "\n# later\n", replacing=QUOTA)
        assert (store.list(layout.QUOTA) == ()) == remove


def test_a_quota_file_that_arrives_twice_is_applied() -> None:
    """A network that repeats our write causes no conflict."""

    class Twice(MemoryStore):
        def swap(self, key: str, data: bytes, *, if_version: Version) -> Written:
            super().swap(key, data, if_version=if_version)
            return super().swap(key, data, if_version=if_version)

    clock = VirtualClock()
    store = Twice(clock.wall)
    put(store, layout.QUOTA, QUOTA.encode())
    client = Client("memory:", user="ada", store=store, clock=clock)
    client.apply_quota(QUOTA + "\n# mine\n")
    assert client.quota_text().endswith("# mine\n")


@pytest.mark.parametrize("stands", [True, False])
@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
def test_a_quota_file_whose_answer_is_lost_is_applied(fault: Fault, stands: bool) -> None:
    """A write that may have landed is not reported as failed: it is repeated, and read back."""
    store, clock = world()
    if not stands:
        store.delete(layout.QUOTA)
    left = [fault, fault]

    def faults(operation: str, _: str) -> Fault | None:
        return left.pop() if operation in ("create", "swap") and left else None

    client = Client("memory:", user="ada", store=FaultyStore(store, faults), clock=clock)
    client.apply_quota(QUOTA + "\n# mine\n")
    assert client.quota_text().endswith("# mine\n")
    assert not left


def test_a_quota_file_that_may_be_written_is_told_as_in_doubt() -> None:
    """After an error, an admin would not check whether it is in force."""
    store, clock = world()
    faulty = FaultyStore(store, lambda operation, _: Fault.AFTER if operation == "swap" else None)
    client = Client("memory:", user="ada", store=faulty, clock=clock)
    with pytest.raises(
        InDoubtError, match="it is unknown whether the quota file was written: swap of"
    ):
        client.apply_quota(QUOTA + "\n# mine\n")


@pytest.mark.parametrize(("user", "project"), [("../eve", None), ("ada", "a/b"), ("a b", None)])
def test_names_that_cannot_be_keys_are_refused(user: str, project: str | None) -> None:
    """User and project become parts of keys, so only names are accepted."""
    with pytest.raises(SpecError, match="is not a name"):
        Client("memory:", user=user, project=project)


def test_a_handle_is_what_launch_promises() -> None:
    """`launch` returns a handle, even for the path of a TOML file."""
    client, _, _, _ = client_of()
    assert isinstance(client.launch(launch_of()), LaunchHandle)


def test_a_launch_may_be_a_file(tmp_path: Path) -> None:
    """The path of a TOML file is a launch too."""
    client, _, _, bastion = client_of()
    path = tmp_path / "spec.toml"
    path.write_text('name = "train"\n[[jobs]]\n[[jobs.processes]]\ncommand = ["true"]\n')
    client.launch(path)
    assert taken_launch(bastion).name == "train"


def test_a_client_is_made_anew_in_another_process(tmp_path: Path) -> None:
    """It keeps its root, user and project; a handle includes its client."""
    client = Client(tmp_path, user="ada", project="blue")
    handle = LaunchHandle(client, launch="a-0123456789", project="blue", jobs=("a-0123456789",))
    there, handle_there = pickle.loads(pickle.dumps((client, handle)))
    assert repr(there) == repr(client)
    assert (repr(handle_there), handle_there._client.root) == (repr(handle), client.root)
    tasks = Indices.parse("0-9")
    array = LaunchHandle(client, launch="a-1", project="blue", jobs=("a-1",), indices=tasks)
    assert pickle.loads(pickle.dumps(array))._written_as() == array._written_as()


def test_what_was_changed_goes_to_another_process() -> None:
    """A worker returns what `cancel` returned to it."""
    done = Changed(("a-0123456789",), {"b-0123456789": "failed"})
    there = pickle.loads(pickle.dumps(done))
    assert (there, there.ended, repr(there)) == (done, done.ended, repr(done))


def test_a_client_of_a_store_that_was_handed_in_stays_in_its_process() -> None:
    """A copy would use another store; the error names the solution."""
    client, *_ = client_of()
    with pytest.raises(pickle.PicklingError, match=r"make another one there: Client\('memory:'\)"):
        pickle.dumps(client)
