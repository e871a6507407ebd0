"""
The facts in a bell, applied to a draft as events.

A fact is applied once: the bells of a keeper life are numbered, and each fact names its attempt by
nonce, so a fact about an earlier attempt has no effect.

A machine is believed only about hosts that are placed on it. An end or a keeper life must also
exist in the bucket (`bastion.service.intake.proofs`), and resources count only up to what the pool
declares.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import assert_never

from bastion.errors import ForeignRecordError
from bastion.job import Hold
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
    HostUnkept,
)
from bastion.machine import Machine, MachinePhase, Pool
from bastion.records.coding.codec import decode
from bastion.records.reports.facts import (
    Bell,
    BootFailed,
    Checked,
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
    Interruption,
    Preparing,
    Reported,
    Started,
    Unkept,
)
from bastion.records.requests.inbox import Ringing
from bastion.service.draft.machines.health import checked, host_ended, interrupted, told_health
from bastion.service.draft.root_draft import Draft
from bastion.service.intake.proofs import Proof, has_host, placed
from bastion.spec.values.quantity import text_of_amounts
from bastion.value import replace

MOST_APART = 1000
"""The most facts of a bell that are decoded one by one: 0.1 s."""


def decoded(data: bytes, *, key: str, most_values: int) -> tuple[Bell, str]:
    """
    Return a bell with the facts in `data` that this version knows, and what is unknown.

    An agent may be newer than its bastion: facts that both know must not be lost.

    Raises:
        RecordError: It cannot be understood, or is of another schema.
    """
    try:
        return decode(Bell, data, key=key, most_values=most_values), ""
    except ForeignRecordError as error:
        told = json.loads(data)
        facts = told.get("facts")
        if not isinstance(facts, list) or len(facts) > MOST_APART:
            raise
        decode(Bell, json.dumps(told | {"facts": []}).encode(), key=key)
        known: list[Fact] = []
        for fact in facts:
            with suppress(ForeignRecordError):
                known += decode(Bell, json.dumps(told | {"facts": [fact]}).encode(), key=key).facts
        return Bell(facts=tuple(known)), f"{error.message}; the rest of it counts"


def apply_bell(
    draft: Draft, ringing: Ringing, bell: Bell, *, proof: Proof, pools: Mapping[str, Pool]
) -> None:
    """
    Apply the facts in `bell` that are new and that its machine is believed about.

    Args:
        draft: What they are applied to.
        ringing: The machine and the keeper life that sent it.
        bell: The facts.
        proof: Which of them the bucket confirms.
        pools: What machines can have.
    """
    machine, life = draft.machines.get(ringing.machine), ringing.life
    if machine is None or life < machine.life:
        return
    if life == machine.life and ringing.number <= machine.last_bell:
        return
    for fact in bell.facts:
        _apply(draft, ringing, fact, proof, pools)
    machine = draft.machines[ringing.machine]
    if machine.life == life:
        phase = machine.phase
        if phase is MachinePhase.SILENT:
            phase = MachinePhase.READY
        draft.put_machine(
            replace(machine, last_bell=ringing.number, heard_at=draft.now, phase=phase)
        )


def record_alive(draft: Draft, ringing: Ringing) -> None:
    """
    Record that a machine is alive, because its bell is listed, even if it cannot be read.

    The permit of the machine counts from its last bell, readable or not.
    """
    machine = draft.machines.get(ringing.machine)
    if machine is not None and machine.permit_s and ringing.life >= machine.life:
        draft.put_machine(replace(machine, heard_at=draft.now))


def apply_host_event(draft: Draft, of: HostFact, event: Event) -> None:
    """Apply `event` to the attempt that `of` names, if it is still the job's current attempt."""
    job = draft.jobs.get(of.job)
    if job is None or job.project != of.project or job.attempt is None:
        return
    is_current = job.attempt.nonce == of.nonce and has_host(job.attempt.hosts, of)
    if is_current and draft.can(of.job, event):
        draft.apply(of.job, event)


