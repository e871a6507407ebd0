"""
The monitor of one admitted job: two pure functions that are called every turn.

* `watch`, before the commit: returns the events that follow from what is known (a barrier can open,
  a sibling failed, a machine is gone, the logs are complete), and the instructions that this commit
  allocates.
* `due`, after the commit: returns the registers that must be written because committed state
  requires them. It returns the same after a crash, and its actions are idempotent.

This module must not know how records are stored or how actions are performed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TypedDict

from bastion.job import Attempt, End, HostPlace, HostState, JobRecord, Phase, Stop, StopReason
from bastion.lifecycle import (
    DrainEnded,
    Event,
    GoWanted,
    Instructed,
    LimitInstructed,
    StopInstructed,
    StopWanted,
    first_failed,
    first_succeeded,
)
from bastion.lifecycle.step import DRAIN_S
from bastion.machine import Instruction, Machine, MachinePhase, SetLimit, Start, StopHost
from bastion.machine_name import pool_of
from bastion.secret_rules import SecretRules
from bastion.value import value

TIME_LIMIT_SLACK_S = 30.0
"""
The keeper enforces `max_runtime`. If it fails to, the bastion stops the job this long after the
limit and the grace period.
"""


END_MISSING_S = 600.0
"""
A machine reports that a host is over once its `end` is in the bucket. If the bucket did not have it
then, and no sweep has found it since, it was deleted. An end that another version wrote still
counts as existing.
"""


@value
class IdleRule:
    """What happens to a job in one pool that leaves its devices idle."""

    warning_s: float
    stops: bool = False


class _IdleFields(TypedDict, total=False):
    idle_warning_s: float
    stops_idle: bool


@value
class Options:
    """The admin's settings that monitors need."""

    grace_s: float = 30.0
    max_grace_s: float = 300.0
    secrets: SecretRules = SecretRules()
    """Which project can have which secrets."""
    idle_rules: Mapping[str, IdleRule] = field(default_factory=dict)
    """By pool; a pool without a rule does not watch for idle devices."""

    def idle_rule(self, pool: str) -> _IdleFields:
        """Return the fields of a start instruction that the rule of a pool sets."""
        rule = self.idle_rules.get(pool)
        if rule is None:
            return {}
        return {"idle_warning_s": rule.warning_s, "stops_idle": rule.stops}


@value
class Watched:
    """The result of `watch`: events in the order in which they are applied, and instructions."""

    events: tuple[Event, ...] = ()
    instructions: tuple[tuple[str, Instruction], ...] = ()
    """(machine, instruction)"""


@value
class WriteGo:
    """Open the barrier of the job's attempt."""


@value
class RevokeGo:
    """Close the barrier of the job's attempt permanently, unless it is open."""


@value
class RevokeClaim:
    """Revoke the right to start one host, unless it was claimed."""

    replica: int
    host: int


@value
class WriteEnd:
    """Write the end of one host whose machine is confirmed gone."""

    replica: int
    host: int
    end: End


@value
class WriteResult:
    """Write the final record."""


Action = WriteGo | RevokeGo | RevokeClaim | WriteEnd | WriteResult


def grace_s(job: JobRecord, options: Options) -> float:
    """Return the seconds between the notice to `job` and its kill: its request, up to the cap."""
    asked = job.request.grace_s
    return options.grace_s if asked is None else min(asked, options.max_grace_s)


def watch(
    job: JobRecord,
    machines: Mapping[str, Machine],
    now: float,
    *,
    options: Options,
    failed_sibling: str = "",
    steady_since: float = 0.0,
) -> Watched:
    """
    Return the events and instructions that follow for `job` from what is known at `now`.

    `failed_sibling` is the id of a job of the same launch whose failure ends the whole launch.
    Commits have had no gap since `steady_since`: during a gap, such as an outage of the store,
    agents cannot save anything either. A store's clock that is set forward looks the same.
    """
    attempt = job.attempt
    if attempt is None:
        return Watched()
    match job.phase:
        case Phase.STARTING | Phase.RUNNING:
            stop = _stop_wanted(
                job, attempt, machines, now, options, failed_sibling, steady_since=steady_since
            )
            if stop is not None:
                return Watched(events=(StopWanted(stop=stop),))
            return _joined(
                _start_hosts(job, attempt, machines, options),
                _change_limits(job, attempt, machines),
                _stop_held(job, attempt, machines, now, options),
            )
        case Phase.STOPPING:
            return _stop_hosts(job, attempt, machines, now)
        case Phase.DRAINING:
            drained = all(state.drained for _, _, _, state in attempt.each_host())
            if drained or now >= max(job.drain_deadline, steady_since + DRAIN_S):
                return Watched(events=(DrainEnded(),))
    return Watched()


def quiet_until(job: JobRecord, options: Options) -> float:
    """Return the time until which the passing of time alone adds nothing to `watch` for `job`."""
    if job.attempt is None:
        return math.inf
    if job.phase is Phase.DRAINING:
        return job.drain_deadline
    missing_at = min(_missing_at(state) for _, _, _, state in job.attempt.each_host())
    return min(missing_at, _longest_end(job, job.attempt, options))


