"""What is wrong with a machine that is out of use, or has unusable devices."""

from __future__ import annotations

from collections.abc import Iterable

from bastion.machine import MachinePhase
from bastion.scheduler.placement.room import Room
from bastion.scheduler.reasons.outage import Cause, Outage
from quota.amounts import Amounts


def outage_of(room: Room, types: Iterable[str]) -> Outage:
    """Return what is wrong with `room`, which is closed or has lost devices of `types`."""
    machine = room.machine
    if machine.draining:
        cause: Cause = "draining" if machine.drained_at is None else "drained"
        return Outage(machine=machine.name, cause=cause, why=machine.cordoned)
    if machine.cordoned:
        return Outage(machine=machine.name, cause="cordoned", why=machine.cordoned)
    if machine.unwell:
        return Outage(machine=machine.name, cause="unwell", why=machine.unwell)
    if machine.phase is MachinePhase.SILENT:
        return Outage(machine=machine.name, cause="silent", heard_at=machine.heard_at or None)
    if machine.phase is MachinePhase.DELETING:
        return Outage(machine=machine.name, cause="deleting")
    units = Amounts({t: room.lost(t) for t in types if room.lost(t)})
    host = machine.zone if machine.permit_s else ""
    return Outage(
        machine=machine.name, host=host, cause="devices", why=machine.bad_text, units=units
    )
