"""
Whether the accelerators of this machine are those that its pool declares, and whether they work.

GPUs are read through the driver's library, by `nvml`, if this Python has `nvidia-ml-py`, else
through `nvidia-smi`, which comes with the driver. XIDs are in the kernel's log; if it cannot be
read, for example in a container, the library reports those that occur during the look. TPUs and
Neuron devices are counted by their device files.

Source: docs.nvidia.com/deploy/xid-errors; `nvidia-smi --help-query-gpu`.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path

from bastion.agent.begin.nvml import MISSING
from bastion.agent.machine.driver_program import answer_of
from bastion.agent.setup.environment import NEURONS, TPUS
from bastion.agent.setup.gpu_types import (
    gpu_types,
    is_named_like_product,
    is_product,
    plain,
)
from bastion.catalog import units_a_chip
from bastion.own_program import own_program
from bastion.value import value

QUERY = (
    "index",
    "name",
    "pci.bus_id",
    "ecc.errors.uncorrected.volatile.total",
    "remapped_rows.failure",
    "temperature.gpu",
    "clocks_throttle_reasons.hw_thermal_slowdown",
)
"""The fields that are queried for each GPU, in this order."""
XID_S = 5.0
"""How long a look waits for XIDs if the kernel's log cannot be read."""
SMI_S = 60.0
"""Longest answer of nvidia-smi: without persistence mode, eight GPUs are started first."""

FATAL_XIDS: Mapping[int, str] = {
    46: "it stopped processing",
    48: "a double-bit memory error",
    62: "its micro-controller halted",
    64: "a memory page could not be retired",
    74: "an NVLink error",
    79: "it has fallen off the bus",
    95: "an uncontained memory error",
    119: "its system processor does not answer",
    120: "its system processor failed",
}
"""Errors of a device, not of a program: they end with a reset of the device, or never."""
_XID = re.compile(r"NVRM: Xid \(PCI:([0-9A-Fa-f:.]+)\): (\d{1,4})")


@value
class DeviceReport:
    """Faults of devices; all fields are empty if there are none."""

    bad: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    text: str = ""
    """Why these devices are bad."""
    unwell: str = ""
    """Why the whole machine must not be used: it does not have what its pool declares."""


