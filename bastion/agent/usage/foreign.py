"""The processes on the devices of a machine that no job of this bastion started."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

from bastion.agent.usage.port import Devices
from bastion.errors import BastionError
from bastion.records.reports.usage import ForeignProcess


def foreign_processes(
    devices: Devices, mark_prefix: str, boxed: Collection[int] = ()
) -> tuple[ForeignProcess, ...]:
    """
    Return the processes on devices that no keeper of this home started.

    Args:
        devices: As their driver reports them.
        mark_prefix: The prefix of the keeper's marks: its home.
        boxed: Devices of hosts in containers: processes there have no mark, and count as the
            host's.
    """
    found: dict[int, ForeignProcess] = {}
    for each in devices.processes:
        if each.mark.startswith(mark_prefix) or each.device in boxed:
            continue
        with suppress(BastionError):
            before = found.get(each.pid)
            found[each.pid] = ForeignProcess(
                pid=each.pid,
                name=each.name,
                user=each.user,
                devices=(*(before.devices if before else ()), each.device),
                memory_bytes=each.memory_bytes + (before.memory_bytes if before else 0),
            )
    return tuple(found[pid] for pid in sorted(found))
