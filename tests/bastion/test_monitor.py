"""The monitor of one job: events from known facts, and writes for the committed state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bastion.job import Claim, End, Hold, HostState, JobRecord, Phase, Stop, StopReason
from bastion.lifecycle import events as ev
from bastion.lifecycle import step
from bastion.machine import Machine, MachinePhase, SetLimit, Start, StopHost
from bastion.machine_name import pool_of
from bastion.monitor import (
    IdleRule,
    Options,
    RevokeClaim,
    RevokeGo,
    WriteEnd,
    WriteGo,
    WriteResult,
    due,
    grace_s,
    quiet_until,
    watch,
)
from bastion.secret_rules import SecretRule, SecretRules
from bastion.spec import Secret
from tests.rigs import job_records
from tests.rigs.job_records import T0, ended, exited

OPTIONS = Options(grace_s=5.0, max_grace_s=60.0)


def machines(
    count: int = 3, *, life: int = 1, phase: MachinePhase = MachinePhase.READY
) -> dict[str, Machine]:
    """Return the machines of a placement."""
    names = [f"m{n}-0" for n in range(count)]
    return {n: Machine(name=n, pool="p", phase=phase, life=life) for n in names}


def seen(
    job: JobRecord, fleet: dict[str, Machine] | None = None, now: float = T0, **more: Any
) -> list[str]:
    """Return the names of the resulting events."""
    watched = watch(job, machines() if fleet is None else fleet, now, options=OPTIONS, **more)
    return [type(event).__name__ for event in watched.events]


def stop_of(
    job: JobRecord, fleet: dict[str, Machine] | None = None, now: float = T0, **more: Any
) -> Stop:
    """Return the resulting stop."""
    (event,) = watch(
        job, machines() if fleet is None else fleet, now, options=OPTIONS, **more
    ).events
    assert isinstance(event, ev.StopWanted)
    return event.stop


def claimed(job: JobRecord, *replicas: int, life: int = 1) -> JobRecord:
    """Return `job` after agents claimed these replicas."""
    for r in replicas:
        claim = Claim(machine=f"m{r}-0", life=life)
        job = step(job, ev.HostClaimed(replica=r, host=0, claim=claim), T0)
    return job


def test_ready_machines_get_a_start_instruction() -> None:
    """Every host on a ready machine is instructed once, with everything that its agent needs."""
    job = job_records.starting(replicas=2)
    fleet = machines()
    fleet["m1-0"] = replace(fleet["m1-0"], phase=MachinePhase.CREATING, life=0)
    watched = watch(job, fleet, T0, options=OPTIONS)
    assert watched.events == (ev.Instructed(replica=0, host=0, life=1),)
    ((machine, start),) = watched.instructions
    assert machine == "m0-0"
    assert isinstance(start, Start)
    assert (start.replica, start.replicas, start.barrier, start.grace_s) == (0, 2, True, 5.0)
    assert start.devices == {"h100": (0, 1)}
    told = step(job, watched.events[0], T0)
    assert seen(told, fleet) == []


def test_a_new_life_gets_a_new_start_instruction() -> None:
    """A host whose machine started a new life before the claim is instructed again."""
    job = step(job_records.starting(), ev.Instructed(replica=0, host=0, life=1), T0)
    assert seen(job, machines(life=1)) == []
    assert seen(job, machines(life=2)) == ["Instructed"]


def test_the_barrier_opens_when_all_have_claimed() -> None:
    """The go of a gang is requested when the last host has claimed, and written after that."""
    job = claimed(job_records.starting(replicas=2), 0)
    assert seen(job) == ["Instructed"]
    job = claimed(job, 1)
    assert seen(job) == ["GoWanted"]
    assert due(job, machines()) == ()
    assert due(step(job, ev.GoWanted(), T0), machines()) == (WriteGo(),)


def test_a_failure_stops_the_others_or_not() -> None:
    """With `stop_others` the first failure stops its siblings; otherwise it affects no other."""
    job = ended(job_records.running(replicas=2, stops_others=True), exited(1))
    stop = stop_of(job)
    assert (stop.reason, stop.by, stop.deadline) == (StopReason.SIBLING, "replica 0", T0 + 5)
    assert seen(replace(job, stops_others=False)) == []


def test_the_first_replica_stops_the_others_where_it_decides() -> None:
    """Its success ends the job, though a worker failed before that was committed."""
    job = job_records.running(replicas=3, stops_others=True, first_decides=True)
    assert seen(ended(job, None, exited(0))) == []
    for worker in (None, exited(1)):
        stop = stop_of(ended(job, exited(0), worker))
        assert (stop.reason, stop.by, stop.deadline) == (StopReason.FINISHED, "", T0 + 5)
    assert seen(ended(replace(job, first_decides=False), exited(0))) == []


def test_a_head_that_fails_stops_workers_that_may_continue_without_each_other() -> None:
    """Otherwise nothing would ever end them."""
    job = job_records.running(replicas=3, first_decides=True)
    assert seen(ended(job, None, exited(1))) == []
    stop = stop_of(ended(job, exited(2), exited(1)))
    assert (stop.reason, stop.by) == (StopReason.SIBLING, "replica 0")


def test_a_failed_job_of_the_launch_stops_this_one() -> None:
    """The stop names the sibling job that failed."""
    stop = stop_of(job_records.running(), failed_sibling="other-1")
    assert (stop.reason, stop.by) == (StopReason.SIBLING, "other-1")


@pytest.mark.parametrize(
    "fleet", [{}, machines(life=2)], ids=["its machine is gone", "a new keeper life"]
)
def test_a_lost_host_stops_the_attempt(fleet: dict[str, Machine]) -> None:
    """A machine that left root, or a keeper life after the claim's, loses the host."""
    stop = stop_of(claimed(job_records.running(), 0), fleet)
    assert (stop.reason, stop.by) == (StopReason.HOST_LOST, "replica 0 on m0-0")