def _longest_end(
    job: JobRecord, attempt: Attempt, options: Options, steady_since: float = 0.0
) -> float:
    """Return when the bastion itself stops a job that its keeper did not stop at its time limit."""
    limit_s = job.request.max_runtime_s
    if limit_s is None or attempt.started_at is None:
        return math.inf
    since = max(attempt.started_at, steady_since)
    return since + limit_s + grace_s(job, options) + TIME_LIMIT_SLACK_S


def _joined(*parts: Watched) -> Watched:
    """Return the events and the instructions of all `parts`, in order."""
    return Watched(
        events=tuple(event for part in parts for event in part.events),
        instructions=tuple(each for part in parts for each in part.instructions),
    )


def due(job: JobRecord, machines: Mapping[str, Machine]) -> tuple[Action, ...]:
    """Return the writes that the committed `job` requires."""
    if job.phase is Phase.DONE:
        return (WriteResult(),)
    attempt = job.attempt
    if attempt is None or not job.is_admitted:
        return ()
    return tuple(_due(job, attempt, machines))


def _due(job: JobRecord, attempt: Attempt, machines: Mapping[str, Machine]) -> Iterator[Action]:
    if attempt.go == "wanted" and job.phase is not Phase.STOPPING:
        yield WriteGo()
    for r, h, place, state in attempt.each_host():
        if state.end is None and state.claim is not None and is_gone(place, machines):
            end = state.hold.end if state.hold is not None else _gone_end(place)
            yield WriteEnd(replica=r, host=h, end=end)
    if job.phase is not Phase.STOPPING:
        return
    if attempt.go in ("awaited", "wanted"):
        yield RevokeGo()
    for r, h, _, state in attempt.each_host():
        if state.end is None and state.claim is None:
            yield RevokeClaim(replica=r, host=h)


def is_gone(place: HostPlace, machines: Mapping[str, Machine]) -> bool:
    """Whether the machine of `place` is confirmed deleted: it is no longer in root."""
    return place.machine not in machines


def _gone_end(place: HostPlace) -> End:
    return End(kind="lost", detail=f"machine {place.machine} is gone")


def _stop_wanted(
    job: JobRecord,
    attempt: Attempt,
    machines: Mapping[str, Machine],
    now: float,
    options: Options,
    failed_sibling: str,
    *,
    steady_since: float,
) -> Stop | None:
    deadline = now + grace_s(job, options)
    if job.first_decides and first_succeeded(attempt):
        return Stop(reason=StopReason.FINISHED, at=now, deadline=deadline)
    failed = _failed_replica(job, attempt)
    if failed is not None and not job.kept:
        by = f"replica {failed}"
        return Stop(reason=StopReason.SIBLING, at=now, deadline=deadline, by=by)
    if failed_sibling:
        return Stop(reason=StopReason.SIBLING, at=now, deadline=deadline, by=failed_sibling)
    for r, _, place, state in attempt.each_host():
        if _is_lost(place, state, machines):
            by = f"replica {r} on {place.machine}"
            return Stop(reason=StopReason.HOST_LOST, at=now, deadline=deadline, by=by)
    for r, _, place, state in attempt.each_host():
        if now > _missing_at(state):
            by = (
                f"replica {r} ended on {place.machine}, but its end record is missing from the"
                " bucket"
            )
            return Stop(reason=StopReason.END_MISSING, at=now, deadline=deadline, by=by)
    if now > _longest_end(job, attempt, options, steady_since):
        return Stop(reason=StopReason.TIME_LIMIT, at=now, deadline=deadline)
    return None


def _failed_replica(job: JobRecord, attempt: Attempt) -> int | None:
    """Return the replica whose failure stops the others, or None."""
    if job.stops_others and attempt.first_failure is not None:
        return attempt.first_failure[0]
    return 0 if job.first_decides and first_failed(attempt) else None


def _missing_at(state: HostState) -> float:
    """Return when the end of a host counts as missing; a stop then makes its agent rewrite it."""
    if state.end is not None or state.over_at is None:
        return math.inf
    return state.over_at + END_MISSING_S


def _is_lost(place: HostPlace, state: HostState, machines: Mapping[str, Machine]) -> bool:
    if state.end is not None:
        return state.end.kind == "lost"
    if state.hold is not None:
        return False
    machine = machines.get(place.machine)
    if machine is None:
        return True
    if state.claim is None:
        return machine.phase is MachinePhase.DELETING
    return state.claim.life < machine.life


def _start_hosts(
    job: JobRecord, attempt: Attempt, machines: Mapping[str, Machine], options: Options
) -> Watched:
    events: list[Event] = []
    instructions: list[tuple[str, Instruction]] = []
    hosts_on: dict[str, int] = {}
    for r, h, place, state in attempt.each_host():
        here = hosts_on.get(place.machine, 0)
        hosts_on[place.machine] = here + 1
        machine = machines.get(place.machine)
        if state.claim is not None or state.end is not None or machine is None:
            continue
        if machine.phase is MachinePhase.READY and state.instructed != machine.life:
            events.append(Instructed(replica=r, host=h, life=machine.life))
            if job.revised_limit_s is not None:
                events.append(LimitInstructed(replica=r, host=h, limit_s=job.revised_limit_s))
            start = _start(job, attempt, r, h, place, here, options)
            instructions.append((place.machine, start))
    claimed = all(state.claim is not None for _, _, _, state in attempt.each_host())
    if attempt.go == "awaited" and claimed:
        events.append(GoWanted())
    return Watched(events=tuple(events), instructions=tuple(instructions))


