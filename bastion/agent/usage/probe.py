"""
`python -m bastion.agent.usage.probe PERIOD_S [FILE]`: a line of JSON about the devices each period.

It is a process of its own, so that a driver that hangs or crashes costs nothing but its samples. It
ends with its standard input, so with its agent. GPUs are asked of the driver's library, through
`nvidia-ml-py`; TPUs of the metrics that libtpu serves while a program uses them, through `tpu-info`
where this Python has it. `FILE` stands for devices in tests and demos: a JSON list of devices.
Exit code 97: there are no devices to ask.

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
"""Exit code where there is nothing to ask."""
_MOST_PROCESSES = 64
"""Of one device that are told."""

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
    """Return what reads devices from a file; a spoilt file has none."""

    def ask() -> list[Row]:
        try:
            said = json.loads(path.read_text())
        except (OSError, ValueError, RecursionError):
            return []
        return [row for row in said if isinstance(row, dict)] if isinstance(said, list) else []

    return ask


def _nvidia() -> Callable[[], list[Row]] | None:
    """Return what asks the driver of NVIDIA's GPUs; None where there is none."""
    try:
        import pynvml as nvml  # type: ignore[import-untyped,unused-ignore]

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
            {"pid": each.pid, "memory": int(each.usedGpuMemory or 0), **_who(each.pid)}
            for each in running[:_MOST_PROCESSES]
        ],
    }


def _tpus() -> Callable[[], list[Row]] | None:
    """Return what asks libtpu; None where there is no TPU, or nothing that can ask it."""
    try:
        from tpu_info import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
            device,
            metrics,
        )

        kind, count = device.get_local_chips()
    except (ImportError, OSError):
        return None
    if kind is None or not count:
        return None

    def ask() -> list[Row]:
        try:
            found = metrics.get_chip_usage(kind)
        except Exception:  # noqa: BLE001 - no program uses the TPU, and so none serves its metrics
            return []
        return [
            {
                "index": int(each.device_id),
                "used": each.duty_cycle_pct / 100,
                "memory": int(each.memory_usage),
                "total": int(each.total_memory),
                "processes": [],
            }
            for each in found
        ]

    return ask


def _who(pid: int) -> Row:
    """Name, user and keeper's mark of a process, as far as they may be seen."""
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
