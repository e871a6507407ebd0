"""What is true of a machine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bastion.machine import Machine, MachinePhase

READY = Machine(name="gpu-1-0", pool="gpu", phase=MachinePhase.READY)


@pytest.mark.parametrize("phase", [MachinePhase.CREATING, MachinePhase.READY])
def test_what_comes_or_stands_accepts(phase: MachinePhase) -> None:
    """Something new may be placed on a machine that is ready, or on its way."""
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
def test_what_accepts_nothing(machine: Machine) -> None:
    """Nothing new is placed on a machine that goes, is silent, cordoned or drained."""
    assert not machine.accepts