def test_a_host_that_ended_is_not_lost() -> None:
    """The machine of a replica that has succeeded may be removed."""
    job = ended(claimed(job_records.running(replicas=2), 0, 1), exited(0))
    fleet = machines()
    del fleet["m0-0"]
    assert seen(job, fleet) == []


def test_the_time_limit_has_slack() -> None:
    """The bastion stops what the keeper should have: limit, grace and 30 s after the start."""
    job = claimed(job_records.running(), 0)
    assert seen(job, now=T0 + 60 + 5 + 30) == []
    stop = stop_of(job, now=T0 + 60 + 5 + 31)
    assert stop.reason is StopReason.TIME_LIMIT


@pytest.mark.parametrize(("asked", "given"), [(None, 5.0), (20.0, 20.0), (1e6, 60.0), (0.0, 0.0)])
def test_grace_is_asked_for_and_capped(asked: float | None, given: float) -> None:
    """A job gets the grace period that it requested, up to the admin's limit."""
    job = job_records.queued()
    job = replace(job, request=replace(job.request, grace_s=asked))
    assert grace_s(job, OPTIONS) == given


def test_stopping_instructs_claimed_hosts() -> None:
    """A claimed host is instructed to stop once per life of its machine."""
    job = claimed(job_records.starting(replicas=2), 0)
    job = step(job, ev.StopWanted(stop=job_records.stop()), T0)
    watched = watch(job, machines(), T0, options=OPTIONS)
    assert watched.events == (ev.StopInstructed(replica=0, host=0, life=1),)
    ((machine, told),) = watched.instructions
    assert isinstance(told, StopHost)
    assert (machine, told.reason, told.by, told.grace_s) == ("m0-0", "preempt", "owner", 5.0)
    job = step(job, watched.events[0], T0)
    assert seen(job) == []
    assert seen(job, machines(life=2)) == ["StopInstructed"]


def test_stopping_revokes_unclaimed_hosts() -> None:
    """A committed STOPPING closes the barrier and revokes claims that no agent has won."""
    job = claimed(job_records.starting(replicas=3), 1)
    job = step(job, ev.StopWanted(stop=job_records.stop()), T0)
    wanted = (RevokeGo(), RevokeClaim(replica=0, host=0), RevokeClaim(replica=2, host=0))
    assert due(job, machines()) == wanted
    assert due(job, machines()) == wanted, "asked again it says the same"
    job = step(job, ev.GoRevoked(), T0)
    job = step(job, ev.HostEnded(replica=0, host=0, end=End(kind="revoked")), T0)
    assert due(job, machines()) == (RevokeClaim(replica=2, host=0),)


