"""
Machines that can start nothing: found by what they fail at, or told by their agents.

A full disk fails every job alike, and its machine is always the free one: it would take one job
after the other of a queue. After a few failed starts in a row it takes none, for a while that
doubles; one start that succeeds makes it well again.
"""

from __future__ import annotations

from dataclasses import replace

from bastion.job import End
from bastion.service.draft.root_draft import Draft

MAX_FAILED_STARTS = 3
"""Starts in a row that a machine may fail: one or two may be the doing of jobs that ended."""
PAUSE_S = 60.0
"""How long a machine starts nothing after that many; twice as long after each further one."""
MAX_PAUSE_S = 1800.0
MAX_REASON_CHARACTERS = 300


def host_ended(draft: Draft, machine_name: str, end: End) -> None:
    """
    Count a host that its machine could not start, if `end` says so; one that ran makes it well.

    That a host is told to have started says less: its processes may fail to be made after that.
    """
    machine = draft.machines[machine_name]
    if not end.by_machine:
        if end.kind == "exited" and machine.failed_starts:
            draft.put_machine(replace(machine, failed_starts=0))
        return
    times = machine.failed_starts + 1
    draft.put_machine(replace(machine, failed_starts=times))
    if times >= MAX_FAILED_STARTS:
        why = end.detail.removeprefix("its machine could not start it: ")
        pause_s = min(MAX_PAUSE_S, PAUSE_S * 2 ** min(times - MAX_FAILED_STARTS, 10))
        reason = f"could not start {times} jobs in a row: {why}"
        _stop_using(draft, machine_name, reason, until=draft.now + pause_s)


def told_health(draft: Draft, machine_name: str, unwell: str) -> None:
    """Take the word of a machine's agent that it can start nothing, or that it can again."""
    machine = draft.machines[machine_name]
    if unwell:
        _stop_using(draft, machine_name, unwell, until=None)
    elif machine.unwell:
        _use_again(draft, machine_name, failed_starts=0)


def try_again(draft: Draft) -> None:
    """Use machines again whose pause is over: the next start shows whether they are well."""
    for machine in tuple(draft.machines.values()):
        if machine.unwell_until is not None and draft.now >= machine.unwell_until:
            _use_again(draft, machine.name, failed_starts=machine.failed_starts)


def _stop_using(draft: Draft, machine_name: str, reason: str, *, until: float | None) -> None:
    machine = draft.machines[machine_name]
    reason = reason[:MAX_REASON_CHARACTERS]
    if machine.unwell != reason:
        draft.tell(what="machine unwell", text=f"{machine_name}: {reason}")
    draft.put_machine(replace(machine, unwell=reason, unwell_until=until))


def _use_again(draft: Draft, machine_name: str, *, failed_starts: int) -> None:
    machine = draft.machines[machine_name]
    draft.tell(what="machine well", text=f"{machine_name} may start jobs again")
    draft.put_machine(replace(machine, unwell="", unwell_until=None, failed_starts=failed_starts))
