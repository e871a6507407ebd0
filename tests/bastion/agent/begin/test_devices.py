"""The device check says which device is bad and why, and whether devices are as declared."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bastion.agent.begin.devices import (
    _count_problem,
    _device_files,
    gpu_report,
    kernel_log,
    look_at_devices,
)


def row(index: int, *, name: str = "NVIDIA H100 80GB HBM3", ecc: str = "0", **other: str) -> str:
    said = {"remap": "No", "heat": "34", "slow": "Not Active", **other}
    bus = f"00000000:{index + 16:02X}:00.0"
    return ", ".join([str(index), name, bus, ecc, said["remap"], said["heat"], said["slow"]])


def table(*rows: str) -> str:
    return "\n".join(rows) + "\n"


def test_healthy_devices_are_no_news() -> None:
    """Devices of the declared number and name, without errors, cause no message."""
    report = gpu_report({"h100": 2}, table(row(0), row(1)), "")
    assert (dict(report.bad), report.text, report.unwell) == ({}, "", "")


def test_an_error_names_its_device() -> None:
    """ECC errors, failed rows and heat make only that device bad."""
    rows = table(row(0), row(1, ecc="3"), row(2, remap="Yes"), row(3, slow="Active", heat="91"))
    report = gpu_report({"h100": 4}, rows, "")
    assert report.bad == {"h100": (1, 2, 3)}
    assert report.text == (
        "h100 1: 3 uncorrected ECC errors; h100 2: a row of its memory could not be remapped;"
        " h100 3: it is slowed down by heat, at 91 degrees"
    )
    assert report.unwell == ""


def test_a_fatal_xid_is_found_by_its_place_on_the_bus() -> None:
    """XID 79 of the kernel's log belongs to one device; XID 31 is a program's own fault."""
    log = (
        "4,1,2,-;NVRM: Xid (PCI:0000:11:00): 79, pid=1, GPU has fallen off the bus.\n"
        "4,1,2,-;NVRM: Xid (PCI:0000:10:00): 31, pid=2, MMU Fault\n"
    )
    report = gpu_report({"h100": 2}, table(row(0), row(1)), log)
    assert report.bad == {"h100": (1,)}
    assert report.text == "h100 1: XID 79, it has fallen off the bus"


def test_an_xid_before_the_log_was_cleared_no_longer_counts(tmp_path: Path) -> None:
    """The log outlives a reset of the GPU; in a file, a hole is what the kernel has cleared."""
    log, xid = tmp_path / "kmsg", b"4,7,0,-;NVRM: Xid (PCI:0000:0a:00): 79, GPU is gone\n"
    log.write_bytes(xid)
    assert kernel_log(log) == xid.decode()
    os.truncate(log, 0)
    os.truncate(log, 1 << 20)
    with log.open("ab") as file:
        file.write(b"5,8,1,-;usb 1-1: new device\n")
    assert kernel_log(log) == "5,8,1,-;usb 1-1: new device\n"
    assert kernel_log(tmp_path / "none") == ""


def test_a_card_without_ecc_is_well() -> None:
    """Features that a card does not support are shown as [N/A], which is no error."""
    rows = table(row(0, name="NVIDIA L4", ecc="[N/A]", remap="[N/A]", slow="[N/A]"))
    assert gpu_report({"l4": 1}, rows, "").bad == {}


def test_a_missing_device_makes_the_machine_unwell() -> None:
    """The missing one cannot be identified, because the others move up."""
    report = gpu_report({"h100": 8}, table(*map(row, range(7))), "")
    assert report.unwell == "it has 7 GPUs, and its pool declares 8 h100"


def test_other_devices_make_the_machine_unwell() -> None:
    """A job that asks for h100 must not get a100; a type that is no product is not checked."""
    rows = table(row(0, name="NVIDIA A100-SXM4-80GB"))
    assert "it has NVIDIA A100-SXM4-80GB" in gpu_report({"h100": 1}, rows, "").unwell
    assert gpu_report({"gpu": 1}, rows, "").unwell == ""
    assert gpu_report({"a100-80gb": 1}, rows, "").unwell == ""


def test_several_types_follow_each_other() -> None:
    """Each is judged by its own rows, in the order of the names by which jobs get them."""
    a100, h100 = row(0).replace("H100", "A100"), row(1)
    declared = {"h100": 1, "a100": 1}
    assert gpu_report(declared, table(a100, h100), "").unwell == ""
    swapped = gpu_report(declared, table(h100, a100), "").unwell
    assert swapped.startswith("its pool declares a100 from GPU 0 on, and it has NVIDIA H100")


def test_device_files_are_counted(tmp_path: Path) -> None:
    """TPUs are files accel<n>, or numbers below vfio; the common file of vfio is none."""
    (tmp_path / "vfio").mkdir()
    for name in ("vfio/vfio", "vfio/0", "vfio/1", "neuron0", "neuron_core0", "null"):
        (tmp_path / name).touch()
    assert _device_files(tmp_path) == {"TPU": 2, "Neuron": 1}
    (tmp_path / "accel0").touch()
    assert _device_files(tmp_path)["TPU"] == 1


@pytest.mark.parametrize(("declared", "chips"), [({"v4": 8, "cpu": 240}, 4), ({"v5e": 4}, 4)])
def test_a_tpu_is_counted_by_its_chips(declared: dict[str, int], chips: int) -> None:
    """A v4 host of eight cores has four chips with one file each; a v5e is counted in chips."""
    assert _count_problem(declared, {"TPU": chips, "Neuron": 0}) == ""
    said = _count_problem(declared, {"TPU": chips - 1, "Neuron": 0})
    assert said == f"it has {chips - 1} TPU chips, and its pool declares {chips}"


FAKE = Path(__file__).parent / "fake_nvml"


def looked(monkeypatch: pytest.MonkeyPatch, fault: str = "", **declared: int) -> tuple[object, ...]:
    """Return the result of a real look with a fake driver library."""
    monkeypatch.setenv("PYTHONPATH", str(FAKE))
    monkeypatch.setenv("FAULT", fault)
    report = look_at_devices(declared or {"h100": 2})
    return dict(report.bad), report.text, report.unwell


def test_gpus_are_asked_of_the_drivers_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count, names, ECC errors and heat are read; a value that a device lacks is no fault."""
    assert looked(monkeypatch) == ({}, "", "")
    bad = {"h100": (1,)}
    assert looked(monkeypatch, "ecc") == (bad, "h100 1: 3 uncorrected ECC errors", "")
    hot = "h100 1: it is slowed down by heat, at 91 degrees"
    assert looked(monkeypatch, "heat") == (bad, hot, "")
    assert looked(monkeypatch, a100=2)[2] == (
        "its pool declares a100, and it has NVIDIA H100 80GB HBM3"
    )
    assert looked(monkeypatch, h100=8)[2] == "it has 2 GPUs, and its pool declares 8 h100"


def test_an_xid_of_the_library_counts_where_no_log_is(tmp_path: Path) -> None:
    """It is printed in the kernel's format, and names its device."""
    environ = {**os.environ, "PYTHONPATH": str(FAKE), "FAULT": "xid"}
    command = [sys.executable, "-m", "bastion.agent.begin.nvml", "0.05"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    report = gpu_report({"h100": 2}, done.stdout, done.stdout)
    assert report.text == "h100 1: XID 79, it has fallen off the bus"


def test_a_library_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine is unwell, in the driver's own words."""
    assert "NVMLError: Driver Not Loaded" in str(looked(monkeypatch, "driver")[2])


def test_nvidia_smi_is_asked_where_the_library_is_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its text is the fallback; if neither exists, the message says so."""
    smi = tmp_path / "nvidia-smi"
    smi.write_text(f"#!/bin/sh\ncat <<'END'\n{table(row(0), row(1, ecc='3'))}END\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert look_at_devices({"h100": 2}).text == "h100 1: 3 uncorrected ECC errors"
    monkeypatch.setenv("PATH", "/nonexistent")
    unwell = "its GPUs cannot be queried: there is no nvidia-smi"
    assert look_at_devices({"h100": 2}).unwell == unwell
