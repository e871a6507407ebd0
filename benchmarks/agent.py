"""
The cost of an agent on a folder: latency and rate of short jobs, CPU time and memory.

Run it with `python -m benchmarks.agent`; it leaves nothing behind. This program plays the bastion's
side: it writes specs and instructions and reads bells.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from bastion.agent.keeper.socket.client import KeeperClient
from bastion.machine import Batch, Start
from bastion.records.coding.codec import decode, encode
from bastion.records.keys import layout
from bastion.records.reports.facts import Bell, Fact
from bastion.records.requests.launch_request import SpecRecord
from bastion.spec import Job, Launch, Process
from bastion.store.folder.local import LocalStore
from benchmarks.table import show

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
SHORT_JOBS = 300
"""Jobs per agent: some seconds of work."""
_BATCH = 50
QUIET_S, IDLE_S = 20.0, 20.0
"""After the first period an agent polls at its lowest rate; the second suffices for CPU ticks."""


class Machine:
    """One agent, and the bastion's side of its instructions and bells."""

    def __init__(self, root: Path, name: str) -> None:
        self.store = LocalStore(root / "root", makes_root=True)
        self.name = name
        self.home = root / name
        self.batches = 0
        self._heard: set[str] = set()
        said = [sys.executable, "-m", "bastion", "agent", "--root", f"file://{root}/root"]
        said += ["--machine", name, "--home", str(self.home)]
        self.agent = subprocess.Popen(said, stderr=subprocess.DEVNULL)
        _wait_for(lambda: any(fact.kind == "hello" for fact in self.facts()))

    def facts(self) -> list[Fact]:
        """The facts reported since the last call."""
        told: list[Fact] = []
        for entry in self.store.list(layout.bells(self.name)):
            if entry.key not in self._heard:
                self._heard.add(entry.key)
                bell = self.store.read(entry.key)
                assert bell is not None
                told.extend(decode(Bell, bell.data, key=entry.key).facts)
        return told

    def begin(self, jobs: list[str], line: str) -> None:
        """Write the specs of jobs, then the instructions to start them."""
        for job in jobs:
            one = Job(processes=(Process(line, shell=True),))
            launch = Launch(name="bench", project="p", jobs=(one,))
            spec = SpecRecord(id=job, project="p", user="u", ulid="0" * 26, launch=launch)
            self.store.create(layout.spec("p", job), encode(spec))
        for first in range(0, len(jobs), _BATCH):
            self.batches += 1
            starts = tuple(map(_start, jobs[first : first + _BATCH]))
            batch = Batch(number=self.batches, life=1, instructions=starts)
            key = layout.instructions(self.name, 1, self.batches)
            self.store.create(key, encode(batch))

    def pids(self) -> tuple[int, int]:
        """The process IDs of the agent and of its keeper."""
        return self.agent.pid, int((self.home / "keeper" / "lock").read_text().split()[1])

    def close(self) -> None:
        """End agent and keeper."""
        self.agent.kill()
        self.agent.wait()
        KeeperClient(self.home).terminate()


def main() -> None:
    """Measure one agent alone, then two together."""
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(Path(folder), "one")
        other = Machine(Path(folder), "two")
        try:
            rows = [*_idle(machine), *_latencies(machine), *_rate([machine, other])]
        finally:
            machine.close()
            other.close()
    show([{"what": what, "value": value} for what, value in rows])


def _start(job: str) -> Start:
    return Start(
        project="p",
        job=job,
        launch=job,
        index=0,
        attempt=1,
        nonce="n",
        replica=0,
        host=0,
        devices={},
    )


def _idle(machine: Machine) -> list[tuple[str, float]]:
    time.sleep(QUIET_S)
    before = [_processor_s(pid) for pid in machine.pids()]
    time.sleep(IDLE_S)
    spent = [_processor_s(pid) - s for pid, s in zip(machine.pids(), before)]
    return [
        ("idle agent, % of a core", spent[0] / IDLE_S * 100),
        ("idle keeper, % of a core", spent[1] / IDLE_S * 100),
        ("idle agent and keeper, resident MB", sum(map(_rss_bytes, machine.pids())) / 1e6),
    ]


def _latencies(machine: Machine) -> list[tuple[str, float]]:
    seen: dict[str, list[float]] = {"started": [], "first byte": [], "ended": []}
    for number in range(20):
        job = f"latency{number}"
        log = layout.log("p", job, 1, replica=0, host=0, process=0)
        began = time.perf_counter()
        machine.begin([job], "echo hello; sleep 0.2")
        kinds: set[str] = set()
        while "ended" not in kinds:
            new: set[str] = {fact.kind for fact in machine.facts()}
            if machine.store.list(log, limit=1):
                new.add("first byte")
            for kind in new - kinds & seen.keys():
                if kind in seen and kind not in kinds:
                    seen[kind].append(time.perf_counter() - began)
            kinds |= new
            time.sleep(0.002)
    return [(f"instruction to {kind}, ms", median(at) * 1e3) for kind, at in seen.items()]


def _rate(machines: list[Machine]) -> list[tuple[str, float]]:
    before = [[_processor_s(pid) for pid in machine.pids()] for machine in machines]
    began = time.perf_counter()
    for machine in machines:
        machine.begin([f"{machine.name}{number}" for number in range(SHORT_JOBS)], "true")
    left = SHORT_JOBS * len(machines)
    while left:
        for machine in machines:
            left -= sum(fact.kind == "drained" for fact in machine.facts())
        time.sleep(0.02)
    took = time.perf_counter() - began
    jobs = SHORT_JOBS * len(machines)
    agents = sum(_processor_s(m.pids()[0]) - b[0] for m, b in zip(machines, before))
    keepers = sum(_processor_s(m.pids()[1]) - b[1] for m, b in zip(machines, before))
    rss = max(sum(map(_rss_bytes, machine.pids())) for machine in machines)
    return [
        (f"short jobs a second, {len(machines)} agents", jobs / took),
        ("agent's processor for each, ms", agents / jobs * 1e3),
        ("keeper's processor for each, ms", keepers / jobs * 1e3),
        ("agent and keeper after that, resident MB", rss / 1e6),
    ]


def _wait_for(holds: Callable[[], bool]) -> None:
    deadline = time.perf_counter() + 30.0
    while not holds():
        assert time.perf_counter() < deadline, "the agent does not greet"
        time.sleep(0.01)


def _processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def _rss_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


if __name__ == "__main__":
    main()
