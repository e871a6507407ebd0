"""The meaning of launch scripts for Clusterfudge, and the errors if there is none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import RFC_4122, UUID

import pytest

from bastion.catalog import resource_types
from bastion.client import BusyError, JobView, LaunchHandle
from bastion.compat import clusterfudge
from bastion.compat.clusterfudge import (
    CreateLaunchRequest,
    GitRepo,
    Job,
    LocalDir,
    OnReplicaFailureOtherReplicasAreStopped,
    OnReplicaFailureOtherReplicasContinue,
    Process,
    QueueingBehaviour,
    Resources,
    to_launch,
)
from bastion.errors import BastionError, NotFoundError, SpecError
from bastion.scheduler.machine_report import MachineReport
from bastion.spec import Launch, Where
from bastion.spec.names import launch_uuid
from bundler.code import GitRepo as Repository
from bundler.code import LocalDir as Folder
from quota.amounts import Amounts

ANY: Any = clusterfudge


def request(*jobs: Job, **more: Any) -> CreateLaunchRequest:
    """A request of one small job, or of `jobs`."""
    made = jobs or (Job("main", 1, [Process(["true"])]),)
    return CreateLaunchRequest(jobs=list(made), **more)


def test_everything_is_mapped() -> None:
    """Names, resources, places, code and behaviours have their counterparts."""
    launch = to_launch(
        request(
            Job(
                short_name="hello_world",
                replicas=3,
                processes=[
                    Process(["a"], Resources(cpus=2, memory_mb=512, h100=1)),
                    Process(["b"], Resources(rtx3090=1, a100_40gb=1, a100_80gb=2, t4=0)),
                ],
                replica_failure_behaviour=OnReplicaFailureOtherReplicasAreStopped(),
            ),
            name="my-launch",
            description="what it is for",
            cluster="primary",
            shard="rl",
            hostnames=["a", "b"],
            queueing_behaviour=QueueingBehaviour(enqueue_if_cluster_busy=True),
            deployment=GitRepo(repo="git@github.com:team/x.git", branch="main", commit="abcd123"),
        )
    )
    assert (launch.name, launch.description) == ("my-launch", "what it is for")
    assert launch.where == Where(cluster="primary", shard="rl", hostnames=("a", "b"))
    assert launch.when_busy == "queue"
    assert launch.code == Repository("git@github.com:team/x.git", branch="main", commit="abcd123")
    (job,) = launch.jobs
    assert (job.name, job.replicas, job.on_failure) == ("hello_world", 3, "stop_others")
    one, two = (dict(process.resources.amounts.items()) for process in job.processes)
    assert one == {"cpu": 2, "memory": 512 << 20, "h100": 1}
    assert two == {"rtx_3090": 1, "a100": 1, "a100_80gb": 2}


def test_what_is_not_said_is_as_its_users_expect() -> None:
    """A launch is refused if it cannot start, and replicas do not stop each other."""
    launch = to_launch(request(Job("main", 2, [Process(["true"])]), deployment=LocalDir()))
    assert launch.when_busy == "fail"
    assert launch.jobs[0].on_failure == "continue"
    assert launch.jobs[0].aliases == ("clusterfudge",)
    assert launch.code == Folder()
    assert to_launch(request(queueing_behaviour=QueueingBehaviour())).when_busy == "queue"
    refused = QueueingBehaviour(enqueue_if_cluster_busy=False)
    assert to_launch(request(queueing_behaviour=refused)).when_busy == "fail"
    going_on = OnReplicaFailureOtherReplicasContinue()
    job = Job("main", 2, [Process(["true"])], replica_failure_behaviour=going_on)
    assert to_launch(request(job)).jobs[0].on_failure == "continue"


@pytest.mark.parametrize(
    ("name", "description", "made", "kept"),
    [
        ("zip example", None, "zip-example", "zip example"),
        ("zip example", "why", "zip-example", "zip example: why"),
        ("plain", "why", "plain", "why"),
        (None, None, "main", ""),
        ("🎉", None, "main", "🎉"),
        ("x" * 80, None, "x" * 63, "x" * 80),
    ],
)
def test_any_title_becomes_a_name(
    name: str | None, description: str | None, made: str, kept: str
) -> None:
    """What a name has no room for is kept in the description."""
    launch = to_launch(request(name=name, description=description))
    assert (launch.name, launch.description) == (made, kept)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: CreateLaunchRequest(jobs=[]), "jobs must be non-empty"),
        (lambda: request(Job("a", 1, [])), "a.processes must be non-empty"),
        (lambda: request(Job("a", 0, [Process(["x"])])), "a.replicas: 0 is not allowed"),
        (
            lambda: request(Job("", 1, [Process(["x"])])),
            r"jobs\[0\].short_name: '' is not a name",
        ),
        (
            lambda: request(Job("a", 1, [Process("run this")])),
            r"a.processes\[0\].command: 'run this' is one string",
        ),
        (
            lambda: request(Job("a", 1, [Process(["x"], Resources(h100=-1))])),
            r"resources.h100: -1 is not above zero",
        ),
        (
            lambda: request(Job("a", 1, [Process(["x"], Resources(memory_mb="64"))])),  # type: ignore[arg-type]
            r"memory_mb: '64' is not a number",
        ),
        (
            lambda: request(Job("a", 1, [Process(["x"], {"h100": 1})])),  # type: ignore[arg-type]
            r"resource_requirements: \{'h100': 1\} is not Resources",
        ),
        (
            lambda: request(
                Job("a", 1, [Process(["x"])], OnReplicaFailureOtherReplicasContinue)  # type: ignore[arg-type]
            ),
            "replica_failure_behaviour: .* is not known; allowed: OnReplicaFailure",
        ),
        (
            lambda: request(Job("a", 1, [Process(["x"])]), Job("a", 1, [Process(["x"])])),
            "jobs: two are called 'a'",
        ),
        (lambda: request(deployment=Resources()), "deployment: .* is not LocalDir"),
        (lambda: request(deployment=GitRepo("nonsense")), "deployment.url: "),
        (
            lambda: request(deployment=GitRepo("https://x.org/y", "main", "short")),
            "deployment.commit: 'short' is not 7 to 40",
        ),
        (lambda: "text", "str is not a CreateLaunchRequest"),
        (lambda: CreateLaunchRequest(jobs=[...]), r"jobs\[0\]: Ellipsis is not a Job"),  # type: ignore[list-item]
        (lambda: request(Job("a", 1, [...])), r"a.processes\[0\].Ellipsis is not a Process"),  # type: ignore[list-item]
        (
            lambda: request(Job("a", 1, [Process(["x"], Resources(a100_40gb=-1))])),
            r"resources.a100_40gb: -1 is not above zero",
        ),
    ],
)
def test_what_is_wrong_is_told(make: Callable[[], CreateLaunchRequest], problem: str) -> None:
    """Each error has its own text, with the field as its author wrote it."""
    with pytest.raises(SpecError, match=problem):
        to_launch(make())


def test_all_problems_come_at_once() -> None:
    """Two wrong jobs and wrong code are three problems."""
    bad = request(Job("a", 0, [Process(["x"])]), Job("b", 1, []), deployment=GitRepo("nonsense"))
    with pytest.raises(SpecError) as error:
        to_launch(bad)
    assert len(error.value.problems) == 3


def test_values_may_be_changed_as_scripts_do() -> None:
    """Scripts fill values in step by step; nothing is checked before the launch is made."""
    asked = Resources()
    asked.h100 = 4  # type: ignore[attr-defined]
    job = Job("a", 1, [Process(["x"], asked)])
    job.replicas = 2
    (made,) = to_launch(request(job)).jobs
    assert (made.replicas, dict(made.processes[0].resources.amounts.items())) == (2, {"h100": 4})
    assert repr(asked) == "Resources(h100=4)"
    assert asked == Resources(h100=4)


def test_what_has_no_meaning_here_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An API key or another service's address is refused, not ignored; a root is taken."""
    monkeypatch.setenv("BASTION_ROOT", tmp_path.as_uri())
    with pytest.raises(SpecError, match="api_key: a bastion takes none"):
        clusterfudge.Client(api_key="secret")
    with pytest.raises(SpecError, match=r"base_url: 'api\.example\.com:443' is not the root"):
        clusterfudge.Client(base_url="api.example.com:443")
    clusterfudge.Client()
    clusterfudge.Client(tmp_path.as_uri())


