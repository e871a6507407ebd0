"""Facts about a machine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bastion.machine import Machine, MachinePhase

READY = Machine(name="gpu-1-0", pool="gpu", phase=MachinePhase.READY)


@pytest.mark.parametrize("phase", [MachinePhase.CREATING, MachinePhase.READY])
def test_a_creating_or_ready_machine_accepts_jobs(phase: MachinePhase) -> None:
    """A new job may be placed on a machine that is ready or being created."""
    assert replace(READY, phase=phase).accepts


@pytest.mark.parametrize(
    "machine",
    [
        replace(READY, phase=MachinePhase.DELETING),
        replace(READY, phase=MachinePhase.SILENT),
        replace(READY, cordoned="XID 79"),
        replace(READY, draining=True),
    ],
    ids=["deleting", "silent", "cordoned", "draining"],
)
def test_other_machines_accept_no_job(machine: Machine) -> None:
    """No new job is placed on a machine that is deleting, silent, cordoned or drained."""
    assert not machine.accepts
