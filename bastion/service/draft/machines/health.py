"""
Machines that cannot start processes: found by their failed starts, or reported by their agents.

On a full disk every start fails immediately, so the machine is always free and would take the whole
queue job by job. After a few consecutive failed starts it gets no jobs for a pause, which doubles
each time. One successful start ends this.
"""

from __future__ import annotations

from dataclasses import replace

from bastion.job import End, Stop, StopReason
from bastion.lifecycle import StopWanted, suspect_of
from bastion.machine import Machine, MachinePhase
from bastion.records.reports.facts import Checked, Interruption, reclaimed_by
from bastion.service.draft.root_draft import Draft

MAX_FAILED_STARTS = 3
"""Consecutive failed starts that pause a machine. One or two may be caused by other jobs."""
PAUSE_S = 60.0
"""Length of the first pause; each further failed start doubles it."""
MAX_PAUSE_S = 1800.0
MAX_REASON_CHARACTERS = 300
_CHECKED = "its devices are loaded"
_TAKEN = "its cloud reclaims it"


def host_ended(draft: Draft, machine_name: str, end: End) -> None:
    """
    Count a failed start that `end` blames on the machine; a host that ran resets the count.

    A report that a host has started is not proof: creating its processes may fail after that.
    """
    machine = draft.machines[machine_name]
    if not end.by_machine:
        if end.kind == "exited" and machine.failed_starts:
            draft.put_machine(replace(machine, failed_starts=0))
        return
    times = machine.failed_starts + 1
    draft.put_machine(replace(machine, failed_starts=times))
    if times >= MAX_FAILED_STARTS and not _is_closed(machine):
        why = end.detail.removeprefix("its machine could not start it: ")
        pause_s = min(MAX_PAUSE_S, PAUSE_S * 2 ** min(times - MAX_FAILED_STARTS, 10))
        reason = f"could not start {times} jobs in a row: {why}"
        _stop_using(draft, machine_name, reason, until=draft.now + pause_s)


def cordon_suspect(draft: Draft, job_id: str) -> None:
    """Cordon the machine that is to blame for a job's ended attempts, if there is one."""
    suspect = suspect_of(draft.jobs[job_id].past)
    machine = draft.machines.get(suspect.machine) if suspect is not None else None
    if suspect is None or machine is None or machine.cordoned:
        return
    how = f"{suspect.kind} with code {suspect.code}" if suspect.code is not None else suspect.kind
    reason = (
        f"{job_id} {how} {suspect.times} times here and in none of {suspect.others}"
        f" {'attempt' if suspect.others == 1 else 'attempts'} elsewhere"
    )
    draft.tell(what="machine cordoned", text=f"{machine.name}: {reason}")
    draft.put_machine(replace(machine, cordoned=reason[:MAX_REASON_CHARACTERS]))


def interrupted(draft: Draft, machine_name: str, interruption: Interruption) -> None:
    """
    Start nothing more on a machine that its cloud reclaims, and preempt its running jobs.

    Agents have given their own hosts the notice. The other hosts of their jobs are elsewhere, and a
    gang ends as a whole. A reclaim that is only likely preempts nothing. An agent also reports the
    notice of a machine that the bastion itself deletes, which is no news.
    """
    when = f"in {interruption.in_s:.0f} s" if interruption.is_certain else "perhaps soon"
    said = f": {interruption.text}" if interruption.text else ""
    if draft.machines[machine_name].phase is not MachinePhase.DELETING:
        _stop_using(draft, machine_name, f"{_TAKEN} {when}{said}", until=None)
    if not interruption.is_certain:
        return
    stop = Stop(
        reason=StopReason.PREEMPT,
        at=draft.now,
        deadline=draft.now + interruption.in_s,
        by=reclaimed_by(machine_name),
    )
    for job in draft.working_jobs():
        is_here = job.attempt is not None and any(
            place.machine == machine_name and state.end is None
            for _, _, place, state in job.attempt.each_host()
        )
        if is_here and draft.can(job.id, StopWanted(stop=stop)):
            draft.apply(job.id, StopWanted(stop=stop))


def told_health(draft: Draft, machine_name: str, unwell: str) -> None:
    """
    Apply an agent's report that its machine cannot start processes, or that it can again.

    It ends only what an agent reported: no pause after failed starts, no check, and nothing that
    the cloud announced.
    """
    machine = draft.machines[machine_name]
    if machine.unwell.startswith(_TAKEN):
        return
    if unwell:
        _stop_using(draft, machine_name, unwell, until=None)
    elif _is_closed(machine):
        _use_again(draft, machine_name, failed_starts=0)


def _is_closed(machine: Machine) -> bool:
    """Whether nothing is started there until its agent or its cloud says otherwise."""
    return bool(machine.unwell) and machine.unwell_until is None


def close_for_check(draft: Draft, machine_name: str, by: str, *, for_s: float) -> None:
    """
    Start nothing on a machine while its devices are loaded; for `for_s` if no report arrives.

    What its agent reported stays in force: the end of a load says nothing about it.
    """
    if not _is_closed(draft.machines[machine_name]):
        _stop_using(draft, machine_name, f"{_CHECKED} for {by}", until=draft.now + for_s)


def checked(draft: Draft, machine_name: str, fact: Checked) -> None:
    """Open a machine again after its check, or cordon it if something is wrong with it."""
    machine = draft.machines[machine_name]
    if machine.unwell.startswith(_CHECKED):
        _use_again(draft, machine_name, failed_starts=machine.failed_starts)
        machine = draft.machines[machine_name]
    said = fact.problem or fact.undone or "all is well"
    draft.tell(what="machine checked", text=f"{machine_name}: {fact.by}: {said}")
    if fact.by == "burn" and fact.problem and not machine.cordoned:
        reason = _line(f"{fact.by}: {fact.problem}")
        draft.tell(what="machine cordoned", text=f"{machine_name}: {reason}")
        draft.put_machine(replace(machine, cordoned=reason))


def try_again(draft: Draft) -> None:
    """Reopen machines whose pause is over; their next start shows whether they are well."""
    for machine in tuple(draft.machines.values()):
        if machine.unwell_until is not None and draft.now >= machine.unwell_until:
            _use_again(draft, machine.name, failed_starts=machine.failed_starts)


def _stop_using(draft: Draft, machine_name: str, reason: str, *, until: float | None) -> None:
    machine = draft.machines[machine_name]
    reason = _line(reason)
    if machine.unwell != reason:
        draft.tell(what="machine unwell", text=f"{machine_name}: {reason}")
    draft.put_machine(replace(machine, unwell=reason, unwell_until=until))


def _use_again(draft: Draft, machine_name: str, *, failed_starts: int) -> None:
    machine = draft.machines[machine_name]
    draft.tell(what="machine well", text=f"{machine_name} may start jobs again")
    draft.put_machine(replace(machine, unwell="", unwell_until=None, failed_starts=failed_starts))


def _line(reason: str) -> str:
    """Return `reason` as one line of a table: programs print several lines."""
    return " ".join(reason.split())[:MAX_REASON_CHARACTERS]