def test_a_type_is_called_as_the_bastion_calls_it() -> None:
    """The catalog's name, or the script's own where machines have that."""
    job = Job("a", 1, [Process(["x"], Resources(rtx3090=1, gtx1050=1, h200=1))])
    for here, expected in (((), "rtx_3090"), (("rtx3090",), "rtx3090")):
        (made,) = to_launch(request(job), here).jobs
        assert made.processes[0].resources.amounts.types() == ("gtx_1050", "h200", expected)
    every = (f"rtx_{n}" for n in (3050, 3060, 3070, 3080, 3090, 4060, 4070, 4080, 4090, 6000))
    assert {*every, "gtx_1050", "p4", "p100", "h200"} <= set(resource_types())


class Submitter:
    """A client of bastion in its place: remembers what is sent, and has the jobs it is given."""

    def __init__(self, *jobs: JobView, refuses: BastionError | None = None) -> None:
        self.known = jobs
        self.refuses = refuses
        self.sent: list[Launch] = []
        self.cancelled: list[str] = []

    def launch(self, launch: Launch) -> LaunchHandle:
        """Take it, or refuse it."""
        self.sent.append(launch)
        if self.refuses is not None:
            raise self.refuses
        return LaunchHandle(self, launch="l-1", project="p", jobs=("l-1",), names=("a",))  # type: ignore[arg-type]

    def jobs(self, *, finished: int) -> tuple[JobView, ...]:
        """The jobs it was given."""
        return self.known

    def cancel(self, names: list[str]) -> None:
        """Remember them."""
        self.cancelled += names


