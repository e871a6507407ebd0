"""`on_failure` with `scope="launch"`: one job's failure is that of the whole launch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import pytest

from bastion.job import End
from bastion.records.reports.facts import Drained, Ended, Held
from bastion.spec import Job, Process, Resources
from tests.rigs.leader import Rig


def _jobs(*names: str, h100: int = 2, **more: Any) -> tuple[Job, ...]:
    process = Process(["true"], resources=Resources(h100=h100))
    return tuple(Job(name=name, processes=(process,), scope="launch", **more) for name in names)


def _run(rig: Rig, asked: str) -> dict[str, str]:
    """Return job ids by name, once the first job runs."""
    rig.turn()
    ids = {rig.job(job).name: job for job in rig.answer(asked).jobs}
    rig.until(lambda: rig.phase(ids["a"]) == "running")
    return ids


def test_a_failure_ends_the_launch() -> None:
    """When a job fails permanently, its running siblings are stopped and end cancelled by it."""
    rig = Rig()
    rig.turn(2)
    ids = _run(rig, rig.launch("both", jobs=_jobs("a", "b")))
    rig.agent_of(ids["a"]).end(ids["a"], 1)
    rig.turn()
    assert rig.phase(ids["b"]) == "stopping", "it is seen at once, not when the failed job is done"
    assert rig.ended(ids["a"]).outcome == "failed"
    result = rig.ended(ids["b"])
    assert result.outcome == "cancelled"
    assert result.text == f"cancelled by the failure of {ids['a']}"


def test_a_failure_keeps_waiting_siblings_from_starting() -> None:
    """A sibling that still waits when a job of its launch fails never starts."""
    rig = Rig()
    rig.turn(2)
    ids = _run(rig, rig.launch("some", jobs=_jobs("a", "b", "c", h100=8), together=False))
    assert rig.phase(ids["c"]) == "queued"
    rig.agent_of(ids["a"]).end(ids["a"], 1)
    assert rig.ended(ids["c"]).attempts == 0
    assert rig.result(ids["c"]).outcome == "cancelled"  # type: ignore[union-attr]
    assert rig.ended(ids["b"]).outcome == "cancelled"


def test_nothing_of_a_failing_launch_is_started() -> None:
    """A waiting sibling is not admitted only to be stopped while a job still fails."""
    rig = Rig()
    rig.turn(2)
    jobs = _jobs("a", "b", "c", h100=8, retries=1, retry_backoff=5.0)
    ids = _run(rig, rig.launch("some", jobs=jobs, together=False))
    assert rig.phase(ids["c"]) == "queued"
    agent, of = rig.agent_of(ids["a"]), rig.agent_of(ids["a"]).of(ids["a"])
    end = End(kind="exited", codes=(1,), first_failed=0, sizes=(3,))
    agent.ring(Ended(of=of, end=agent.end_as(of, end, rings=False)))  # its logs are on their way
    rig.turn(8)
    assert rig.phase(ids["a"]) == "draining"
    assert rig.job(ids["c"]).attempts == 0
    agent.ring(Drained(of=of))
    rig.until_attempt(ids["c"], 1)


@pytest.mark.parametrize("turns", [0, 1])
def test_a_loss_takes_the_launch_along(turns: int) -> None:
    """A restarted machine reports its new life and the lost job in one turn, or in two."""
    rig = Rig()
    rig.turn(2)
    ids = _run(rig, rig.launch("both", jobs=_jobs("a", "b", h100=8)))
    agent = rig.agent_of(ids["a"])
    of = agent.of(ids["a"])
    agent.live_again()
    rig.turn(turns)
    agent.end_as(of, End(kind="lost", detail="its machine restarted", sizes=()))
    rig.until_attempt(ids["a"], 2)
    rig.until_attempt(ids["b"], 2)


def test_a_retry_takes_the_launch_along() -> None:
    """While retries are left, siblings are stopped, uncounted, and start again together."""
    rig = Rig()
    rig.turn(2)
    jobs = _jobs("a", "b", retries=1, retry_backoff=5.0)
    ids = _run(rig, rig.launch("both", jobs=jobs))
    rig.agent_of(ids["a"]).end(ids["a"], 1)
    rig.until_attempt(ids["a"], 2)
    rig.until_attempt(ids["b"], 2)
    sibling = rig.job(ids["b"])
    assert (sibling.failures, sibling.preemptions, sibling.losses_in_row) == (0, 0, 0)
    assert [past.kind.value for past in sibling.past] == ["stopped"]
    for job in ids.values():
        rig.agent_of(job).end(job)
    assert rig.ended(ids["b"]).outcome == "succeeded"


def test_a_failure_of_job_scope_is_its_own() -> None:
    """Without `scope="launch"` a failed job leaves the other jobs of its launch alone."""
    rig = Rig()
    rig.turn(2)
    process = Process(["true"], resources=Resources(h100=1))
    jobs = tuple(Job(name=name, processes=(process,)) for name in ("a", "b"))
    ids = _run(rig, rig.launch("both", jobs=jobs))
    rig.agent_of(ids["a"]).end(ids["a"], 1)
    assert rig.ended(ids["a"]).outcome == "failed"
    rig.turn(5)
    assert rig.phase(ids["b"]) == "running"


@pytest.mark.parametrize("replicas", [2, 3])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("kind", ["exited", "lost"])
def test_nothing_fails_once_the_first_replica_has_succeeded(
    kind: Literal["exited", "lost"], order: tuple[int, int], replicas: int
) -> None:
    """A worker that sees its head end exits with 1, or its machine is lost: siblings continue."""
    rig = Rig()
    rig.turn(2)
    ray = replace(_jobs("a")[0], replicas=replicas, success="first")
    ids = _run(rig, rig.launch("both", jobs=(ray, *_jobs("b")), together=False))
    rig.until(lambda: rig.phase(ids["b"]) == "running")
    failed = End(kind="exited", codes=(1,), first_failed=0)
    ends = End(kind="exited", codes=(0,)), failed if kind == "exited" else End(kind="lost")
    agents = [rig.agent_of(ids["a"], replica=r) for r in range(2)]
    for r in order:
        agents[r].end_as(agents[r].of(ids["a"], replica=r), ends[r])
    rig.turn()
    assert rig.phase(ids["b"]) == "running"
    assert rig.ended(ids["a"]).outcome == "succeeded"
    assert (rig.phase(ids["b"]), rig.job(ids["b"]).attempts) == ("running", 1)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_no_worker_is_held_once_the_first_replica_has_succeeded(order: tuple[int, int]) -> None:
    """Its agent holds it as failed: it is ended, and no sibling is cancelled for it."""
    rig = Rig()
    rig.turn(2)
    ray = replace(_jobs("a")[0], replicas=2, success="first", hold_on_failure=60.0)
    ids = _run(rig, rig.launch("both", jobs=(ray, *_jobs("b")), together=False))
    rig.until(lambda: rig.phase(ids["b"]) == "running")
    agents = [rig.agent_of(ids["a"], replica=r) for r in range(2)]
    hosts = [agents[r].of(ids["a"], replica=r) for r in range(2)]
    failed = End(kind="exited", codes=(1,), first_failed=0)
    for r in order:
        if r == 0:
            agents[0].end_as(hosts[0], End(kind="exited", codes=(0,)))
        else:
            agents[1].ring(Held(of=hosts[1], for_s=60.0, folder="/code", end=failed))
    assert rig.ended(ids["a"]).outcome == "succeeded"
    assert rig.phase(ids["b"]) == "running"
