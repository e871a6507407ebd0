"""
Limits and measurements: warm and new machines, a turn, memory with a cloud.

    python -m benchmarks.clouds

One table has a limit in each row; the exit code is 1 if one is missed. The bastion and its machines
are separate processes. The cloud is a server on loopback that is checked against Google's
description of Compute Engine, its bucket simulates Cloud Storage, and a host of the pool `ssh` has
a real sshd.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import psutil

from bastion import Job, Launch, Process
from bastion.clock import SystemClock
from bastion.records.keys import layout
from benchmarks import machines, new_machine
from benchmarks.table import show_limits
from tests.end_to_end.grounds import Ground, MakesGround, local_ground, ssh_ground
from tests.end_to_end.programs import Programs, until
from tests.end_to_end.roots import Place, folder_root, gcs_root
from tests.servers.google import Compute

RUNS = 15
WATCHED_S = 30.0
QUOTA = """
[toml-schema]
version = "1"
[total_resources]
h100 = 8
[project_membership]
red = ["alice"]
[project_resources.red]
h100 = 1.0
"""


def main() -> int:
    """Measure everything, and print the table; return 1 if a limit is missed."""
    rows = [
        ("warm local machine: submission to first line, s", 0.2, first_line(local_ground)),
        ("warm ssh machine: submission to first line, s", 1.0, first_line(ssh_ground)),
        ("new machine, install from a cache: script to greeting, s", 5.0, greeting()),
        ("a turn with 1,000 machines and 1,000 jobs, s", 1.0, turn()),
        ("a bastion with one cloud in use, MB", 150.0, memory()),
    ]
    return show_limits(rows)


def first_line(makes_ground: MakesGround) -> float:
    """Return the median seconds from a submission to the first line of a log, on a warm machine."""
    with TemporaryDirectory() as folder, serving(Path(folder), makes_ground) as on:
        _line(on)
        return median(_line(on) for _ in range(RUNS))


def _line(on: Programs) -> float:
    job = Job(name="hello", processes=[Process(["echo", "hello"])])
    began = time.perf_counter()
    handle = on.client.launch(Launch(name="hello", jobs=[job], project="red"))
    while not handle.logs("hello"):
        time.sleep(0.005)
    took = time.perf_counter() - began
    handle.wait()
    return took


def greeting() -> float:
    """Return the median seconds of machines that were started from a cache."""
    with TemporaryDirectory() as folder:
        rows = new_machine.measured(Path(folder))
    return median(
        float(str(row["to the greeting"])) for row in rows if row["machine"] == "from a cache"
    )


def turn() -> float:
    """Return the seconds of CPU time of a whole turn."""
    return float(str(machines.whole_turn()["reconcile_ms"])) / 1000.0


def memory() -> float:
    """Return the peak resident MB of a bastion on Cloud Storage that lists Compute Engine VMs."""
    with (
        TemporaryDirectory() as folder,
        Compute.at(SystemClock()) as server,
        gcs_root(Path(folder)) as place,
    ):
        server.operation_s, server.boot_s = 0.2, 0.5
        ground = Ground(
            pool="""
provider = "gce"
zones = ["us-central1-a"]
resources = { cpu = 2 }
min_machines = 2
options = { project = "acme", machine_type = "n2-standard-2" }""",
            env={"CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": server.url},
        )
        with _serving(Path(folder), ground, place) as on:
            until(lambda: server.made == 2, "two VMs are made")
            (process,) = on.processes("serve")
            end, most = time.monotonic() + WATCHED_S, 0
            while time.monotonic() < end:
                most = max(most, psutil.Process(process.pid).memory_info().rss)
                time.sleep(0.5)
            return most / 1e6


@contextmanager
def serving(folder: Path, makes_ground: MakesGround) -> Iterator[Programs]:
    """Run a bastion on a folder, whose only pool has a machine that is ready."""
    (folder / "provider").mkdir()
    with (
        makes_ground(folder / "provider") as ground,
        folder_root(folder) as place,
        _serving(folder, ground, place) as on,
    ):
        until(lambda: _is_ready(on), "a machine is ready")
        yield on


@contextmanager
def _serving(folder: Path, ground: Ground, place: Place) -> Iterator[Programs]:
    place.store.create(layout.QUOTA, QUOTA.encode())
    pool = f'[pools.ground]\nmax_machines = 2\nidle_timeout = "1h"{ground.pool}\n'
    if "min_machines" not in pool:
        pool = pool.replace("max_machines", "min_machines = 1\nmax_machines")
    place.store.create(layout.CONFIG, pool.encode())
    on = Programs(folder, place)
    try:
        on.serve(env=ground.env)
        yield on
    finally:
        on.stop_everything()


def _is_ready(on: Programs) -> bool:
    try:
        return any(each["phase"] == "ready" for each in on.json("machines")["machines"])
    except (AssertionError, subprocess.TimeoutExpired):
        return False


if __name__ == "__main__":
    sys.exit(main())
