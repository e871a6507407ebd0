"""
The use of devices that are not there: the demo declares its accelerators, and makes up their use.

A device that a job holds is busy, more or less by its job, in waves, with a dip now and then as for
a checkpoint. A job that is called `starved` waits for its data. A device that is not held is idle.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bastion.client.look.views import MachineView

MEMORY = 80 << 30
"""Of one device."""
STARVED = "starved"
"""In the id of a job whose devices wait for its data."""
WAVE_S = 50.0
DIP_EVERY_S, DIP_S = 60.0, 8.0


class MadeDevices:
    """
    Files that stand for the devices of the demo's machines.

    Args:
        folder: Where they lie, a file a machine.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def setting(self) -> str:
        """What `BASTION_DEVICE_FILE` is for every agent."""
        return str(self.folder / "{machine}.json")

    def show(self, machines: Sequence[MachineView], now: float) -> None:
        """Write what each device of `machines` does at `now`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for machine in machines:
            path = self.folder / f"{machine.name}.json"
            part = path.with_suffix(".new")
            part.write_text(json.dumps(rows(machine, now)))
            part.replace(path)


def rows(machine: MachineView, now: float) -> list[dict[str, float]]:
    """Return what the devices of `machine` do at `now`, as an agent's probe reads it."""
    holders = {
        index: job
        for job, kinds in machine.held.items()
        for indices in kinds.values()
        for index in indices
    }
    return [
        {
            "index": index,
            "used": round(_used(holders.get(index, ""), index, now), 3),
            "memory": _memory(holders.get(index, "")),
            "total": MEMORY,
        }
        for index in range(machine.resources["h100"])
    ]


def _used(job: str, index: int, now: float) -> float:
    if not job:
        return 0.0
    if STARVED in job:
        return 0.02
    level = 0.6 + _fraction(job) * 0.3
    if (now + _fraction(job) * DIP_EVERY_S) % DIP_EVERY_S < DIP_S:
        return level / 3
    return level + 0.08 * math.sin(2 * math.pi * (now / WAVE_S + index / 8))


def _memory(job: str) -> int:
    return int(MEMORY * (0.5 + 0.4 * _fraction(job))) if job else 0


def _fraction(job: str) -> float:
    """Return a number from 0 to 1 that is always the same for a job."""
    return zlib.crc32(job.encode()) % 1000 / 1000
