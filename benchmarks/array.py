"""
Submitting, storing and scheduling arrays, by their number of tasks: `python -m benchmarks.array`.

The real client, leader and scheduler run in one thread on a store in memory. There are 125 machines
with eight devices, all of them busy with the first tasks. `objects` and `root_bytes` are what the
submission added; `turn_ms` is a turn in which the scheduler decides from scratch while the rest of
the array waits.
"""

from __future__ import annotations

import argparse
import gzip
import time
from statistics import median

from bastion import Array, Client, Job, Launch, Process, Resources
from bastion.clock import VirtualClock
from bastion.records.root import RootWriter
from benchmarks.table import show
from tests.rigs.leader import QUOTA, Rig

MACHINES = 125
TURNS = 15


class _Beside(VirtualClock):
    """The client's clock; during each of its sleeps the bastion makes a turn."""

    def __init__(self, rig: Rig) -> None:
        super().__init__(wall=rig.clock.wall())
        self._rig = rig

    def sleep(self, seconds: float) -> None:
        """See the port."""
        super().sleep(seconds)
        self._rig.leader.turn()


def measured(tasks: int) -> dict[str, object]:
    """Return one row: an array of that many tasks, each with one device."""
    config = f'[pools.gpu]\nprovider = "fake"\nresources = {{ h100 = 8 }}\ncount = {MACHINES}\n'
    rig = Rig(config=config, quota=QUOTA.replace("h100 = 16", f"h100 = {8 * MACHINES}"))
    rig.turn(3)
    client = Client(
        "gs://bench/root", user="ann", project="blue", store=rig.bucket, clock=_Beside(rig)
    )
    writer = RootWriter(rig.bucket, rig.clock)
    job = Job(processes=(Process(["true"], resources=Resources(h100=1)),), hold=True)
    keys, before = set(rig.keys()), writer.encoded(rig.root)
    begun = time.perf_counter()
    handle = client.launch(Launch(name="bench", jobs=(job,), array=Array(tasks)))
    submit_s = time.perf_counter() - begun
    after = writer.encoded(rig.root)
    made = set(rig.keys()) - keys
    client.release(handle.id)
    rig.turn(6)
    turns = []
    for _ in range(TURNS):
        rig.leader._must_decide = True
        begun = time.perf_counter()
        rig.leader.turn()
        turns.append(time.perf_counter() - begun)
    return {
        "tasks": tasks,
        "submit_ms": round(1000 * submit_s, 1),
        "objects": len(made),
        "root_bytes": len(after) - len(before),
        "gzipped": len(gzip.compress(after, 1)) - len(gzip.compress(before, 1)),
        "admitted": len(rig.root.jobs),
        "turn_ms": round(1000 * median(turns), 1),
    }


def main() -> None:
    """Print a row for each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="*", type=int, default=[1000, 10_000, 30_000])
    show([measured(tasks) for tasks in parser.parse_args().tasks])


if __name__ == "__main__":
    main()
