"""
A one-node Slurm on this machine, for benchmarks that print its figures beside Bastion's.

It needs the programs of Debian's `slurm-wlm` and `munge`, and root; without them `slurm` yields
None. All its files are in a temporary folder, and it is stopped when the benchmark ends.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.servers import slurmctld
from tests.servers.slurmctld import PROGRAMS, Cluster, Slurm

SLOTS = 64

_ONE = Cluster(
    nodes=("n1",),
    each=f"CPUs={SLOTS}",
    lines="MaxJobCount=50000\nMaxArraySize=20001\n"
    "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
)


@contextlib.contextmanager
def slurm() -> Iterator[Slurm | None]:
    """Run a Slurm of one node with `SLOTS` CPUs; None if it cannot run."""
    if os.geteuid() != 0 or not all(map(shutil.which, PROGRAMS)):
        yield None
        return
    with tempfile.TemporaryDirectory() as folder, slurmctld.slurm(Path(folder), _ONE) as made:
        yield made


def queued(beside: Slurm) -> int:
    """Return how many jobs wait or run."""
    return len(beside.run("squeue", "-h", "-r", "-o", "%i").splitlines())
