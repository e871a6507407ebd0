"""`bastion top` and the usage in `bastion show`, on a bucket with known sums."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.reports.usage import DeviceUse, ForeignProcess, GroupUse, HostUse, MachineUse
from bastion.utilisation import Utilisation
from launch.commands.look.use_text import bars, size, used_text
from tests.launch.bucket import JOB, Bucket
from tests.launch.command_line import Run
from tests.launch.terminal import drawn
from tests.rigs.scripted_bastion import publish, row

GIB = 2**30


@pytest.fixture
def used(bucket: Bucket) -> Bucket:
    """Write two machines of four devices: on the first a job on two, and a foreign process."""
    units = {"h100": 4, "cpu": 16, "memory": 64 * GIB}
    machines = [
        {"name": f"gpu-1-{n}", "pool": "gpu", "phase": "ready", "resources": units}
        for n in range(2)
    ]
    machines[0] |= {"jobs": [JOB], "held": {JOB: {"h100": [0, 1]}}}
    publish(bucket.store, "pool", {"machines": machines, "pools": []})
    publish(bucket.store, "queue", {"jobs": [row(JOB, state="running", machines=["gpu-1-0"])]})
    use = MachineUse(
        machine="gpu-1-0",
        devices=tuple(
            DeviceUse(index=n, used=used, memory_bytes=n * GIB, memory_total_bytes=80 * GIB)
            for n, used in enumerate((1.0, 0.5, 0.0, None))
        ),
        hosts=(
            HostUse(
                project="blue",
                job=JOB,
                attempt=1,
                devices=(0, 1),
                use=GroupUse(cores=3.5, memory_bytes=6 * GIB),
            ),
        ),
        foreign=(ForeignProcess(pid=77, name="python3", user="eve", devices=(2,)),),
        cores=4.0,
        memory_bytes=9 * GIB,
    )
    bucket.store.create(layout.machine_use("gpu-1-0"), encode(use))
    return bucket


def test_top_shows_devices_by_holder(run: Run, used: Bucket) -> None:
    """There is one line for the devices of each holder, and one for a foreign process."""
    lines = run("top").out.splitlines()
    heads = "MACHINE DEVICES JOB USER USED EACH MEMORY CORES RAM"
    assert lines[0].split() == heads.split()
    assert lines[1].split()[:6] == ["gpu-1-0", "h100", "0-1", JOB, "ada", "75%"]
    assert lines[1].split()[6:] == ["█▅", "1/160", "GiB", "3.5", "6.0", "GiB"]
    assert lines[2].split()[:5] == ["gpu-1-0", "h100", "2-3", "-", "-"]
    assert "0%" in lines[2]
    assert "▁·" in lines[2]
    assert "foreign: python3 77  eve" in lines[3]
    assert lines[4].split()[:3] == ["gpu-1-1", "h100", "0-3"]


def test_top_is_whole_as_json(run: Run, used: Bucket) -> None:
    """Every device is separate; a machine without a report has no time of it."""
    told = json.loads(run("top", "--json").out)["machines"]
    assert [machine["name"] for machine in told] == ["gpu-1-0", "gpu-1-1"]
    assert [device["used"] for device in told[0]["devices"]] == [1.0, 0.5, 0.0, None]
    assert [device["job"] for device in told[0]["devices"]] == [JOB, JOB, "", ""]
    assert told[0]["foreign"][0]["name"] == "python3"
    assert told[1]["at"] is None


def test_top_fits_below_a_hundred_columns(used: Bucket, tmp_path: Path) -> None:
    """On a terminal of ninety columns, no line is wrapped."""
    lines = drawn(["top", "--once"], used, tmp_path, columns=90)
    assert all(len(line) <= 90 for line in lines)
    assert lines[0].split()[-1] == "RAM"


def test_an_unreadable_use_is_left_out(run: Run, used: Bucket) -> None:
    """A wrong report of an agent, or one about another machine, is not shown."""
    for n, data in enumerate((b"spoilt", encode(MachineUse(machine="gpu-1-0")))):
        key = layout.machine_use("gpu-1-1")
        used.store.delete(key)
        used.store.create(key, data)
        told = json.loads(run("top", "--json").out)["machines"][1]
        assert (n, told["at"], told["hosts"]) == (n, None, [])


def test_show_tells_what_a_running_job_uses(run: Run, used: Bucket) -> None:
    """It shows the job's devices, the least used one, and CPUs and memory of its processes."""
    (line,) = [line for line in run("show", JOB).out.splitlines() if line.startswith("uses now")]
    assert (
        "its 2 devices 75%, the least used 50%, 1.0 GiB of their memory; 3.5 cores; 6.0 GiB" in line
    )


def test_use_is_told_in_words() -> None:
    """The usage of an attempt is one line; the height of a bar shows that of a device."""
    used = Utilisation(
        samples=4, mean=0.5, p50=0.4, max=1.0, idle=0.25, cores=2.0, memory_bytes=GIB
    )
    assert used_text(used) == (
        "devices 50% on average, median 40%, at most 100%, idle 25% of the time;"
        " 2.0 cores, 1.0 GiB at most"
    )
    assert used_text(None) == ""
    assert bars([0.0, 0.5, 1.0, None]) == "▁▅█·"
    assert [size(n) for n in (512, 3 << 20, 61 * GIB, 3 << 40)] == [
        *("0 KiB", "3.0 MiB", "61 GiB", "3.0 TiB")
    ]