def client_of(submitter: Submitter, root: Path) -> clusterfudge.Client:
    """A client that sends to `submitter`."""
    client = clusterfudge.Client(root.as_uri())
    client._client = submitter  # type: ignore[assignment]
    return client


def view(state: str, job: str = "l-1") -> JobView:
    """A job of the launch `l-1`."""
    return JobView(id=job, name="a", project="p", user="u", launch="l-1", state=state)


def test_a_folder_without_a_mark_is_the_scripts_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script in a plain folder sends that folder; in a tree of code the tree."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("__main__.__file__", str(tmp_path / "deep" / "launch.py"), raising=False)
    submitter = Submitter()
    client_of(submitter, tmp_path).create_launch(request(deployment=LocalDir()))
    (tmp_path / "pyproject.toml").touch()
    client_of(submitter, tmp_path).create_launch(request(deployment=LocalDir()))
    assert [each.code for each in submitter.sent] == [Folder(str(tmp_path / "deep")), Folder()]


def test_a_refusal_names_the_machines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`scheduling_log` has the table of machines; `prettyprint` prints both."""
    asked = Amounts({"h100": 8})
    report = MachineReport(job="l-1", machine="gpu-1-0", asked=asked, why_not="short by 8 h100")
    submitter = Submitter(refuses=BusyError("l-1: waits for 8 h100", [report]))
    with pytest.raises(clusterfudge.SchedulingError) as error:
        client_of(submitter, tmp_path).create_launch(request())
    assert "gpu-1-0" in error.value.scheduling_log
    error.value.prettyprint()
    assert "short by 8 h100" in capsys.readouterr().out


def test_a_folder_that_cannot_be_sent_is_a_value_error(tmp_path: Path) -> None:
    """Scripts catch ValueError where a folder is too large."""
    submitter = Submitter(refuses=BastionError("code: 3 GiB are more than 1 GiB"))
    with pytest.raises(ValueError, match="deployment: 3 GiB are more"):
        client_of(submitter, tmp_path).create_launch(request(deployment=LocalDir()))


def test_a_launch_is_found_and_stopped_by_either_id(tmp_path: Path) -> None:
    """Its UUID and its id here name the same launch; what has ended is left alone."""
    submitter = Submitter(view("running"), view("succeeded", "l-2"))
    client = client_of(submitter, tmp_path)
    for name in ("l-1", launch_uuid("l-1")):
        details = client.get_launch_details(name)
        assert details.launch.status is clusterfudge.LaunchStatus.LAUNCH_STATUS_RUNNING
        assert details.id == launch_uuid("l-1")
        client.stop_launch(name)
    assert submitter.cancelled == ["l-1", "l-1"]
    assert (UUID(launch_uuid("l-1")).version, launch_uuid("l-1")) != (8, launch_uuid("l-2"))
    assert UUID(launch_uuid("l-1")).variant == RFC_4122
    with pytest.raises(NotFoundError):
        client.stop_launch("another")


@pytest.mark.parametrize(
    ("states", "status"),
    [
        (("queued", "succeeded"), "QUEUED"),
        (("queued", "starting"), "RUNNING"),
        (("succeeded", "timed_out"), "FAILED"),
        (("succeeded", "cancelled"), "STOPPED"),
        (("succeeded",), "COMPLETED"),
    ],
)
def test_a_launch_has_one_status(tmp_path: Path, states: tuple[str, ...], status: str) -> None:
    """Running jobs take precedence over waiting ones, and a failure over a success."""
    client = client_of(Submitter(*map(view, states)), tmp_path)
    found = client.get_launch_details("l-1").status
    assert clusterfudge.LaunchStatus.Name(found) == f"LAUNCH_STATUS_{status}"


def test_a_workstation_is_refused_with_what_serves_in_its_place(tmp_path: Path) -> None:
    """The error names the notebook, and no attribute is missing."""
    with pytest.raises(SpecError, match="no workstations") as error:
        clusterfudge.Client(tmp_path.as_uri()).launch_workstation()
    assert "bastion notebook" in error.value.hint


def test_an_argument_that_is_misspelt_is_told_with_the_one_that_was_meant() -> None:
    """A script that is typed anew has its mistakes told in words, and not by Python."""
    cases: tuple[tuple[Callable[[], object], str], ...] = (
        (lambda: ANY.Process(["x"], resource_requirement=None), "resource_requirements"),
        (lambda: ANY.Job("a", replica=1), "replicas"),
        (lambda: ANY.CreateLaunchRequest(jobs=[], queuing_behaviour=None), "queueing_behaviour"),
    )
    for make, meant in cases:
        with pytest.raises(SpecError, match=f"takes no such argument; did you mean {meant}\\?"):
            make()
    with pytest.raises(SpecError, match="jobs: is missing"):
        ANY.CreateLaunchRequest()
    with pytest.raises(AttributeError, match="'GitRepository'; did you mean GitRepo"):
        ANY.GitRepository  # noqa: B018
