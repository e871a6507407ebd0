"""
`python -m bastion.agent.begin.nvml`: the GPUs of this machine, read from their driver's library.

It prints what nvidia-smi would answer to `QUERY`, then each XID that occurs while it waits, in the
format of the kernel's log. It is a process of its own, so a library that hangs on a broken device
can be killed. Exit code 97: there is no `pynvml` to import, or no driver for it.

Source: docs.nvidia.com/deploy/nvml-api; the package `nvidia-ml-py`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

MISSING = 97
"""Exit code if the package or the driver's library is not installed."""
_THERMAL = 0x40
"""nvmlClocksThrottleReasonHwThermalSlowdown."""
_XID = 0x8
"""nvmlEventTypeXidCriticalError."""


def main(argv: Sequence[str]) -> int:
    """Print a row for each GPU, then the XIDs of the next `argv[0]` seconds."""
    try:
        import pynvml
    except ImportError:
        return MISSING
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError_LibraryNotFound:
        return MISSING
    handles = [
        pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())
    ]
    for index, handle in enumerate(handles):
        sys.stdout.write(", ".join(_row(pynvml, index, handle)) + "\n")
    sys.stdout.flush()
    for line in _xids(pynvml, handles, float(argv[0]) if argv else 0.0):
        sys.stdout.write(line + "\n")
    return 0


def _row(nvml: Any, index: int, handle: Any) -> Iterator[str]:
    yield str(index)
    yield _text(nvml.nvmlDeviceGetName(handle))
    yield _text(nvml.nvmlDeviceGetPciInfo(handle).busId)
    uncorrected, volatile = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
    yield _told(nvml, lambda: nvml.nvmlDeviceGetTotalEccErrors(handle, uncorrected, volatile))
    yield _told(nvml, lambda: "Yes" if nvml.nvmlDeviceGetRemappedRows(handle)[3] else "No")
    yield _told(nvml, lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))
    reasons = nvml.nvmlDeviceGetCurrentClocksThrottleReasons
    yield _told(nvml, lambda: "Active" if reasons(handle) & _THERMAL else "Not Active")


def _xids(nvml: Any, handles: Sequence[Any], seconds: float) -> Iterator[str]:
    if seconds <= 0:
        return
    events = nvml.nvmlEventSetCreate()
    for handle in handles:
        nvml.nvmlDeviceRegisterEvents(handle, _XID, events)
    until = time.monotonic() + seconds
    while (left_s := until - time.monotonic()) > 0:
        try:
            event = nvml.nvmlEventSetWait_v2(events, int(left_s * 1000) + 1)
        except nvml.NVMLError_Timeout:
            return
        bus = _text(nvml.nvmlDeviceGetPciInfo(event.device).busId).lower()
        # In the kernel's format: a domain of four digits, and no function.
        yield f"NVRM: Xid (PCI:{bus.rpartition('.')[0][-10:]}): {event.eventData}"


def _told(nvml: Any, ask: Callable[[], object]) -> str:
    try:
        return str(ask())
    except nvml.NVMLError:
        return "[N/A]"


def _text(said: bytes | str) -> str:
    return said.decode(errors="replace") if isinstance(said, bytes) else said


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
