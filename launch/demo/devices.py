"""
Simulated use of devices: the demo declares accelerators that do not exist and simulates their use.

A device of a job is busy to a degree that depends on the job, in waves, with dips as if for
checkpoints. A job named `starved` waits for its data. A device without a job is idle.
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
"""The memory of one device."""
STARVED = "starved"
"""Part of the id of a job whose devices wait for data."""
WAVE_S = 50.0
DIP_EVERY_S, DIP_S = 60.0, 8.0


class MadeDevices:
    """
    Files with the simulated use of the demo's devices.

    Args:
        folder: Their folder, with one file per machine.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def setting(self) -> str:
        """The value of `BASTION_DEVICE_FILE` for every agent."""
        return str(self.folder / "{machine}.json")

    def show(self, machines: Sequence[MachineView], now: float) -> None:
        """Write the use of each device of `machines` at `now`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for machine in machines:
            path = self.folder / f"{machine.name}.json"
            part = path.with_suffix(".new")
            part.write_text(json.dumps(rows(machine, now)))
            part.replace(path)


def rows(machine: MachineView, now: float) -> list[dict[str, float]]:
    """Return the use of the devices of `machine` at `now`, as an agent's probe reads it."""
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
    """Return a number from 0 to 1 that depends only on the job."""
    return zlib.crc32(job.encode()) % 1000 / 1000
