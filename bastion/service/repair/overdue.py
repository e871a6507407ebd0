"""
Overdue starts and ends: starts that no agent claimed, and claims without an `end`.

Either leaves a job waiting without end, or a hole in its history. Both are found in a `Survey` by
the registers of an attempt. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Iterator

from bastion.job import HostState
from bastion.machine import Machine
from bastion.records.keys import layout
from bastion.records.keys.layout import RegisterName
from bastion.records.reports.registers import ClaimRegister
from bastion.service.act.bucket_gc import DAY_S, KEEP_S
from bastion.service.repair.survey import Survey

LONG_S = 900.0
"""
A request, a bell or an instruction this old is overdue: leaders and agents poll every few seconds,
and a request for an unknown job waits ten minutes.
"""

Broken = Iterator[tuple[str, str]]
"""(key, what is wrong with it)"""


def unclaimed(seen: Survey) -> Broken:
    """Yield hosts with an old start instruction that their live agent never claimed."""
    for job in seen.root.jobs.values():
        attempt = job.attempt
        if attempt is None or attempt.stop is not None or not job.is_admitted:
            continue
        for replica, host, place, state in attempt.each_host():
            key = layout.claim(
                job.project, job.id, attempt.number, attempt.nonce,
                replica=replica, host=host, machine=place.machine,
            )  # fmt: skip
            machine = seen.root.machines.get(place.machine)
            if state.claim or state.end or machine is None or key in seen.written:
                continue
            waited_s = seen.now - max(attempt.admitted_at, _instructed_at(seen, machine))
            if state.instructed == machine.life and waited_s > LONG_S:
                minutes = f"{waited_s / 60:.0f} minutes"
                yield key, f"not claimed, though {machine.name} was to start it {minutes} ago"


def endless(seen: Survey) -> Broken:
    """Yield claims and logs of attempts that are over and have no `end`."""
    ends, claimed = set(), set()
    for key in seen.written:
        name = layout.parse_register(key)
        if name is not None and name.kind == "end":
            ends.add(_host_of(name))
        elif name is not None and name.kind == "claim":
            claimed.add(_host_of(name))
    for key, register in seen.registers.items():
        name = layout.parse_register(key)
        if name is None or not isinstance(register, ClaimRegister) or register.claim is None:
            continue
        if _host_of(name) not in ends and (why := _why_over(seen, name, register)):
            yield (
                layout.end_beside(key),
                f"{register.claim.machine} claimed it, {why}, and there is no end record",
            )
    for prefix in seen.logs:
        stream = layout.parse_log(f"{prefix}0.log")
        _, project, job, *_ = prefix.split("/")
        if stream is None or not _ended_lately(seen, project, job):
            continue
        at = (project, job, stream.attempt, stream.replica, stream.host)
        if at not in ends and at not in claimed:
            yield prefix, "the job has ended and left this log, but has neither claim nor end"


def _why_over(seen: Survey, name: RegisterName, register: ClaimRegister) -> str:
    """Return why there should be an end by now, or an empty string."""
    if (name.project, name.job) in seen.results:
        return "its job has ended"
    job = seen.root.jobs.get(name.job)
    if job is None:
        return ""
    if job.attempt is None or job.attempt.nonce != name.nonce:
        return "its attempt is over" if job.attempts >= name.attempt else ""
    assert register.claim is not None
    machine = seen.root.machines.get(register.claim.machine)
    state = _state(job.attempt.hosts, name)
    if machine is None or state is None or state.end is not None:
        return ""
    stop = job.attempt.stop
    late_s = seen.now - stop.deadline if stop is not None else 0.0
    if late_s > LONG_S:
        return f"its kill was due {late_s / 60:.0f} minutes ago"
    since_s = seen.now - _instructed_at(seen, machine)
    if register.claim.life < machine.life and since_s > LONG_S:
        return f"keeper life {machine.life} has followed its life {register.claim.life}"
    return ""


def _state(hosts: tuple[tuple[HostState, ...], ...], name: RegisterName) -> HostState | None:
    if name.replica < len(hosts) and name.host < len(hosts[name.replica]):
        return hosts[name.replica][name.host]
    return None


def _instructed_at(seen: Survey, machine: Machine) -> float:
    """Return when the oldest instructions to the life of `machine` were written, or now."""
    return seen.instructed_since.get((machine.name, machine.life), seen.now)


def _ended_lately(seen: Survey, project: str, job: str) -> bool:
    """Whether the job has ended and its registers are not yet collected."""
    ended_at = seen.written.get(layout.result(project, job))
    return ended_at is not None and seen.now - ended_at < KEEP_S - DAY_S


def _host_of(name: RegisterName) -> tuple[str, str, int, int, int]:
    return name.project, name.job, name.attempt, name.replica, name.host
