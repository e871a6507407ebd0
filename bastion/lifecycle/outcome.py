"""
How an attempt ended: one table from the reports of its hosts and the stop requested earlier.

| report of the hosts                               | requested    | outcome                       |
|---------------------------------------------------|--------------|-------------------------------|
| no end, the machine is gone                       | anything     | lost (next attempt, or lost)  |
| set-up, bundle, image or secret failed            | anything     | setup_failed                  |
| killed by the memory limit                        | anything     | out_of_memory                 |
| stopped as idle, not *finished*                   | anything     | failed; stays so              |
| one exited non-zero or by a signal, before notice | anything     | failed; stays so              |
| exited after the time limit's notice              | time limit   | timed_out                     |
| exited after a cancel notice, or never started    | cancel       | cancelled                     |
| exited after a preemption notice, not *finished*  | preempt      | preempted, requeued           |
| exited after another job of the launch failed     | -            | stopped, requeued             |
| the first replica succeeded, and it decides       | anything     | succeeded                     |
| never started, its machines were not created      | no machines  | stopped, requeued             |
| exited long ago, and its end was deleted unread   | end missing  | lost (next attempt, or lost)  |
| all exited 0 before any notice, or *finished*     | anything     | succeeded                     |

A replica that was stopped because of a sibling is never the cause. If the first replica decides,
nothing else counts once it has succeeded. With `on_failure="continue"`, a failure of another
replica does not count either; the text only mentions it. A lost machine takes precedence over a
failure: the replicas that communicate with it fail within seconds, long before the loss is known.
The text mentions a failed clean-up (`on_end`), bytes missing from the logs and output that was not
kept; they do not change the outcome.
"""

from __future__ import annotations

import math
import signal

from bastion.job import (
    FAILURES,
    Attempt,
    End,
    HostState,
    JobRecord,
    Outcome,
    OutcomeKind,
    StopReason,
)
from bastion.spec.values.quantity import text_of_seconds
from bastion.value import replace

_DETAIL_CHARACTERS = 300


def outcome_of(job: JobRecord, attempt: Attempt) -> Outcome:
    """Return how `attempt` of `job` ended. All of its hosts must have ended."""
    ends = [(r, state.end) for r, _, _, state in attempt.each_host() if state.end is not None]
    outcome = _outcome(job, attempt, ends)
    if beside := _failed_beside(job, attempt, outcome):
        outcome = replace(outcome, text=f"{outcome.text}; {beside}")
    untidy = next((end.on_end for _, end in ends if end.on_end), "")
    if untidy:
        outcome = replace(outcome, text=f"{outcome.text}; its on_end {untidy}")
    dropped = sum(max(0, end.dropped_bytes) for _, end in ends)
    if dropped:
        text = f"{outcome.text}; {dropped:,} bytes of its output are missing from its log"
        outcome = replace(outcome, text=text, dropped_bytes=dropped)
    unkept = unkept_text(attempt)
    return replace(outcome, text=f"{outcome.text}; {unkept}") if unkept else outcome


def unkept_text(attempt: Attempt) -> str:
    """Return why the first host with unkept output did not keep it; empty if all output is kept."""
    told = ((r, state.unkept) for r, _, _, state in attempt.each_host() if state.unkept)
    replica, why = next(told, (0, ""))
    where = f" of replica {replica}" if len(attempt.placement) > 1 else ""
    return f"the output{where} is not kept: {why}" if why else ""


def unkept_news(before: Attempt | None, after: Attempt | None) -> str:
    """Return what happened to the output since `before`; empty if nothing is new."""
    if before is None or after is None or unkept_text(before) == unkept_text(after):
        return ""
    return unkept_text(after) or "its output is kept again"


def kept_outcome(job: JobRecord) -> Outcome | None:
    """Return the outcome of `job` once its held hosts end; None while another host runs."""
    if job.attempt is None or not job.is_kept:
        return None
    hosts = tuple(
        tuple(host if host.end is not None else replace(host, end=_held_end(host)) for host in each)
        for each in job.attempt.hosts
    )
    outcome = outcome_of(job, replace(job.attempt, hosts=hosts))
    return outcome if outcome.kind in FAILURES else None


