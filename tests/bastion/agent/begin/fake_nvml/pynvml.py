"""A driver library with two GPUs: `FAULT` says what is wrong with the second."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace

NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC, NVML_TEMPERATURE_GPU = 1, 0, 0
_FAULT = os.environ.get("FAULT", "")


class NVMLError(Exception):
    """The error that the library raises."""


class NVMLError_LibraryNotFound(NVMLError):  # noqa: N801, N818 - the name is NVIDIA's
    """There is no driver."""


class NVMLError_Timeout(NVMLError):  # noqa: N801, N818 - the name is NVIDIA's
    """No event arrived in time."""


def _is(fault: str, handle: int) -> bool:
    return handle == 1 and fault == _FAULT


def nvmlInit() -> None:
    if _FAULT == "hangs":
        time.sleep(1000.0)
    if _FAULT == "driver":
        raise NVMLError("Driver Not Loaded")


def nvmlDeviceGetCount() -> int:
    return 2


def nvmlDeviceGetHandleByIndex(index: int) -> int:
    return index


def nvmlDeviceGetName(handle: int) -> bytes:
    return b"NVIDIA H100 80GB HBM3"


def nvmlDeviceGetPciInfo(handle: int) -> SimpleNamespace:
    return SimpleNamespace(busId=f"00000000:{handle + 10:02X}:00.0".encode())


def nvmlDeviceGetTotalEccErrors(handle: int, kind: int, counter: int) -> int:
    return 3 if _is("ecc", handle) else 0


def nvmlDeviceGetRemappedRows(handle: int) -> tuple[int, int, int, int]:
    raise NVMLError("Not Supported")


def nvmlDeviceGetTemperature(handle: int, sensor: int) -> int:
    return 91


def nvmlDeviceGetCurrentClocksThrottleReasons(handle: int) -> int:
    return 0x44 if _is("heat", handle) else 0x4


def nvmlDeviceGetUtilizationRates(handle: int) -> SimpleNamespace:
    if _is("mig", handle):
        raise NVMLError("Not Supported")
    return SimpleNamespace(gpu=40 + handle, memory=5)


def nvmlDeviceGetMemoryInfo(handle: int) -> SimpleNamespace:
    return SimpleNamespace(used=(handle + 1) << 30, total=80 << 30)


def nvmlDeviceGetComputeRunningProcesses(handle: int) -> list[SimpleNamespace]:
    return [SimpleNamespace(pid=os.getpid(), usedGpuMemory=None if handle else 1 << 20)]


def nvmlEventSetCreate() -> list[int]:
    return []


def nvmlDeviceRegisterEvents(handle: int, kind: int, events: list[int]) -> None:
    events.append(handle)


def nvmlEventSetWait_v2(events: list[int], timeout_ms: int) -> SimpleNamespace:
    if _FAULT == "xid" and events:
        events.clear()
        return SimpleNamespace(device=1, eventData=79)
    raise NVMLError_Timeout("Timeout")
