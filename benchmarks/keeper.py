"""
The cost of the keeper: latency and rate of short attempts, CPU time and memory.

Run it with `python -m benchmarks keeper` or directly; it leaves nothing behind.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from statistics import median

from bastion.agent.keeper.port import AttemptStart, Exited, KeeperGoneError, ProcessStart
from bastion.agent.keeper.socket.client import KeeperClient, spawn_keeper
from benchmarks.table import show

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure a keeper with cgroups and one without."""
    show([*_measured(use_cgroups=True), *_measured(use_cgroups=False)])


def _measured(*, use_cgroups: bool) -> list[dict[str, object]]:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        began = time.perf_counter()
        keeper = spawn_keeper(home, life=1, permit_s=0, use_cgroups=use_cgroups)
        born_s = time.perf_counter() - began
        pid = int((home / "keeper" / "lock").read_text().split()[1])
        latencies = [_one(keeper, f"l{number}") for number in range(100)]
        rate, busy = _many(keeper, pid, 1000)
        flood_bytes_s, flood_busy = _flood(keeper, pid)
        idle_busy = _idle(keeper, pid, 5.0)
        rss = _rss_bytes(pid)
        keeper.terminate()
        _until_gone(keeper)
    kind = "cgroups" if use_cgroups else "no cgroups"
    measured = {
        "a keeper is born, ms": born_s * 1e3,
        "start to exited, one at a time, ms": median(latencies) * 1e3,
        "attempts a second": rate,
        "keeper's processor per attempt, ms": busy / rate * 1e3,
        "keeper's processor at that rate, %": busy * 100,
        "`yes` into the spool, MB/s": flood_bytes_s / 1e6,
        "keeper's processor meanwhile, %": flood_busy * 100,
        "keeper's processor with one idle job, %": idle_busy * 100,
        "resident memory after all that, MB": rss / 1e6,
    }
    return [{"keeper": kind, "what": what, "value": value} for what, value in measured.items()]


def _attempt(key: str, *argv: str) -> AttemptStart:
    process = ProcessStart(argv=argv, env={"PATH": "/usr/bin:/bin"}, cwd="/")
    return AttemptStart(key=key, processes=(process,), grace_s=1.0)


def _one(keeper: KeeperClient, key: str) -> float:
    began = time.perf_counter()
    keeper.start(_attempt(key, "true"))
    _exits(keeper, 1)
    return time.perf_counter() - began


def _many(keeper: KeeperClient, pid: int, count: int) -> tuple[float, float]:
    """Return the attempts per second, and the share of one core that the keeper took."""
    began, busy = time.perf_counter(), _processor_s(pid)
    for number in range(count):
        keeper.start(_attempt(f"m{number}", "true"))
    _exits(keeper, count)
    for number in range(count):
        keeper.forget(f"m{number}")
    took = time.perf_counter() - began
    return count / took, (_processor_s(pid) - busy) / took


def _flood(keeper: KeeperClient, pid: int) -> tuple[float, float]:
    began, busy = time.perf_counter(), _processor_s(pid)
    keeper.start(_attempt("f", "sh", "-c", "yes | head -c 500000000"))
    _exits(keeper, 1)
    took = time.perf_counter() - began
    keeper.forget("f")
    return 500e6 / took, (_processor_s(pid) - busy) / took


def _idle(keeper: KeeperClient, pid: int, for_s: float) -> float:
    keeper.start(_attempt("i", "sleep", "1000"))
    busy = _processor_s(pid)
    time.sleep(for_s)
    return (_processor_s(pid) - busy) / for_s


def _exits(keeper: KeeperClient, count: int) -> None:
    while count > 0:
        count -= sum(isinstance(event, Exited) for event in keeper.poll(10.0))


def _until_gone(keeper: KeeperClient) -> None:
    try:
        while True:
            keeper.poll(10.0)
    except KeeperGoneError:
        keeper.close()


def _processor_s(pid: int) -> float:
    """Return the CPU time of the keeper itself, without that of its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def _rss_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text().split()
    return int(status[status.index("VmRSS:") + 1]) * 1024


if __name__ == "__main__":
    main()
