"""
From what agents tell to what happened: bells applied to a draft.

A fact is applied once: bells of a keeper life carry numbers, and each names the attempt by its
nonce, so that one of an attempt that is over means nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from bastion.job import HostState
from bastion.lifecycle import (
    Event,
    HostCheckpointed,
    HostClaimed,
    HostDrained,
    HostEnded,
    HostReported,
    HostStarted,
)
from bastion.machine import Machine, MachinePhase
from bastion.records.facts import (
    Bell,
    Checkpointed,
    Claimed,
    Drained,
    Ended,
    Fact,
    Health,
    Heartbeat,
    Hello,
    HostFact,
    Reported,
    Started,
)
from bastion.service.draft import Draft


def apply_bell(draft: Draft, machine_name: str, life: int, number: int, bell: Bell) -> None:
    """Let everything in `bell` happen, unless it did already."""
    machine = draft.machines.get(machine_name)
    if machine is None or life < machine.life:
        return
    if life == machine.life and number <= machine.last_bell:
        return
    for fact in bell.facts:
        _apply(draft, machine_name, life, fact)
    machine = draft.machines[machine_name]
    if machine.life == life:
        draft.put_machine(replace(machine, last_bell=number, heard_at=draft.now))


def happen(draft: Draft, of: HostFact, event: Event) -> None:
    """Let `event` happen to the attempt that `of` names, if that is still the job's attempt."""
    job = draft.jobs.get(of.job)
    if job is None or job.project != of.project or job.attempt is None:
        return
    is_current = job.attempt.nonce == of.nonce and _has_host(job.attempt.hosts, of)
    if is_current and draft.can(of.job, event):
        draft.apply(of.job, event)


def _apply(draft: Draft, machine_name: str, life: int, fact: Fact) -> None:
    machine = draft.machines[machine_name]
    match fact:
        case Hello():
            _greet(draft, machine, life, fact)
        case Health():
            bad = {kind: tuple(indices) for kind, indices in fact.bad_devices.items() if indices}
            if bad != machine.bad_devices:
                draft.put_machine(replace(machine, bad_devices=bad))
                text = f"{machine.name}: {fact.text or 'all devices are well'}"
                draft.tell(what="machine health", text=text)
        case Heartbeat():
            pass
        case Claimed(of=of, claim=claim):
            happen(draft, of, HostClaimed(replica=of.replica, host=of.host, claim=claim))
        case Started(of=of):
            happen(draft, of, HostStarted(replica=of.replica, host=of.host))
        case Checkpointed(of=of):
            happen(draft, of, HostCheckpointed(replica=of.replica, host=of.host))
        case Reported(of=of, numbers=numbers):
            reported = HostReported(replica=of.replica, host=of.host, numbers=numbers)
            happen(draft, of, reported)
        case Ended(of=of, end=end):
            happen(draft, of, HostEnded(replica=of.replica, host=of.host, end=end))
        case Drained(of=of):
            happen(draft, of, HostDrained(replica=of.replica, host=of.host))
        case _:
            assert_never(fact)


def _greet(draft: Draft, machine: Machine, life: int, hello: Hello) -> None:
    labels = {**machine.labels, **hello.labels}
    if life == machine.life and machine.phase is MachinePhase.READY:
        if labels != machine.labels:
            draft.put_machine(replace(machine, labels=labels))
        return
    batches = machine.batches if life == machine.life else 0
    phase = machine.phase
    if phase in (MachinePhase.CREATING, MachinePhase.SILENT):
        phase = MachinePhase.READY
    draft.put_machine(
        replace(
            machine,
            phase=phase,
            life=life,
            batches=batches,
            outgoing=machine.outgoing if life == machine.life else (),
            last_bell=machine.last_bell if life == machine.life else -1,
            resources=hello.resources,
            address=hello.address,
            hostname=hello.hostname,
            labels=labels,
        )
    )
    draft.tell(what="machine ready", text=f"{machine.name} ({hello.resources}), life {life}")


def _has_host(hosts: tuple[tuple[HostState, ...], ...], of: HostFact) -> bool:
    return 0 <= of.replica < len(hosts) and 0 <= of.host < len(hosts[of.replica])