def _held_end(host: HostState) -> End | None:
    return host.hold.end if host.hold is not None else None


def _outcome(job: JobRecord, attempt: Attempt, ends: list[tuple[int, End]]) -> Outcome:
    if job.first_decides and first_succeeded(attempt):
        return Outcome(kind=OutcomeKind.SUCCEEDED, text=_first_text(attempt), code=0)
    lost = [(r, end) for r, end in ends if end.kind == "lost"]
    if lost:
        return _lost(attempt, lost)
    deciding = ends if job.stops_others or not job.first_decides else _of_first(ends)
    own = _own_failure(attempt, deciding)
    if own is not None:
        return own
    stopped = [end for _, end in ends if _was_stopped(end)]
    if not stopped or all(end.finished for end in stopped):
        return Outcome(kind=OutcomeKind.SUCCEEDED, text=_succeeded_text(attempt), code=0)
    return _stopped(job, attempt, stopped)


def failed_first(end: End) -> bool:
    """Whether this host failed on its own: it was neither stopped nor lost."""
    if _was_hung(end):
        return True
    return end.kind == "setup_failed" or end.out_of_memory or end.first_failed is not None


def first_succeeded(attempt: Attempt) -> bool:
    """Whether every host of the first replica has ended successfully on its own."""
    return all(state.end is not None and _is_success(state.end) for state in attempt.hosts[0])


def first_failed(attempt: Attempt) -> bool:
    """Whether a host of the first replica has failed on its own."""
    return any(state.end is not None and failed_first(state.end) for state in attempt.hosts[0])


def _is_success(end: End) -> bool:
    if end.kind != "exited" or failed_first(end):
        return False
    return end.finished or not _was_stopped(end)


def _of_first(ends: list[tuple[int, End]]) -> list[tuple[int, End]]:
    return [(r, end) for r, end in ends if r == 0]


def _was_hung(end: End) -> bool:
    return end.notice == StopReason.IDLE and not end.finished


def _own_failure(attempt: Attempt, ends: list[tuple[int, End]]) -> Outcome | None:
    failures = [(r, end) for r, end in ends if failed_first(end)]
    if not failures:
        return None
    first = attempt.first_failure
    r, end = next((f for f in failures if first and f[0] == first[0]), failures[0])
    where = f"replica {r}: " if len(attempt.placement) > 1 else ""
    kind = OutcomeKind.FAILED
    if end.kind == "setup_failed":
        kind = OutcomeKind.SETUP_FAILED
    elif end.out_of_memory:
        kind = OutcomeKind.OUT_OF_MEMORY
    return Outcome(kind=kind, text=f"{where}{failure_text(end)}", code=_code(end), replica=r)


def _failed_beside(job: JobRecord, attempt: Attempt, outcome: Outcome) -> str:
    """
    Return which replicas failed on their own, without deciding, while the first one ran; or empty.

    A later failure may only be a result of the first one's end.
    """
    if not job.first_decides or job.stops_others:
        return ""
    until = max(state.ended_at or 0.0 for state in attempt.hosts[0])
    return failed_text(attempt, until=until, apart_from=outcome.replica)


def failed_text(attempt: Attempt, *, until: float = math.inf, apart_from: int | None = None) -> str:
    """Return which replicas had failed on their own by `until`, and how the first of them did."""
    failed = {
        r: state.end
        for r, _, _, state in reversed(list(attempt.each_host()))
        if state.end is not None and failed_first(state.end) and (state.ended_at or 0.0) <= until
    }
    if apart_from is not None:
        failed.pop(apart_from, None)
    if not failed:
        return ""
    r = min(failed)
    more = f", and {len(failed) - 1} more failed" if len(failed) > 1 else ""
    return f"replica {r} failed: {failure_text(failed[r])}{more}"


