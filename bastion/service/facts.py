"""
From what agents tell to what happened: bells applied to a draft.

A fact is applied once: bells of a keeper life carry numbers, and each names the attempt by its
nonce, so that one of an attempt that is over means nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from bastion.job import Hold, HostState
from bastion.lifecycle import (
    Event,
    HostCheckpointed,
    HostClaimed,
    HostDrained,
    HostEnded,
    HostHeld,
    HostIdle,
    HostPrepares,
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
    Held,
    Hello,
    HostFact,
    Idle,
    Preparing,
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
        case _:
            happen(draft, fact.of, _event_of(fact, draft.now))


_HostFact = Claimed | Preparing | Started | Checkpointed | Reported | Idle | Held | Ended | Drained


def _event_of(fact: _HostFact, now: float) -> Event:
    """What happened to the job by what is told of its host."""
    r, h = fact.of.replica, fact.of.host
    match fact:
        case Claimed(claim=claim):
            return HostClaimed(replica=r, host=h, claim=claim)
        case Preparing(text=text):
            return HostPrepares(replica=r, host=h, text=text)
        case Started():
            return HostStarted(replica=r, host=h)
        case Checkpointed():
            return HostCheckpointed(replica=r, host=h)
        case Reported(numbers=numbers):
            return HostReported(replica=r, host=h, numbers=numbers)
        case Idle(text=text):
            return HostIdle(replica=r, host=h, text=text)
        case Held(for_s=for_s, folder=folder, end=end):
            return HostHeld(replica=r, host=h, hold=Hold(until=now + for_s, folder=folder, end=end))
        case Ended(end=end):
            return HostEnded(replica=r, host=h, end=end)
        case Drained():
            return HostDrained(replica=r, host=h)
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
