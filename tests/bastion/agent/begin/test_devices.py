"""The check of devices says which is bad and why, and when a machine is not what was declared."""

from __future__ import annotations

from pathlib import Path

from bastion.agent.begin.devices import _device_files, gpu_report


def row(index: int, *, name: str = "NVIDIA H100 80GB HBM3", ecc: str = "0", **other: str) -> str:
    said = {"remap": "No", "heat": "34", "slow": "Not Active", **other}
    bus = f"00000000:{index + 16:02X}:00.0"
    return ", ".join([str(index), name, bus, ecc, said["remap"], said["heat"], said["slow"]])


def table(*rows: str) -> str:
    return "\n".join(rows) + "\n"


def test_healthy_devices_are_no_news() -> None:
    """As many as declared, of that name, without errors: nothing is said."""
    report = gpu_report({"h100": 2}, table(row(0), row(1)), "")
    assert (dict(report.bad), report.text, report.unwell) == ({}, "", "")


def test_an_error_names_its_device() -> None:
    """ECC errors, failed rows and heat make that device bad, and no other."""
    rows = table(row(0), row(1, ecc="3"), row(2, remap="Yes"), row(3, slow="Active", heat="91"))
    report = gpu_report({"h100": 4}, rows, "")
    assert report.bad == {"h100": (1, 2, 3)}
    assert report.text == (
        "h100 1: 3 uncorrected ECC errors; h100 2: a row of its memory could not be remapped;"
        " h100 3: it is slowed down by heat, at 91 degrees"
    )
    assert report.unwell == ""


def test_a_fatal_xid_is_found_by_its_place_on_the_bus() -> None:
    """XID 79 of the kernel's log is of one device; XID 31 is a program's own fault."""
    log = (
        "4,1,2,-;NVRM: Xid (PCI:0000:11:00): 79, pid=1, GPU has fallen off the bus.\n"
        "4,1,2,-;NVRM: Xid (PCI:0000:10:00): 31, pid=2, MMU Fault\n"
    )
    report = gpu_report({"h100": 2}, table(row(0), row(1)), log)
    assert report.bad == {"h100": (1,)}
    assert report.text == "h100 1: XID 79, it has fallen off the bus"


def test_a_card_without_ecc_is_well() -> None:
    """What a card does not support is told as [N/A], which is no error."""
    rows = table(row(0, name="NVIDIA L4", ecc="[N/A]", remap="[N/A]", slow="[N/A]"))
    assert gpu_report({"l4": 1}, rows, "").bad == {}


def test_a_missing_device_makes_the_machine_unwell() -> None:
    """Which one is missing cannot be known, for the others move up."""
    report = gpu_report({"h100": 8}, table(*map(row, range(7))), "")
    assert report.unwell == "it has 7 GPUs, and its pool declares 8 h100"


def test_other_devices_make_the_machine_unwell() -> None:
    """A job that asks for h100 must not meet a100; a type that is no product is not read."""
    rows = table(row(0, name="NVIDIA A100-SXM4-80GB"))
    assert "it has NVIDIA A100-SXM4-80GB" in gpu_report({"h100": 1}, rows, "").unwell
    assert gpu_report({"gpu": 1}, rows, "").unwell == ""
    assert gpu_report({"a100-80gb": 1}, rows, "").unwell == ""


def test_device_files_are_counted(tmp_path: Path) -> None:
    """TPUs are files accel<n>, or numbers below vfio; the file of all of vfio is none."""
    (tmp_path / "vfio").mkdir()
    for name in ("vfio/vfio", "vfio/0", "vfio/1", "neuron0", "neuron_core0", "null"):
        (tmp_path / name).touch()
    assert _device_files(tmp_path) == {"TPU": 2, "Neuron": 1}
    (tmp_path / "accel0").touch()
    assert _device_files(tmp_path)["TPU"] == 1