def _apply(
    draft: Draft, ringing: Ringing, fact: Fact, proof: Proof, pools: Mapping[str, Pool]
) -> None:
    machine = draft.machines[ringing.machine]
    match fact:
        case Hello():
            if ringing.life == machine.life or proof.is_life:
                _greet(draft, machine, ringing.life, fact, pools.get(machine.pool))
        case Health():
            _tell_health(draft, machine, fact)
            told_health(draft, machine.name, fact.unwell)
        case Interruption():
            interrupted(draft, machine.name, fact)
        case BootFailed(step=step, text=text):
            told_health(draft, machine.name, f"its {step} failed: {text}")
        case Checked():
            checked(draft, machine.name, fact)
        case Heartbeat():
            pass
        case Ended(of=of):
            end = proof.ends.get(of)
            if end is not None:
                apply_host_event(draft, of, HostEnded(replica=of.replica, host=of.host, end=end))
                host_ended(draft, machine.name, end)
        case Claimed(claim=claim) if claim.machine != machine.name:
            pass
        case _:
            if placed(draft.jobs.get(fact.of.job), fact.of, machine.name) is not None:
                apply_host_event(draft, fact.of, _event_of(fact, proof, draft.now))


def _tell_health(draft: Draft, machine: Machine, health: Health) -> None:
    """Record which devices of `machine` must not be used."""
    has = {
        kind: tuple(index for index in indices if index < machine.resources[kind])
        for kind, indices in health.bad_devices.items()
    }
    bad = {kind: indices for kind, indices in has.items() if indices}
    why = health.text if bad else ""
    if (bad, why) != (machine.bad_devices, machine.bad_text):
        draft.put_machine(replace(machine, bad_devices=bad, bad_text=why))
        text = f"{machine.name}: {health.text or 'all devices are well'}"
        draft.tell(what="machine health", text=text)


_HostFact = Claimed | Preparing | Started | Checkpointed | Reported | Idle | Unkept | Held | Drained


def _event_of(fact: _HostFact, proof: Proof, now: float) -> Event:
    """Return the event that a fact about a host means for its job."""
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
        case Unkept(text=text, is_log=is_log):
            return HostUnkept(replica=r, host=h, text=text, is_log=is_log)
        case Held(for_s=for_s, folder=folder, end=end):
            return HostHeld(replica=r, host=h, hold=Hold(until=now + for_s, folder=folder, end=end))
        case Drained():
            return HostDrained(replica=r, host=h, lacks_end=fact.of in proof.missing)
        case _:
            assert_never(fact)


def _greet(draft: Draft, machine: Machine, life: int, hello: Hello, pool: Pool | None) -> None:
    labels = {**machine.labels, **hello.labels}
    if life == machine.life and machine.phase is MachinePhase.READY:
        draft.put_machine(
            replace(machine, labels=labels, heartbeat_s=hello.heartbeat_s, build=hello.build)
        )
        return
    # The pool is no longer configured, so its machine keeps what it had before.
    resources = hello.resources & (pool.resources if pool is not None else machine.resources)
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
            unwell="" if machine.unwell_until is None else machine.unwell,
            resources=resources,
            address=hello.address,
            hostname=hello.hostname,
            labels=labels,
            heartbeat_s=hello.heartbeat_s,
            build=hello.build,
            upgrade_asked_at=None,
        )
    )
    more = (
        "" if resources == hello.resources else f"; it reports {text_of_amounts(hello.resources)}"
    )
    draft.tell(
        what="machine ready",
        text=f"{machine.name} ({text_of_amounts(resources)}), life {life}{more}",
    )
    if machine.build not in ("", hello.build):
        builds = f"{machine.build[:12]} to {hello.build[:12] or 'a folder'}"
        draft.tell(what="machine upgraded", text=f"{machine.name}: from build {builds}")
    _tell_steps(draft, machine, hello)


def _tell_steps(draft: Draft, machine: Machine, hello: Hello) -> None:
    """Record each step of a new machine, and how long they all took since its create."""
    for step in hello.steps:
        draft.tell(what=f"machine {step.name}", text=f"{machine.name}: {step.seconds:.1f} s")
    if hello.steps and not machine.life:
        took_s = max(0.0, draft.now - machine.created_at)
        draft.tell(what="machine greeted", text=f"{machine.name}: {took_s:.1f} s after its create")
