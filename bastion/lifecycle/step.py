"""
The only place where a job's phase changes: a table, and the small functions that it names.

    queued   ──Admitted────────> starting
    queued   ──CancelWanted────> done
    queued   ──DependenciesEnded─> done     if what it waits for can never be met
    starting ──Withdrawn───────> queued     if no host of it was instructed
    starting ──HostStarted─────> running
    starting ──HostEnded───────> draining   with the last host, here and below
    starting ──StopWanted──────> stopping
    starting ──CancelWanted────> stopping
    running  ──HostEnded───────> draining
    running  ──StopWanted──────> stopping
    running  ──CancelWanted────> stopping
    stopping ──HostEnded───────> draining
    draining ──DrainEnded──────> queued     if it is retried
    draining ──DrainEnded──────> done

Every other event of `TABLE` leaves the phase as it is. A pair of phase and event that the table
does not list raises `LifecycleError`: that is a bug, never an outside fault. Facts that may arrive
late (a claim, an end, a drain) are listed with `_ignore`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from bastion.errors import BastionError
from bastion.job import (
    FAILURES,
    MAX_PAST,
    UNTOUCHED,
    Attempt,
    End,
    JobRecord,
    Outcome,
    OutcomeKind,
    PastAttempt,
    Phase,
    Stop,
    StopReason,
    initial_hosts,
)
from bastion.lifecycle import events as ev
from bastion.lifecycle.dependencies import NeverMet, still_awaited
from bastion.lifecycle.outcome import failed_first, first_succeeded, outcome_of, unkept_text
from bastion.spec.launch import MAX_BACKOFF_S
from bastion.value import replace

MAX_UNSTARTED_IN_ROW = 12
"""
Consecutive starts that machines could not make, after which the job ends: it probably asks for more
than any machine has.
"""
MAX_LOSSES_IN_ROW = 3
"""Consecutive machine losses after which the job ends: the job itself is the likely cause."""
GOOD_RUN_S = 600.0
"""An attempt that ran this long before its machine was lost resets the count of losses."""
DRAIN_S = 120.0
"""How long a job drains after its last end, or after a report that output is still being saved."""
_LATE_LOG = "the end of the log may be missing: not all of it arrived in time"
LOSS_BACKOFF_S = 10.0
MAX_DOUBLINGS = 20
"""Limit for the backoff: far beyond `MAX_BACKOFF_S`, and far below what a float can hold."""

_E = TypeVar("_E", bound=ev.Event)


class LifecycleError(BastionError):
    """The table has no entry for this event in the phase of this job."""

    def __init__(self, job: JobRecord, event: ev.Event) -> None:
        super().__init__(f"{job.id} is {job.phase}: no {type(event).__name__} can happen to it")
        self.job = job
        self.event = event


def step(job: JobRecord, event: ev.Event, now: float) -> JobRecord:
    """
    Return `job` as it is after `event`.

    Raises:
        LifecycleError: The table has no entry for the phase of `job` and this event.
    """
    line = TABLE.get((job.phase, type(event)))
    if line is None:
        raise LifecycleError(job, event)
    return line(job, event, now)


def _ignore(job: JobRecord, event: ev.Event, now: float) -> JobRecord:
    return job


def _admit(job: JobRecord, event: ev.Admitted, now: float) -> JobRecord:
    hosts = initial_hosts(event.placement)
    attempt = Attempt(
        number=job.attempts + 1,
        nonce=event.nonce,
        admitted_at=now,
        placement=event.placement,
        job_class=event.job_class,
        go="awaited" if sum(len(replica) for replica in hosts) > 1 else "unneeded",
        hosts=hosts,
    )
    return replace(
        job, phase=Phase.STARTING, attempts=attempt.number, attempt=attempt, fail_when_busy=False
    )


def _withdraw(job: JobRecord, event: ev.Withdrawn, now: float) -> JobRecord:
    """
    Requeue a job at no cost and at its old place: nothing of its attempt ever existed.

    The next attempt has the same number and another nonce.
    """
    if any(state != UNTOUCHED for _, _, _, state in _attempt(job).each_host()):
        return job
    return replace(job, phase=Phase.QUEUED, attempts=job.attempts - 1, attempt=None)


def _set_class(job: JobRecord, event: ev.Reclassed, now: float) -> JobRecord:
    attempt = _attempt(job)
    borrowed_s = attempt.borrowed_until(now)
    classed = replace(attempt, job_class=event.job_class, borrowed_s=borrowed_s, classed_at=now)
    return replace(job, attempt=classed)


def _record_start(job: JobRecord, event: ev.Instructed, now: float) -> JobRecord:
    return _with_host(job, event.replica, event.host, instructed=event.life)


def _record_stop(job: JobRecord, event: ev.StopInstructed, now: float) -> JobRecord:
    # If it is over, its agent reports so again: a stop makes it write the host's end once more.
    return _with_host(job, event.replica, event.host, stop_instructed=event.life, over_at=None)


def _claim(job: JobRecord, event: ev.HostClaimed, now: float) -> JobRecord:
    if _attempt(job).hosts[event.replica][event.host].end is not None:
        return job
    return _with_host(job, event.replica, event.host, claim=event.claim)


def _record_setup(job: JobRecord, event: ev.HostPrepares, now: float) -> JobRecord:
    return _with_host(job, event.replica, event.host, preparing=event.text)


def _start(job: JobRecord, event: ev.HostStarted, now: float) -> JobRecord:
    attempt = _attempt(job)
    if attempt.started_at is None:
        attempt = replace(attempt, started_at=now)
    phase = Phase.RUNNING if job.phase is Phase.STARTING else job.phase
    return replace(job, phase=phase, attempt=attempt)


def _record_checkpoint(job: JobRecord, event: ev.HostCheckpointed, now: float) -> JobRecord:
    return replace(job, attempt=replace(_attempt(job), checkpoint_at=now), losses_in_row=0)


def _record_report(job: JobRecord, event: ev.HostReported, now: float) -> JobRecord:
    return replace(job, report=event.numbers)


def _record_idle(job: JobRecord, event: ev.HostIdle, now: float) -> JobRecord:
    return _with_host(job, event.replica, event.host, idle=event.text)


def _record_unkept(job: JobRecord, event: ev.HostUnkept, now: float) -> JobRecord:
    if event.is_log:
        return _with_host(job, event.replica, event.host, unsent=event.text)
    before = unkept_text(_attempt(job))
    job = _with_host(job, event.replica, event.host, unkept=event.text)
    if job.phase is not Phase.DRAINING or job.last is None:
        return job
    # The outcome stays the same: only its text can change.
    parts = (job.last.text.removesuffix(f"; {before}"), unkept_text(_attempt(job)))
    last = replace(job.last, text="; ".join(filter(None, parts)))
    # Its agent is still saving: wait for what the next attempt would miss.
    return replace(job, last=last, drain_deadline=max(job.drain_deadline, now + DRAIN_S))


def _keep_host(job: JobRecord, event: ev.HostHeld, now: float) -> JobRecord:
    attempt = _attempt(job)
    if attempt.hosts[event.replica][event.host].end is not None:
        return job
    if job.first_decides and first_succeeded(attempt):
        return job  # it is stopped like any other; nothing to inspect
    if attempt.first_failure is None:
        job = replace(job, attempt=replace(attempt, first_failure=(event.replica, event.host)))
    return _with_host(job, event.replica, event.host, hold=event.hold)


def _record_limit(job: JobRecord, event: ev.LimitInstructed, now: float) -> JobRecord:
    return _with_host(job, event.replica, event.host, limit_s=event.limit_s)


def _end_host(job: JobRecord, event: ev.HostEnded, now: float) -> JobRecord:
    r, h, end = event.replica, event.host, event.end
    if _attempt(job).hosts[r][h].end is not None:
        return job
    # An end without log sizes has no agent behind it that could still send logs.
    has_no_logs = end.kind in ("revoked", "lost") and not end.sizes
    borrowed_s = _attempt(job).borrowed_until(now)
    job = _with_host(job, r, h, end=end, drained=has_no_logs, ended_at=now, borrowed_s=borrowed_s)
    attempt = replace(_attempt(job), started_at=_started_at(_attempt(job), end, now))
    job = replace(job, attempt=attempt)
    if job.first_decides and first_succeeded(attempt):
        attempt = _without_failures(attempt)
    elif attempt.first_failure is None and failed_first(end):
        attempt = replace(attempt, first_failure=(r, h))
    job = replace(job, attempt=attempt)
    if any(host.end is None for replica in attempt.hosts for host in replica):
        return job
    return replace(
        job,
        phase=Phase.DRAINING,
        last=outcome_of(job, attempt),
        drain_deadline=now + DRAIN_S,
    )


def _without_failures(attempt: Attempt) -> Attempt:
    """Return `attempt` without failures or held hosts, because it has succeeded."""
    hosts = tuple(tuple(replace(host, hold=None) for host in each) for each in attempt.hosts)
    return replace(attempt, first_failure=None, hosts=hosts)


def _started_at(attempt: Attempt, end: End, now: float) -> float | None:
    """
    Return when `attempt` started; the host that ends now knows it better.

    Start and end of a short host arrive together, so only its machine knows how long it ran.
    """
    if end.kind != "exited":
        return attempt.started_at
    known = now if attempt.started_at is None else attempt.started_at
    return max(attempt.admitted_at, min(known, now - end.ran_s))


def _drain_host(job: JobRecord, event: ev.HostDrained, now: float) -> JobRecord:
    state = _attempt(job).hosts[event.replica][event.host]
    if event.lacks_end and state.end is None and state.over_at is None:
        job = _with_host(job, event.replica, event.host, over_at=now)
    return _with_host(job, event.replica, event.host, drained=True)


def _set_barrier(go: Any) -> Callable[[JobRecord, Any, float], JobRecord]:
    def set_go(job: JobRecord, event: ev.Event, now: float) -> JobRecord:
        return replace(job, attempt=replace(_attempt(job), go=go))

    return set_go


def _stop(job: JobRecord, event: ev.StopWanted, now: float) -> JobRecord:
    return replace(job, phase=Phase.STOPPING, attempt=replace(_attempt(job), stop=event.stop))


def _cancel_queued(job: JobRecord, event: ev.CancelWanted, now: float) -> JobRecord:
    outcome = Outcome(kind=OutcomeKind.CANCELLED, text=f"cancelled by {event.by}")
    return _finish(replace(job, cancelled_by=event.by), outcome, now)


def _cancel_running(job: JobRecord, event: ev.CancelWanted, now: float) -> JobRecord:
    stop = Stop(reason=StopReason.CANCEL, at=now, deadline=now + event.grace_s, by=event.by)
    return _stop(replace(job, cancelled_by=event.by), ev.StopWanted(stop=stop), now)


def _cancel_ending(job: JobRecord, event: ev.CancelWanted, now: float) -> JobRecord:
    return replace(job, cancelled_by=job.cancelled_by or event.by)


def _release_held(job: JobRecord, event: ev.Released, now: float) -> JobRecord:
    for r, h, _, state in _attempt(job).each_host():
        if state.hold is not None and state.end is None:
            job = _with_host(job, r, h, hold=replace(state.hold, released_by=event.by))
    return job


def _hold(job: JobRecord, event: ev.HeldBack, now: float) -> JobRecord:
    return replace(job, held=event.by)


def _release(job: JobRecord, event: ev.Released, now: float) -> JobRecord:
    return replace(job, held="", queued_at=now) if job.held else job


def _apply_dependencies(job: JobRecord, event: ev.DependenciesEnded, now: float) -> JobRecord:
    try:
        after = still_awaited(job.after, event.ends)
    except NeverMet as never:
        outcome = Outcome(kind=OutcomeKind.CANCELLED, text=never.text)
        return _finish(replace(job, after=()), outcome, now)
    if after or not job.after:
        return replace(job, after=after)
    return replace(job, after=(), queued_at=now)


def _update(job: JobRecord, event: ev.Updated, now: float) -> JobRecord:
    request = job.request
    if event.priority is not None:
        request = replace(request, priority=event.priority)
    if event.max_runtime_s is not None:
        request = replace(request, max_runtime_s=event.max_runtime_s)
        job = replace(job, revised_limit_s=event.max_runtime_s)
    return replace(job, request=request)


def _end_drain(job: JobRecord, event: ev.DrainEnded, now: float) -> JobRecord:
    attempt, last = _attempt(job), job.last
    assert last is not None
    undrained = [state for *_, state in attempt.each_host() if not state.drained]
    if undrained:
        why = next((f" ({state.unsent})" for state in undrained if state.unsent), "")
        last = replace(last, text=f"{last.text}; {_LATE_LOG}{why}")
    job = replace(
        job, past=(*job.past, _past_attempt(attempt, last, now))[-MAX_PAST:], attempt=None
    )
    if last.kind is OutcomeKind.PREEMPTED:
        job = replace(job, preemptions=job.preemptions + 1, preempted_at=now)
        return _requeue(job, 0.0, now) if job.resume else _end_unresumed(job, last, now)
    if last.kind is OutcomeKind.STOPPED:
        return _requeue(job, 0.0, now)
    if last.kind is OutcomeKind.LOST:
        if not job.resume:
            return _end_unresumed(job, last, now)
        return _requeue_lost(job, attempt, last, now)
    if last.kind in FAILURES and job.failures < job.retries:
        backoff_s = min(MAX_BACKOFF_S, job.retry_backoff_s * 2 ** min(job.failures, MAX_DOUBLINGS))
        return _requeue(replace(job, failures=job.failures + 1), backoff_s, now)
    return _finish(job, last, now)


def _end_unresumed(job: JobRecord, last: Outcome, now: float) -> JobRecord:
    """End a job with `resume=False`. `preempted` is not a final outcome, so `cancelled` is used."""
    if job.cancelled_by:
        return _requeue(job, 0.0, now)
    kind = OutcomeKind.CANCELLED if last.kind is OutcomeKind.PREEMPTED else last.kind
    return _finish(job, replace(last, kind=kind, text=f"{last.text}; it does not resume"), now)


def _requeue_lost(job: JobRecord, attempt: Attempt, last: Outcome, now: float) -> JobRecord:
    """Requeue a job that lost a machine, or end it after too many consecutive losses."""
    if _is_machine_fault(attempt):
        return _requeue_unstarted(job, last, now)
    job = replace(job, unstarted_in_row=0)
    ran_s = now - attempt.started_at if attempt.started_at is not None else 0.0
    good = attempt.checkpoint_at is not None or ran_s >= GOOD_RUN_S
    losses = 1 if good else job.losses_in_row + 1
    if losses >= MAX_LOSSES_IN_ROW:
        text = f"its machine was lost {losses} times in a row; the last time: {last.text}"
        return _finish(job, replace(last, text=text), now)
    return _requeue(replace(job, losses_in_row=losses), LOSS_BACKOFF_S * (losses - 1), now)


def _is_machine_fault(attempt: Attempt) -> bool:
    """Whether every loss of `attempt` is a fault of its machine, or nothing of it ever ran."""
    states = [state for _, _, _, state in attempt.each_host()]
    lost = [state.end for state in states if state.end is not None and state.end.kind == "lost"]
    if lost:
        return all(end.by_machine for end in lost)
    return attempt.started_at is None


def _requeue_unstarted(job: JobRecord, last: Outcome, now: float) -> JobRecord:
    """Requeue a job that its machine could not start. This does not count as a loss of the job."""
    times = job.unstarted_in_row + 1
    if times >= MAX_UNSTARTED_IN_ROW:
        text = f"machines could not start it {times} times in a row; the last time: {last.text}"
        return _finish(job, replace(last, text=text), now)
    backoff_s = LOSS_BACKOFF_S * min(times - 1, MAX_LOSSES_IN_ROW)
    return _requeue(replace(job, unstarted_in_row=times), backoff_s, now)


def _requeue(job: JobRecord, backoff_s: float, now: float) -> JobRecord:
    """Put the job back in the queue, or end it if a user has cancelled it."""
    if job.cancelled_by:
        text = f"cancelled by {job.cancelled_by}"
        return _finish(job, Outcome(kind=OutcomeKind.CANCELLED, text=text), now)
    return replace(job, phase=Phase.QUEUED, queued_at=now, not_before=now + backoff_s)


def _finish(job: JobRecord, outcome: Outcome, now: float) -> JobRecord:
    return replace(job, phase=Phase.DONE, attempt=None, outcome=outcome, ended_at=now)


def _past_attempt(attempt: Attempt, last: Outcome, now: float) -> PastAttempt:
    return PastAttempt(
        number=attempt.number,
        nonce=attempt.nonce,
        admitted_at=attempt.admitted_at,
        started_at=attempt.started_at,
        ended_at=now,
        kind=last.kind,
        code=last.code,
        machines=tuple(tuple(host.machine for host in r.hosts) for r in attempt.placement),
        failed_on=_failed_on(attempt, last) if last.kind in FAILURES else "",
        utilisation=attempt.utilisation,
    )


def _failed_on(attempt: Attempt, last: Outcome) -> str:
    """Return the machine of the host that failed first in the replica that decided the outcome."""
    first = attempt.first_failure
    if first is None or last.replica is None:
        return ""
    replica, host = first
    if replica != last.replica:  # a worker that failed earlier and decided nothing
        replica, hosts = last.replica, attempt.hosts[last.replica]
        host = next((h for h, each in enumerate(hosts) if each.end and failed_first(each.end)), 0)
    return attempt.placement[replica].hosts[host].machine


def _attempt(job: JobRecord) -> Attempt:
    assert job.attempt is not None, f"{job.id} is {job.phase} without an attempt"
    return job.attempt


def _with_host(job: JobRecord, r: int, h: int, **changes: Any) -> JobRecord:
    attempt = _attempt(job)
    replica = list(attempt.hosts[r])
    replica[h] = replace(replica[h], **changes)
    hosts = (*attempt.hosts[:r], tuple(replica), *attempt.hosts[r + 1 :])
    return replace(job, attempt=replace(attempt, hosts=hosts))


_LIVE = (Phase.STARTING, Phase.RUNNING)
"""Phases of an attempt that nothing has stopped."""
_ADMITTED = (*_LIVE, Phase.STOPPING)

TABLE: dict[tuple[Phase, type[ev.Event]], Callable[[JobRecord, Any, float], JobRecord]] = {
    (Phase.QUEUED, ev.Admitted): _admit,
    (Phase.QUEUED, ev.CancelWanted): _cancel_queued,
    (Phase.QUEUED, ev.HeldBack): _hold,
    (Phase.QUEUED, ev.Released): _release,
    (Phase.QUEUED, ev.DependenciesEnded): _apply_dependencies,
    (Phase.RUNNING, ev.Released): _release_held,
    **{(phase, ev.Updated): _update for phase in (Phase.QUEUED, *_LIVE)},
    **{(phase, ev.Reclassed): _set_class for phase in _ADMITTED},
    **{(phase, ev.Instructed): _record_start for phase in _LIVE},
    **{(phase, ev.StopInstructed): _record_stop for phase in _ADMITTED},
    **{(phase, ev.LimitInstructed): _record_limit for phase in _LIVE},
    **{(phase, ev.HostClaimed): _claim for phase in _ADMITTED},
    **{(phase, ev.HostPrepares): _record_setup for phase in _ADMITTED},
    **{(phase, ev.HostStarted): _start for phase in _ADMITTED},
    **{(phase, ev.HostCheckpointed): _record_checkpoint for phase in _ADMITTED},
    # Its end can be read before the bell with its last numbers.
    **{(phase, ev.HostReported): _record_report for phase in (*_ADMITTED, Phase.DRAINING)},
    **{(phase, ev.HostIdle): _record_idle for phase in _ADMITTED},
    **{(phase, ev.HostUnkept): _record_unkept for phase in (*_ADMITTED, Phase.DRAINING)},
    **{(phase, ev.HostHeld): _keep_host for phase in _ADMITTED},
    **{(phase, ev.HostEnded): _end_host for phase in _ADMITTED},
    **{(phase, ev.HostDrained): _drain_host for phase in (*_ADMITTED, Phase.DRAINING)},
    **{(phase, ev.GoWanted): _set_barrier("wanted") for phase in _LIVE},
    **{(phase, ev.GoGiven): _set_barrier("given") for phase in _ADMITTED},
    **{(phase, ev.GoRevoked): _set_barrier("revoked") for phase in _ADMITTED},
    (Phase.STARTING, ev.Withdrawn): _withdraw,
    (Phase.STARTING, ev.StopWanted): _stop,
    (Phase.RUNNING, ev.StopWanted): _stop,
    (Phase.STARTING, ev.CancelWanted): _cancel_running,
    (Phase.RUNNING, ev.CancelWanted): _cancel_running,
    (Phase.STOPPING, ev.CancelWanted): _cancel_ending,
    (Phase.DRAINING, ev.CancelWanted): _cancel_ending,
    (Phase.DONE, ev.CancelWanted): _ignore,
    (Phase.DRAINING, ev.DrainEnded): _end_drain,
    **{
        (Phase.DRAINING, late): _ignore
        for late in (
            ev.HostClaimed,
            ev.HostPrepares,
            ev.HostStarted,
            ev.HostCheckpointed,
            ev.HostIdle,
            ev.HostHeld,
            ev.HostEnded,
        )
    },
}
"""What each event does in each phase in which it can happen."""