def look_at_devices(declared: Mapping[str, int]) -> DeviceReport:
    """Compare the devices of this machine with the `declared` ones, by type."""
    gpus = {kind: declared[kind] for kind in gpu_types(declared)}
    counted = _count_problem(declared, _device_files())
    if counted or not gpus:
        return DeviceReport(unwell=counted)
    log = kernel_log()
    library = own_program("bastion.agent.begin.nvml", *(() if log else (f"{XID_S:g}",)))
    smi = ["nvidia-smi", f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader,nounits"]
    table = _answer("the library of its GPUs", library)
    if table is None:
        table = _answer("nvidia-smi", smi)
    if table is None:
        return DeviceReport(unwell="its GPUs cannot be queried: there is no nvidia-smi")
    if isinstance(table, DeviceReport):
        return table
    return gpu_report(gpus, table, log or table)


def _answer(name: str, command: list[str]) -> str | DeviceReport | None:
    """Return a program's output about the GPUs, or its failure; None if it does not exist."""
    try:
        done = answer_of(command, timeout_s=SMI_S)
    except FileNotFoundError:
        return None
    except subprocess.TimeoutExpired:
        return DeviceReport(unwell=f"{name} did not answer within {SMI_S:g} s")
    if done.returncode == MISSING:
        return None
    if done.returncode != 0:
        said = " ".join((done.stdout + done.stderr).decode(errors="replace").split())[-300:]
        return DeviceReport(unwell=f"{name} exited with {done.returncode}: {said}")
    return done.stdout.decode(errors="replace")


def gpu_report(declared: Mapping[str, int], table: str, kernel_log: str) -> DeviceReport:
    """
    Judge GPUs by the answer to `QUERY` and the kernel's log; pure.

    Indices are counted from 0 within each type, in the order of the bus, in which devices are
    assigned; the types follow each other in that order. If there are several types and one is not a
    product, only the count is checked.
    """
    rows = [[part.strip() for part in line.split(",")] for line in table.splitlines() if line]
    rows = [row for row in rows if len(row) == len(QUERY)]
    wanted = sum(declared.values())
    if len(rows) != wanted:
        asked = " and ".join(f"{n} {kind}" for kind, n in declared.items())
        return DeviceReport(unwell=f"it has {len(rows)} GPUs, and its pool declares {asked}")
    if len(declared) != 1 and not all(map(is_product, declared)):
        return DeviceReport()
    xids = _xids(kernel_log)
    bad: dict[str, tuple[int, ...]] = {}
    told: list[str] = []
    for kind, first in gpu_types(declared).items():
        own = rows[first : first + declared[kind]]
        others = sorted({row[1] for row in own if not _is_named(kind, row[1])})
        if others:
            where = f" from GPU {first} on" if len(declared) > 1 else ""
            has = f"it has {', '.join(others)}"
            return DeviceReport(unwell=f"its pool declares {kind}{where}, and {has}")
        found = {index: _fault(row, xids) for index, row in enumerate(own)}
        faults = {index: why for index, why in found.items() if why}
        bad |= {kind: tuple(faults)} if faults else {}
        told += [f"{kind} {index}: {why}" for index, why in faults.items()]
    return DeviceReport(bad=bad, text="; ".join(told))


def _fault(row: list[str], xids: Mapping[str, int]) -> str:
    """Return what is wrong with one GPU, in a few words."""
    *_, bus, ecc, remap, heat, slow = row
    xid = xids.get(_bus(bus))
    if xid is not None:
        return f"XID {xid}, {FATAL_XIDS[xid]}"
    if ecc.isdecimal() and int(ecc) > 0:
        return f"{ecc} uncorrected ECC errors"
    if remap.lower() in ("yes", "1"):
        return "a row of its memory could not be remapped"
    if slow.lower() == "active":
        return f"it is slowed down by heat, at {heat} degrees"
    return ""


def _xids(kernel_log: str) -> dict[str, int]:
    """Return the last fatal XID of each GPU, by its place on the bus."""
    told = ((_bus(found[1]), int(found[2])) for found in _XID.finditer(kernel_log))
    return {bus: xid for bus, xid in told if xid in FATAL_XIDS}


def _bus(place: str) -> str:
    """Return nvidia-smi's `00000000:0A:00.0` and the kernel's `0000:0a:00` in one form."""
    return ":".join(place.lower().partition(".")[0].split(":")[-2:])


def _is_named(kind: str, product: str) -> bool:
    """Whether a resource type may mean a product; a type that is not a product may mean any."""
    if not is_named_like_product(kind):
        return True
    return plain(kind) in re.sub(r"[^a-z0-9]", "", product.lower())


def _count_problem(declared: Mapping[str, int], files: Mapping[str, int]) -> str:
    for name, called, kinds in (("TPU", "TPU chips", TPUS), ("Neuron", "Neuron devices", NEURONS)):
        wanted = sum(n // units_a_chip(kind) for kind, n in declared.items() if kind in kinds)
        if wanted and files[name] != wanted:
            return f"it has {files[name]} {called}, and its pool declares {wanted}"
    return ""


def _device_files(dev: Path = Path("/dev")) -> dict[str, int]:
    """
    Return how many accelerators have a device file.

    Source: jax/_src/hardware_utils.py, for `/dev/accel<n>` and `/dev/vfio/<n>`; AWS Neuron
    documentation for `/dev/neuron<n>`.
    """
    tpus = _numbered(dev, "accel") or _numbered(dev / "vfio", "")
    return {"TPU": tpus, "Neuron": _numbered(dev, "neuron")}


def _numbered(folder: Path, prefix: str) -> int:
    files: Iterable[Path] = folder.iterdir() if folder.is_dir() else ()
    return sum(1 for file in files if re.fullmatch(rf"{prefix}\d+", file.name))


def kernel_log(device: Path = Path("/dev/kmsg")) -> str:
    """
    Return the kernel's log since an admin last cleared it; empty without permission to read it.

    The log outlives the reset of a device, so `dmesg --clear` says that its errors are over.
    Source: Documentation/ABI/testing/dev-kmsg of Linux, on `SEEK_DATA`.
    """
    said = []
    try:
        handle = os.open(device, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return ""
    try:
        os.lseek(handle, 0, os.SEEK_DATA)
        while True:
            try:
                record = os.read(handle, 8192)  # one record per call
            except BrokenPipeError:
                continue  # it was overwritten in the meantime: the next one follows
            if not record:
                break
            said.append(record)
    except OSError:
        pass  # there are no more
    finally:
        os.close(handle)
    return b"".join(said).decode(errors="replace")
