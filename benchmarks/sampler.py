"""The cost of sampling a machine's use by its agent: its share of one core, for eight devices."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from bastion.agent.usage.devices import DeviceProbe
from bastion.agent.usage.port import Group
from bastion.agent.usage.sampler import MachineSampler
from bastion.agent.usage.series import Holding, HostSeries
from bastion.agent.usage.watch import SAMPLE_S
from bastion.records.reports.facts import HostFact
from benchmarks.table import show

DEVICES = 8
LOOKS = 200
LIMIT = 0.003
"""Of one core."""
_CHILD = (
    "import subprocess,sys; subprocess.run([sys.executable,'-c','import time;time.sleep(600)'])"
)


def main() -> None:
    """Print one table: a machine whose devices are held by one job, or by one each."""
    rows = [measured(jobs, processes) for jobs, processes in ((1, 8), (8, 1), (8, 4))]
    show([{"what": "the probe of devices", "share_of_core": probe_share()}, *rows])
    print(f"the limit is {LIMIT:.3f} of a core for the probe and the looks together")


def measured(jobs: int, processes: int) -> dict[str, object]:
    """
    Return the share of a core for sampling `jobs` jobs, each of that many processes with a child.

    A look samples the groups, reads the output of the probe, counts each host's samples, and packs
    the segments that are due.
    """
    trees = [
        [subprocess.Popen([sys.executable, "-c", _CHILD]) for _ in range(processes)]
        for _ in range(jobs)
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        probe = DeviceProbe(file=str(_device_file(folder)), period_s=0.2)
        sampler = MachineSampler(probe)
        groups = {
            str(n): Group(pids=tuple(each.pid for each in tree), started_at=0.0)
            for n, tree in enumerate(trees)
        }
        each = DEVICES // jobs
        series = {
            str(n): HostSeries(
                HostFact(project="p", job=f"job-{n}", attempt=1, nonce="n", replica=0, host=0),
                Holding(devices=tuple(range(n * each, (n + 1) * each))),
                folder / f"{n}.json",
                started_at=0.0,
            )
            for n in range(jobs)
        }
        try:
            sampler.sample(groups, 0.0)
            time.sleep(1.5)
            began = time.process_time()
            for look in range(1, LOOKS + 1):
                now = look * SAMPLE_S
                sample = sampler.sample(groups, now)
                devices = {device.index: device for device in sample.devices.each}
                for key, told in series.items():
                    told.add(devices, sample.groups[key], at=int(now), now=now)
                    if told.seal(now):
                        told.landed()
            spent_s = time.process_time() - began
        finally:
            sampler.close()
            _end([process for tree in trees for process in tree])
    return {
        "what": f"looks at {jobs} jobs of {2 * processes} processes",
        "share_of_core": spent_s / LOOKS / SAMPLE_S,
    }


def probe_share() -> float:
    """Return the share of a core of the probe beside the agent, as long as it prints lines."""
    with tempfile.TemporaryDirectory() as name:
        file = _device_file(Path(name))
        words = [sys.executable, "-m", "bastion.agent.usage.probe", "0.05", str(file)]
        pipe = subprocess.PIPE
        with subprocess.Popen(words, stdin=pipe, stdout=pipe, env=dict(os.environ)) as child:
            assert child.stdout is not None
            child.stdout.readline()
            process = psutil.Process(child.pid)
            before = process.cpu_times()
            for _ in range(LOOKS):
                child.stdout.readline()
            after = process.cpu_times()
            child.kill()
    spent_s = after.user + after.system - before.user - before.system
    return spent_s / LOOKS / SAMPLE_S


def _device_file(folder: Path) -> Path:
    file = folder / "devices.json"
    told = [
        {"index": n, "used": 0.5, "memory": 1 << 30, "total": 80 << 30, "processes": []}
        for n in range(DEVICES)
    ]
    file.write_text(json.dumps(told))
    return file


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        for child in psutil.Process(process.pid).children(recursive=True):
            child.kill()
        process.kill()
        process.wait()


if __name__ == "__main__":
    main()
