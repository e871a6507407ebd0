"""Remarks on an admitted job: what its start waits for, or which host looks hung or is held."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType

from bastion.job import Attempt, HostPlace, HostState, JobRecord, Phase
from bastion.lifecycle.outcome import failed_text, failure_text, unkept_text
from bastion.machine import Machine, MachinePhase
from bastion.spec.values.quantity import text_of_seconds

SILENT_S = 120.0
"""Four heartbeats of a machine that its provider does not list as running."""


def remark(job: JobRecord) -> str:
    """
    Return the most important remark on `job`, or an empty string.

    In this order: the outcome while its logs drain; where a failed host is held and until when;
    which host is over although its end is missing; which host looks hung; what delays its start, or
    which replicas have failed while others run, and why its output is not kept. The remark names
    the host if the job has more than one replica.
    """
    if job.phase is Phase.DRAINING and job.last is not None:
        return f"{job.last.text}; its last logs and output are being uploaded"
    if job.kept:
        first = (job.attempt.first_failure or (-1, -1))[0] if job.attempt is not None else -1
        replica, place, hold = max(job.kept, key=lambda each: (each[0] == first, each[2].until))
        where = f"replica {replica}: " if job.request.replicas > 1 else ""
        until = datetime.fromtimestamp(hold.until, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return (
            f"{where}{failure_text(hold.end)}; held for inspection until {until}"
            f" on machine {place.machine} in {hold.folder}; bastion release {job.id} ends it"
        )
    each = job.attempt.each_host() if job.attempt is not None else ()
    hosts = [(r, place, state) for r, _, place, state in each if state.end is None]
    over = [(r, place) for r, place, state in hosts if state.over_at is not None]
    if over:
        where = f"replica {over[0][0]} " if job.request.replicas > 1 else "it "
        return (
            f"{where}ended on machine {over[0][1].machine}, but its end record is missing from the"
            " bucket"
        )
    idle = [(r, state.idle) for r, _, state in hosts if state.idle]
    if not idle:
        if job.phase is Phase.STARTING or job.attempt is None:
            return _setup_remark(hosts)
        told = (failed_text(job.attempt) if hosts else "", unkept_text(job.attempt))
        return "; ".join(filter(None, told))
    replica, text = idle[0]
    where = f"replica {replica} shows " if job.request.replicas > 1 else "it shows "
    return f"{where}{text}{_others(len(idle) - 1, 'host')}"


def trouble(
    job: JobRecord,
    machines: Mapping[str, Machine],
    now: float,
    unmade: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """
    Return which machine keeps `job` from starting or stopping, and why, or an empty string.

    `unmade` maps machines that their provider cannot create now to the reason. A machine is
    reported as silent while an instruction to it has no response, and when its agent is overdue to
    ring.
    """
    if job.attempt is not None and job.phase is Phase.RUNNING:
        return _silence(job.attempt, machines, now)
    if job.attempt is None or job.phase not in (Phase.STARTING, Phase.STOPPING):
        return ""
    for _, _, place, state in job.attempt.each_host():
        machine = machines.get(place.machine)
        if machine is not None and machine.waits and job.phase is Phase.STARTING:
            return (
                f"waits for machine {machine.name}, which is pending at its provider:"
                f" {machine.waits}"
            )
        if machine is not None and machine.stuck and job.phase is Phase.STARTING:
            return f"waits for machine {machine.name}, which is not up yet: {machine.stuck}"
        why = unmade.get(place.machine, "")
        if why and job.phase is Phase.STARTING:
            return f"waits for machine {place.machine}, which is not created yet: {why}"
        if machine is None or state.end is not None or not state.instructed:
            continue
        if machine.unwell:
            return f"waits for machine {machine.name}, which is unwell: {machine.unwell}"
        silent_s = now - max(machine.heard_at, job.attempt.admitted_at)
        is_unanswered = state.claim is None or job.phase is Phase.STOPPING
        if is_unanswered and silent_s > SILENT_S:
            silence = text_of_seconds(float(int(silent_s)))
            return f"waits for machine {machine.name}, which has not answered for {silence}"
    return ""


def _silence(attempt: Attempt, machines: Mapping[str, Machine], now: float) -> str:
    for _, _, place, state in attempt.each_host():
        machine = machines.get(place.machine)
        if machine is None or state.end is not None:
            continue
        if machine.phase is MachinePhase.SILENT or machine.is_overdue(now):
            heard = text_of_seconds(float(int(now - machine.heard_at)))
            return f"runs on machine {machine.name}, whose agent was last heard from {heard} ago"
    return ""


def _setup_remark(hosts: list[tuple[int, HostPlace, HostState]]) -> str:
    absent = sorted({place.machine for _, place, state in hosts if not state.instructed})
    if absent:
        more = _others(len(absent) - 1, "machine")
        return f"waits for machine {absent[0]}, which is not up yet{more}"
    busy = [(r, state.preparing) for r, _, state in hosts if state.preparing]
    if not busy:
        return ""
    replica, text = busy[0]
    where = f"replica {replica}: " if len(hosts) > 1 else ""
    return f"{where}{text}{_others(len(busy) - 1, 'host')}"


def _others(number: int, what: str) -> str:
    return f"; likewise {number} more {what}{'s' if number > 1 else ''}" if number else ""