def test_an_end_is_written_only_for_a_machine_that_is_gone() -> None:
    """The bastion writes the end of a claimed host only when its machine left root."""
    job = claimed(job_records.running(), 0)
    assert due(job, machines()) == ()
    assert due(job, machines(phase=MachinePhase.DELETING)) == ()
    (action,) = due(job, {})
    end = End(kind="lost", detail="machine m0-0 is gone")
    assert action == WriteEnd(replica=0, host=0, end=end)


def test_draining_ends_with_the_logs_or_its_deadline() -> None:
    """A job drains until every host is drained, or at most until its deadline."""
    job = job_records.draining()
    assert seen(job, now=job.drain_deadline - 1) == []
    assert seen(job, now=job.drain_deadline) == ["DrainEnded"]
    assert seen(step(job, ev.HostDrained(replica=0, host=0), T0)) == ["DrainEnded"]


@pytest.mark.parametrize("phase", [Phase.QUEUED, Phase.DONE])
def test_nothing_follows_without_an_attempt(phase: Phase) -> None:
    """A job without an attempt has no events; one that is done needs its final record."""
    job = job_records.RECORDS[phase]()
    assert seen(job) == []
    assert due(job, {}) == ((WriteResult(),) if phase is Phase.DONE else ())


def test_watching_reaches_a_fixed_point() -> None:
    """From every state, repeated application of `watch`'s events ends after a few steps."""
    for claims in ((), (0,), (0, 1)):
        for make in (job_records.starting, job_records.running):
            for reason in (None, *StopReason):
                job = claimed(make(replicas=2), *claims)
                if reason is not None:
                    job = step(job, ev.StopWanted(stop=job_records.stop(reason)), T0)
                for _ in range(10):
                    events = watch(job, machines(), T0, options=OPTIONS).events
                    for event in events:
                        job = step(job, event, T0)
                    if not events:
                        break
                else:
                    raise AssertionError(f"{job} never comes to rest")


def test_a_host_state_begins_empty() -> None:
    """Nothing is known of a host before its first event."""
    assert HostState() == HostState(instructed=0, claim=None, end=None, drained=False)


def test_a_start_has_the_secrets_that_are_granted_now() -> None:
    """A rule that was removed since the launch applies from the next start on."""
    job = replace(job_records.starting(), secrets=(Secret("A"), Secret("B")))
    rules = SecretRules(named={"A": SecretRule(source="env:A", projects=(job.project,))})
    watched = watch(job, machines(), T0, options=Options(secrets=rules))
    starts = [start for _, start in watched.instructions if isinstance(start, Start)]
    assert starts
    assert all(start.secrets == {"A": "env:A"} for start in starts)


def test_a_start_has_the_idle_rule_of_its_pool() -> None:
    """It has the rule only if its own pool names a time."""
    job = job_records.starting()
    assert job.attempt is not None
    pool = pool_of(job.attempt.placement[0].hosts[0].machine)
    rule = IdleRule(warning_s=7200.0, stops=True)
    for named, expected in ((pool, (7200.0, True)), ("another", (0.0, False))):
        options = Options(idle_rules={named: rule})
        watched = watch(job, machines(), T0, options=options)
        starts = [start for _, start in watched.instructions if isinstance(start, Start)]
        assert {(start.idle_warning_s, start.stops_idle) for start in starts} == {expected}


def kept(*, replicas: int = 1, **more: object) -> JobRecord:
    """Return a job whose replica 0 failed and is held for inspection."""
    job = claimed(job_records.running(replicas=replicas, **more), *range(replicas))
    hold = Hold(until=T0 + 100, folder="/code", end=exited(3))
    return step(job, ev.HostHeld(replica=0, host=0, hold=hold), T0)


def test_a_held_host_stops_its_siblings() -> None:
    """Its siblings are stopped once; the attempt stays admitted, and can be preempted."""
    job = kept(replicas=2, stops_others=True)
    watched = watch(job, machines(), T0, options=OPTIONS)
    assert watched.events == (ev.StopInstructed(replica=1, host=0, life=1),)
    ((machine, stop),) = watched.instructions
    assert isinstance(stop, StopHost)
    assert (machine, stop.reason, stop.by, stop.grace_s) == (
        "m1-0",
        "sibling failed",
        "replica 0",
        5.0,
    )
    assert seen(step(job, watched.events[0], T0)) == []
    preempted = step(job, ev.StopWanted(stop=job_records.stop()), T0)
    assert seen(preempted) == ["StopInstructed", "StopInstructed"]


