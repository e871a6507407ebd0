"""Job records in every phase, and an example of every event, for tests of the lifecycle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bastion.job import (
    Claim,
    End,
    Hold,
    HostPlace,
    JobClass,
    JobRecord,
    Outcome,
    OutcomeKind,
    Phase,
    Placement,
    ReplicaPlace,
    Stop,
    StopReason,
)
from bastion.lifecycle import events as ev
from bastion.lifecycle import step
from bastion.spec.request import Request
from quota import Amounts

T0 = 1000.0


def queued(*, replicas: int = 1, **more: Any) -> JobRecord:
    """Return a queued job."""
    return JobRecord(
        id="train-1",
        project="blue",
        user="ann",
        launch="train-1",
        ulid="01",
        submitted_at=T0,
        queued_at=T0,
        request=Request(replicas=replicas, per_replica=Amounts({"h100": 2}), max_runtime_s=60.0),
        **more,
    )


def placement(replicas: int = 1, hosts: int = 1) -> Placement:
    """Return a placement with every host on a separate machine."""
    return tuple(
        ReplicaPlace(
            hosts=tuple(
                HostPlace(machine=f"m{r}-{h}", devices={"h100": (0, 1)}) for h in range(hosts)
            )
        )
        for r in range(replicas)
    )


def admitted(replicas: int = 1) -> ev.Admitted:
    """Return the event of an admission."""
    return ev.Admitted(nonce="n", placement=placement(replicas), job_class=JobClass.GUARANTEED)


def stop(reason: StopReason = StopReason.PREEMPT, by: str = "owner") -> Stop:
    """Return a stop with a grace period of five seconds."""
    return Stop(reason=reason, at=T0, deadline=T0 + 5, by=by)


def starting(*, replicas: int = 1, **more: object) -> JobRecord:
    """Return a job that was just admitted."""
    return step(queued(replicas=replicas, **more), admitted(replicas), T0)


def running(*, replicas: int = 1, **more: object) -> JobRecord:
    """Return a running job: all of its hosts are claimed and started."""
    job = starting(replicas=replicas, **more)
    for r in range(replicas):
        job = step(job, ev.HostClaimed(replica=r, host=0, claim=Claim(machine="m", life=1)), T0)
    if replicas > 1:
        job = step(step(job, ev.GoWanted(), T0), ev.GoGiven(), T0)
    return step(job, ev.HostStarted(replica=0, host=0), T0)


def stopping(
    reason: StopReason = StopReason.PREEMPT, *, replicas: int = 1, **more: object
) -> JobRecord:
    """Return a running job with a requested stop."""
    return step(running(replicas=replicas, **more), ev.StopWanted(stop=stop(reason)), T0)


def ended(job: JobRecord, *ends: End | None, now: float = T0 + 1) -> JobRecord:
    """
    Return `job` after its hosts ended this way, replica by replica; None: the replica has not
    ended.
    """
    for replica, end in enumerate(ends):
        if end is not None:
            job = step(job, ev.HostEnded(replica=replica, host=0, end=end), now)
    return job


def drained(job: JobRecord, now: float = T0 + 2) -> JobRecord:
    """Return `job` with its logs in the bucket."""
    assert job.attempt is not None
    for replica, hosts in enumerate(job.attempt.hosts):
        for host in range(len(hosts)):
            job = step(job, ev.HostDrained(replica=replica, host=host), now)
    return step(job, ev.DrainEnded(), now)


def exited(*codes: int, notice: str = "", **more: object) -> End:
    """Return processes that exited with `codes`; without a notice, the first error came first."""
    first = None if notice else next((i for i, code in enumerate(codes) if code), None)
    given = {"first_failed": first, **more}
    return End(kind="exited", codes=codes, notice=notice, **given)  # type: ignore[arg-type]


def draining() -> JobRecord:
    """Return a job that succeeded and whose logs are not all in the bucket."""
    return ended(running(), exited(0))


def done() -> JobRecord:
    """Return a finished job."""
    return drained(draining())


RECORDS: dict[Phase, Callable[[], JobRecord]] = {
    Phase.QUEUED: queued,
    Phase.STARTING: starting,
    Phase.RUNNING: running,
    Phase.STOPPING: stopping,
    Phase.DRAINING: draining,
    Phase.DONE: done,
}

EVENTS: tuple[ev.Event, ...] = (
    admitted(),
    ev.Withdrawn(text="zone a is sold out"),
    ev.Reclassed(job_class=JobClass.BORROWED),
    ev.Instructed(replica=0, host=0, life=1),
    ev.StopInstructed(replica=0, host=0, life=1),
    ev.HostClaimed(replica=0, host=0, claim=Claim(machine="m", life=1)),
    ev.HostPrepares(replica=0, host=0, text="its code is fetched"),
    ev.HostStarted(replica=0, host=0),
    ev.HostCheckpointed(replica=0, host=0),
    ev.HostReported(replica=0, host=0, numbers={"loss": 0.5}),
    ev.HostIdle(replica=0, host=0, text="no output for 9 s"),
    ev.HostUnkept(replica=0, host=0, text="more than 9 files"),
    ev.HostHeld(replica=0, host=0, hold=Hold(until=T0 + 9, folder="/code", end=exited(1))),
    ev.HostEnded(replica=0, host=0, end=exited(0)),
    ev.HostDrained(replica=0, host=0),
    ev.GoWanted(),
    ev.GoGiven(),
    ev.GoRevoked(),
    ev.StopWanted(stop=stop()),
    ev.CancelWanted(by="ann", grace_s=5.0),
    ev.DrainEnded(),
    ev.HeldBack(by="ann"),
    ev.Released(),
    ev.DependenciesEnded(
        ends=(
            ev.DependencyEnded(
                job="other-1",
                launch="other-1",
                outcome=Outcome(kind=OutcomeKind.SUCCEEDED, text="exited with code 0"),
                is_last=True,
            ),
        )
    ),
    ev.LimitInstructed(replica=0, host=0, limit_s=9.0),
    ev.Updated(priority=1, max_runtime_s=5.0),
)