def _code(end: End) -> int | None:
    """Return the exit code of the process that failed first, or None."""
    return end.codes[end.first_failed] if end.first_failed is not None else None


def failure_text(end: End) -> str:
    """Return how a host failed, in words. It must have failed on its own (`failed_first`)."""
    if _was_hung(end):
        return end.detail
    if end.kind == "setup_failed":
        return f"set-up failed: {_last_lines(end)}"
    if end.out_of_memory:
        return "killed by its memory limit"
    process = f"process {end.first_failed} " if len(end.codes) > 1 else ""
    said = f": {_last_lines(end)}" if end.detail else ""
    return f"{process}{exit_text(_code(end))}{said}"


def exit_text(code: int | None) -> str:
    """Return an exit code in words; a negative code is a signal."""
    if code is None:
        return "exited with an unknown code"
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def _last_lines(end: End) -> str:
    lines = [line.strip() for line in end.detail.strip().splitlines() if line.strip()]
    last = lines[-1] if lines else "no output"
    return last if len(last) <= _DETAIL_CHARACTERS else f"…{last[1 - _DETAIL_CHARACTERS :]}"


def _lost(attempt: Attempt, lost: list[tuple[int, End]]) -> Outcome:
    r, end = lost[0]
    machine = attempt.placement[r].hosts[0].machine
    text = end.detail or f"machine {machine} was lost while replica {r} was on it"
    return Outcome(kind=OutcomeKind.LOST, text=text, replica=r)


def _was_stopped(end: End) -> bool:
    return bool(end.notice) or end.kind == "revoked" or not end.codes


def _stopped(job: JobRecord, attempt: Attempt, stopped: list[End]) -> Outcome:
    words = {end.notice for end in stopped if end.notice}
    asked = attempt.stop.reason if attempt.stop is not None else None
    reason = next((word for word in StopReason if word.value in words), asked)
    by = attempt.stop.by if attempt.stop is not None else ""
    if job.cancelled_by or reason is StopReason.CANCEL:
        text = f"cancelled by {job.cancelled_by or by}"
        return Outcome(kind=OutcomeKind.CANCELLED, text=text)
    if reason is StopReason.TIME_LIMIT:
        limit = job.request.max_runtime_s
        limit_text = f" of {text_of_seconds(limit)}" if limit is not None else ""
        text = f"reached its max_runtime{limit_text}"
        return Outcome(kind=OutcomeKind.TIMED_OUT, text=text)
    if reason is StopReason.PREEMPT:
        text = f"preempted for {by}" if by else "preempted"
        return Outcome(kind=OutcomeKind.PREEMPTED, text=text)
    if reason is StopReason.RESIZE:
        return Outcome(kind=OutcomeKind.STOPPED, text=f"stopped to grow: {by} replicas")
    if reason is StopReason.SIBLING:
        return Outcome(kind=OutcomeKind.STOPPED, text=f"stopped because {by} failed")
    if reason is StopReason.NO_MACHINES:
        return Outcome(kind=OutcomeKind.STOPPED, text=f"its machines could not be created: {by}")
    if reason is StopReason.END_MISSING:
        return Outcome(kind=OutcomeKind.LOST, text=f"how it ended is not known: {by}")
    text = f"stopped: {reason.value if reason else 'for an unknown reason'}" + (
        f" ({by})" if by else ""
    )
    return Outcome(kind=OutcomeKind.LOST, text=text)


def _first_text(attempt: Attempt) -> str:
    """Return how the first replica succeeded, and whether the others were stopped."""
    ends = [state.end for replica in attempt.hosts[1:] for state in replica]
    if any(end is None or end.notice == StopReason.FINISHED for end in ends):
        return "its first replica succeeded, and the others were stopped"
    return "its first replica succeeded"


def _succeeded_text(attempt: Attempt) -> str:
    n = len(attempt.placement)
    which = {1: "", 2: "both replicas "}.get(n, f"all {n} replicas ")
    return f"{which}exited with code 0"
