"""A description of this machine, in lines for people."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from bastion.agent.settings import AgentSettings
from bastion.spec.values.quantity import text_of_bytes, text_of_seconds, text_of_units
from bastion.version import version_line


def machine_lines(
    settings: AgentSettings, *, life: int, hosts: int, ahead_s: float | None
) -> Iterator[str]:
    """
    Describe this machine as it is now.

    Args:
        settings: The settings of its agent.
        life: The keeper's life.
        hosts: How many hosts of attempts are here.
        ahead_s: How far its clock is ahead of the store's; None if unknown.
    """
    yield f"host {settings.hostname}, address {settings.address}"
    yield f"bastion {version_line(settings.version, settings.build)}, keeper life {life}"
    yield f"has {text_of_units(settings.resources.items()) or 'nothing declared'}"
    yield f"{hosts} hosts of attempts are here"
    up_s = float(Path("/proc/uptime").read_text().split()[0])
    yield f"up for {text_of_seconds(float(int(up_s)))}"
    yield "load " + " ".join(f"{load:.2f}" for load in os.getloadavg())
    yield f"{text_of_bytes(_available_bytes())} of memory are available"
    disk = shutil.disk_usage(settings.home)
    yield f"{text_of_bytes(disk.free)} of {text_of_bytes(disk.total)} of its disk are free"
    if ahead_s is not None:
        off_s = round(ahead_s, 1)
        where = "ahead of" if off_s >= 0 else "behind"
        yield f"its clock is {abs(off_s):.1f} s {where} the bucket's"


def _available_bytes() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return int(fields["MemAvailable"].split()[0]) << 10
