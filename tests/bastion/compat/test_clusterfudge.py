"""What a launch script for Clusterfudge means here, and what it is told where it means nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

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
from bastion.errors import SpecError
from bastion.spec import Where
from bundler.code import GitRepo as Repository
from bundler.code import LocalDir as Folder


def request(*jobs: Job, **more: object) -> CreateLaunchRequest:
    """A request of one small job, or of `jobs`."""
    made = jobs or (Job("main", 1, [Process(["true"])]),)
    return CreateLaunchRequest(jobs=list(made), **more)  # type: ignore[arg-type]


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
    """A launch is refused when it cannot start, and replicas do not stop each other."""
    launch = to_launch(request(Job("main", 2, [Process(["true"])]), deployment=LocalDir()))
    assert launch.when_busy == "fail"
    assert launch.jobs[0].on_failure == "continue"
    assert launch.jobs[0].aliases == ("clusterfudge",)
    assert launch.code == Folder()
    assert to_launch(request(queueing_behaviour=QueueingBehaviour())).when_busy == "fail"
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
        (lambda: request(Job("", 1, [Process(["x"])])), r"jobs\[0\].name: '' is not a name"),
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
        (lambda: request(deployment=Resources()), "deployment: .* is no LocalDir"),
        (lambda: request(deployment=GitRepo("nonsense")), "deployment.url: "),
        (
            lambda: request(deployment=GitRepo("https://x.org/y", "main", "short")),
            "deployment.commit: 'short' is not 7 to 40",
        ),
        (lambda: "text", "str is no CreateLaunchRequest"),
    ],
)
def test_what_is_wrong_is_told(make: Callable[[], CreateLaunchRequest], problem: str) -> None:
    """Each mistake has its own words, with the field as its author wrote it."""
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
    with pytest.raises(SpecError, match=r"base_url: 'api\.example\.com:443' is no root"):
        clusterfudge.Client(base_url="api.example.com:443")
    clusterfudge.Client()
    clusterfudge.Client(tmp_path.as_uri())
