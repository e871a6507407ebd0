"""
Devices that foreign processes hold: no job is placed on them until those processes have ended.

A driver counts its devices from 0, and a machine counts each type from 0: `gpu_types` has where
each type starts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from bastion.agent.begin.devices import DeviceReport
from bastion.agent.setup.environment import TPUS
from bastion.agent.setup.gpu_types import gpu_types
from bastion.catalog import units_a_chip
from bastion.records.reports.usage import ForeignProcess

_MOST_NAMED = 8
"""Most processes that one report lists with the devices that they hold."""
NO_HOLDERS = DeviceReport()


def held_devices(foreign: Sequence[ForeignProcess], declared: Mapping[str, int]) -> DeviceReport:
    """Return which `declared` devices foreign processes hold, and a text about these processes."""
    firsts = {**dict.fromkeys(TPUS & declared.keys(), 0), **gpu_types(declared)}
    holders: dict[tuple[str, int], ForeignProcess] = {}
    for process in foreign:
        for device in process.devices:
            for kind, first in firsts.items():
                per = units_a_chip(kind)
                begin, end = (device - first) * per, (device - first + 1) * per
                for index in range(max(0, begin), min(end, declared[kind])):
                    holders.setdefault((kind, index), process)
    held: dict[str, list[int]] = defaultdict(list)
    by: dict[int, list[str]] = defaultdict(list)
    for kind, index in sorted(holders):
        held[kind].append(index)
        by[holders[kind, index].pid].append(f"{kind} {index}")
    processes = {each.pid: each for each in holders.values()}
    told = [
        f"process {pid} ({processes[pid].name or 'unnamed'}) of user"
        f" {processes[pid].user or 'unknown'}, which is not of this bastion, holds"
        f" {', '.join(devices)}"
        for pid, devices in list(by.items())[:_MOST_NAMED]
    ]
    more = len(by) - len(told)
    text = "; ".join([*told, *([f"and {more} more"] if more else [])])
    return DeviceReport(bad={kind: tuple(found) for kind, found in held.items()}, text=text)


def both(first: DeviceReport, second: DeviceReport) -> DeviceReport:
    """Return two reports combined in one."""
    kinds = dict.fromkeys([*first.bad, *second.bad])
    bad = {
        kind: tuple(sorted({*first.bad.get(kind, ()), *second.bad.get(kind, ())})) for kind in kinds
    }
    text = "; ".join(filter(None, (first.text, second.text)))
    return DeviceReport(bad=bad, text=text, unwell=first.unwell or second.unwell)