def _change_limits(job: JobRecord, attempt: Attempt, machines: Mapping[str, Machine]) -> Watched:
    """Send the time limit that a user has changed to every host that has another one."""
    limit_s = job.revised_limit_s
    events: list[Event] = []
    instructions: list[tuple[str, Instruction]] = []
    for r, h, place, state in attempt.each_host() if limit_s is not None else ():
        machine = machines.get(place.machine)
        is_current = machine is not None and state.instructed == machine.life
        if state.end is None and state.hold is None and is_current and state.limit_s != limit_s:
            assert limit_s is not None
            events.append(LimitInstructed(replica=r, host=h, limit_s=limit_s))
            wanted = SetLimit(**_host_fields(job, attempt, r, h), max_runtime_s=limit_s)
            instructions.append((place.machine, wanted))
    return Watched(events=tuple(events), instructions=tuple(instructions))


def _stop_held(
    job: JobRecord,
    attempt: Attempt,
    machines: Mapping[str, Machine],
    now: float,
    options: Options,
) -> Watched:
    """
    Stop the siblings of a host that is held for inspection, and stop that host once released.

    The attempt stays admitted in the meantime, so it can be preempted or cancelled like any other.
    """
    if not job.kept:
        return Watched()
    events: list[Event] = []
    instructions: list[tuple[str, Instruction]] = []
    first = job.kept[0][0]
    stops_others = job.stops_others or (job.first_decides and first == 0)
    grace = grace_s(job, options)
    sibling = Stop(reason=StopReason.SIBLING, at=now, deadline=now + grace, by=f"replica {first}")
    for r, h, place, state in attempt.each_host():
        machine = machines.get(place.machine)
        if state.end is not None or machine is None or state.stop_instructed == machine.life:
            continue
        if state.hold is None and stops_others:
            stop = _stop_host(job, attempt, r, h, sibling)
        elif state.hold is not None and state.hold.released_by:
            stop = StopHost(
                **_host_fields(job, attempt, r, h), reason="release", by=state.hold.released_by
            )
        else:
            continue
        events.append(StopInstructed(replica=r, host=h, life=machine.life))
        instructions.append((place.machine, stop))
    return Watched(events=tuple(events), instructions=tuple(instructions))


def _stop_hosts(
    job: JobRecord, attempt: Attempt, machines: Mapping[str, Machine], now: float
) -> Watched:
    events: list[Event] = []
    instructions: list[tuple[str, Instruction]] = []
    for r, h, place, state in attempt.each_host():
        if state.end is not None:
            continue
        machine = machines.get(place.machine)
        if machine is None or state.claim is None:
            continue
        if state.stop_instructed != machine.life or now > _missing_at(state):
            events.append(StopInstructed(replica=r, host=h, life=machine.life))
            assert attempt.stop is not None, f"{job.id} is stopping without a stop"
            stop = _stop_host(job, attempt, r, h, attempt.stop)
            instructions.append((place.machine, stop))
    return Watched(events=tuple(events), instructions=tuple(instructions))


def _start(
    job: JobRecord,
    attempt: Attempt,
    replica: int,
    host: int,
    place: HostPlace,
    here: int,
    options: Options,
) -> Start:
    return Start(
        **_host_fields(job, attempt, replica, host),
        launch=job.launch,
        index=job.index,
        devices=place.devices,
        replicas=len(attempt.placement),
        hosts=len(attempt.placement[replica].hosts),
        barrier=attempt.go != "unneeded",
        tier=max(each.tier for each in attempt.placement),
        grace_s=grace_s(job, options),
        ulid=job.ulid,
        replicas_here=here,
        secrets=options.secrets.granted(job.project, job.secrets),
        task=job.task,
        max_runtime_s=job.revised_limit_s,
        hold_s=job.hold_on_failure_s if job.is_last_try else 0.0,
        **options.idle_rule(pool_of(place.machine)),
    )


def _stop_host(job: JobRecord, attempt: Attempt, replica: int, host: int, stop: Stop) -> StopHost:
    return StopHost(
        **_host_fields(job, attempt, replica, host),
        reason=stop.reason.value,
        by=stop.by,
        grace_s=max(0.0, stop.deadline - stop.at),
    )


class _HostFields(TypedDict):
    project: str
    job: str
    attempt: int
    nonce: str
    replica: int
    host: int


def _host_fields(job: JobRecord, attempt: Attempt, replica: int, host: int) -> _HostFields:
    """Return the fields of an instruction that name its host and attempt."""
    return {
        "project": job.project,
        "job": job.id,
        "attempt": attempt.number,
        "nonce": attempt.nonce,
        "replica": replica,
        "host": host,
    }
