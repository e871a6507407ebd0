"""
One point of a study as a task of an array: the program on the machine.

Its working folder is the one that `parcel.py` packed. It reports its progress in its log, and keeps
its result once it is complete. A task that is stopped keeps nothing and starts over.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bastion.errors import BastionError
from bastion.simulator.run import simulated
from bastion.simulator.study.on_pool.parcel import unpacked
from bastion.simulator.study.on_pool.stored import encoded

RESULT = "result.json.gz"
_PARTS = 10
"""Lines about its progress."""


def main() -> int:
    """Simulate the point whose number the task has; return the exit code."""
    point = unpacked(Path.cwd(), int(os.environ["BASTION_TASK_INDEX"]))
    _say(f"{point.setup.name}: {len(point.workload.jobs):,} jobs")
    told = 0

    def tell(ended: int, jobs: int, now: float) -> None:
        nonlocal told
        del now
        if (part := ended * _PARTS // jobs) > told:
            told = part
            _say(f"{100 * part // _PARTS} % of the jobs have ended")

    try:
        result = simulated(point.setup, point.workload, progress=tell, names=point.names)
    except BastionError as error:
        _say(*([f"hint: {error.hint}"] if error.hint else []), f"error: {error}")
        return 1
    place = Path(os.environ["BASTION_OUTPUT_DIR"])
    growing = place / f".{RESULT}.new"
    growing.write_bytes(encoded(result))
    growing.replace(place / RESULT)
    return 0


def _say(*lines: str) -> None:
    """Write to the job's log; its last line is the reason of a failure."""
    for line in lines:
        sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