def test_a_held_host_stops_no_sibling_that_may_continue() -> None:
    """With `on_failure="continue"` the other replicas run, unless the held one decides."""
    assert seen(kept(replicas=2)) == []
    head = kept(replicas=2, first_decides=True)
    ((machine, stop),) = watch(head, machines(), T0, options=OPTIONS).instructions
    assert isinstance(stop, StopHost)
    assert (machine, stop.reason, stop.by) == ("m1-0", "sibling failed", "replica 0")


def test_a_released_host_gets_a_stop_instruction() -> None:
    """A release ends the held hosts and no others."""
    job = step(kept(replicas=2), ev.Released(by="ann"), T0)
    ((machine, stop),) = watch(job, machines(), T0, options=OPTIONS).instructions
    assert isinstance(stop, StopHost)
    assert (machine, stop.reason, stop.by) == ("m0-0", "release", "ann")


def test_a_held_host_on_a_lost_machine_keeps_its_end() -> None:
    """Its end is known: it is not lost, and its job is not retried because of the machine."""
    job = kept()
    assert seen(job, {}) == []
    assert due(job, {}) == (WriteEnd(replica=0, host=0, end=exited(3)),)


@pytest.mark.parametrize(("failures", "hold_s"), [(0, 0.0), (1, 60.0)])
def test_a_host_is_held_only_when_no_retry_is_left(failures: int, hold_s: float) -> None:
    """The start has the length of the hold: zero while a failure would be retried."""
    job = job_records.starting(hold_on_failure_s=60.0, retries=1, failures=failures)
    ((_, start),) = watch(job, machines(), T0, options=OPTIONS).instructions
    assert isinstance(start, Start)
    assert start.hold_s == hold_s


def test_a_revised_limit_is_sent_to_every_host() -> None:
    """A running host gets the new limit once; a later start includes it."""
    job = job_records.starting()
    late = step(job, ev.Updated(max_runtime_s=7.0), T0)
    ((_, start),) = watch(late, machines(), T0, options=OPTIONS).instructions
    assert isinstance(start, Start)
    assert start.max_runtime_s == 7.0
    assert seen(late) == ["Instructed", "LimitInstructed"]

    told = step(job, ev.Instructed(replica=0, host=0, life=1), T0)
    revised = step(told, ev.Updated(max_runtime_s=7.0), T0)
    watched = watch(revised, machines(), T0, options=OPTIONS)
    assert watched.events == (ev.LimitInstructed(replica=0, host=0, limit_s=7.0),)
    ((_, wanted),) = watched.instructions
    assert isinstance(wanted, SetLimit)
    assert wanted.max_runtime_s == 7.0
    assert seen(step(revised, watched.events[0], T0)) == []
    assert seen(step(told, ev.Updated(priority=1), T0)) == []


@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.RUNNING, Phase.DRAINING])
def test_until_a_job_is_quiet_time_alone_changes_nothing(phase: Phase) -> None:
    """Until then the events of a job are the same at any time, and after it there are some."""
    job = step(job_records.queued(), job_records.admitted(), T0)
    job = step(job, ev.Instructed(replica=0, host=0, life=1), T0)
    if phase is not Phase.STARTING:
        claim = Claim(machine="m0-0", life=1, address="", port=1)
        job = step(job, ev.HostClaimed(replica=0, host=0, claim=claim), T0)
        job = step(job, ev.HostStarted(replica=0, host=0), T0 + 1)
    if phase is Phase.DRAINING:
        job = step(job, ev.HostEnded(replica=0, host=0, end=exited(0)), T0 + 2)
    assert job.phase is phase
    until = quiet_until(job, OPTIONS)
    assert not seen(job, now=T0 + 2) and not seen(job, now=min(until - 0.01, T0 + 1e9))
    assert (until == float("inf")) is (phase is Phase.STARTING)
    assert bool(seen(job, now=until + 0.01)) is (phase is not Phase.STARTING)
