"""
`python -m bastion.agent.usage.probe PERIOD_S [FILE]`: a line of JSON about the devices each period.

It is a process of its own, so a driver that hangs or crashes costs only its samples. It ends with
its standard input, and so with its agent. GPUs are read from the driver's library, through
`nvidia-ml-py`; TPUs from the metrics that libtpu serves while a program uses them, through
`tpu-info`, which the agents of `gcp_tpu` pools have. `FILE` replaces the devices in tests and
demos: a JSON list of devices. Exit code 97: there are no devices to query.

Source: docs.nvidia.com/deploy/nvml-api; github.com/AI-Hypercomputer/cloud-accelerator-diagnostics.
"""

from __future__ import annotations

import json
import os
import pwd
import select
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

MISSING = 97
"""Exit code if there is nothing to query."""
TPU_METRICS = "localhost:8431"
"""The default address at which libtpu serves the metrics of the program that uses the chips."""
_MOST_PROCESSES = 64
"""Most processes that are reported for one device."""

Row: TypeAlias = dict[str, Any]


def main(argv: Sequence[str]) -> int:
    """Print the devices each period, until standard input ends."""
    period_s = float(argv[0])
    ask = _file(Path(argv[1])) if len(argv) > 1 else _nvidia() or _tpus()
    if ask is None:
        return MISSING
    while True:
        sys.stdout.write(json.dumps(ask(), separators=(",", ":")) + "\n")
        sys.stdout.flush()
        if select.select([sys.stdin], [], [], period_s)[0] and not sys.stdin.read(1):
            return 0


def _file(path: Path) -> Callable[[], list[Row]]:
    """Return a function that reads devices from a file; a damaged file has none."""

    def ask() -> list[Row]:
        try:
            said = json.loads(path.read_text())
        except (OSError, ValueError, RecursionError):
            return []
        return [row for row in said if isinstance(row, dict)] if isinstance(said, list) else []

    return ask


def _nvidia() -> Callable[[], list[Row]] | None:
    """Return a function that queries the driver of NVIDIA's GPUs; None if there is none."""
    try:
        import pynvml as nvml

        nvml.nvmlInit()
        count = nvml.nvmlDeviceGetCount()
    except ImportError:
        return None
    except nvml.NVMLError:
        return None
    handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
    return lambda: [_gpu(nvml, index, handle) for index, handle in enumerate(handles)]


def _gpu(nvml: Any, index: int, handle: Any) -> Row:
    def told(ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except nvml.NVMLError:
            return None

    rates = told(lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
    memory = told(lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
    running = told(lambda: nvml.nvmlDeviceGetComputeRunningProcesses(handle)) or ()
    return {
        "index": index,
        "used": None if rates is None else rates.gpu / 100,
        "memory": 0 if memory is None else int(memory.used),
        "total": 0 if memory is None else int(memory.total),
        "processes": [
            {"pid": each.pid, "memory": int(each.usedGpuMemory or 0), **_facts_of(each.pid)}
            for each in running[:_MOST_PROCESSES]
        ],
    }


def _tpus() -> Callable[[], list[Row]] | None:
    """Return a function that queries libtpu; None if there is no TPU, or no way to query it."""
    try:
        from tpu_info import (
            device,
            metrics,
        )

        kind, count = device.get_local_chips()
    except (ImportError, OSError, AssertionError):
        return None
    if kind is None or not count:
        return None
    return lambda: _chips(device, metrics, kind, count)


def _chips(
    device: Any, metrics: Any, kind: Any, count: int, *, address: str = TPU_METRICS
) -> list[Row]:
    """
    Return the use of each core of the chips, counted like the quota.

    A program that uses the chips serves their metrics. While no program holds them, they are idle.
    If a program holds them and serves nothing, their use is unknown.
    """
    from bastion.catalog import units_a_chip

    try:
        holders = dict(device.get_chip_owners())
    except OSError:
        holders = {}
    try:
        found = metrics.get_chip_usage(kind, address)
    except Exception:  # noqa: BLE001 - grpc's and the package's own, of any version
        found = ()
    a_chip: int = kind.value.devices_per_chip
    told = {int(each.device_id): each for each in found}
    parts = max(1, units_a_chip(kind.value.name) // a_chip)
    rows = []
    for index in range(count * a_chip * parts):
        each = told.get(index // parts)
        pid = holders.get(str(device.chip_path(kind, index // parts // a_chip)))
        used = 0.0 if each is None and not holders else None
        rows.append(
            {
                "index": index,
                "used": used if each is None else each.duty_cycle_pct / 100,
                "memory": 0 if each is None else int(each.memory_usage) // parts,
                "total": (kind.value.hbm_gib << 30) // a_chip // parts,
                "processes": [] if pid is None else [{"pid": pid, "memory": 0, **_facts_of(pid)}],
            }
        )
    return rows


def _facts_of(pid: int) -> Row:
    """Return name, user and keeper's mark of a process, as far as they can be seen."""
    found: Row = {"name": "", "user": "", "mark": ""}
    try:
        found["name"] = Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
        found["user"] = _user(Path(f"/proc/{pid}").stat().st_uid)
        found["mark"] = _mark(pid)
    except OSError:
        pass
    return found


def _mark(pid: int) -> str:
    from bastion.agent.machine.stray_processes import mark_of

    return mark_of(pid)


@cache
def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def rows(line: bytes) -> Iterator[Row]:
    """Yield the devices of a line that this program printed."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return
    if isinstance(said, list):
        yield from (row for row in said if isinstance(row, dict))


if __name__ == "__main__":
    os.nice(10)
    sys.exit(main(sys.argv[1:]))
