"""
How much devices are used, as gauges: agents' recent reports, joined with the jobs that hold them.

Only a page server reads this; a bastion neither reads nor writes what agents sample.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric

from bastion.records.reports.usage import MachineUse
from bastion.utilisation import IDLE

Uses = Mapping[str, MachineUse]
_COUNTED = frozenset({"cpu", "memory"})


def use_gauges(queue: Mapping[str, Any], pool: Mapping[str, Any], uses: Uses) -> Iterator[Metric]:
    """Yield the use of devices by project and by machine; skip machines without a report."""
    projects = {row["id"]: row["project"] for row in queue.get("jobs") or ()}
    projects |= {row["id"]: row["project"] for row in queue.get("arrays") or ()}
    used: Counter[tuple[str, str]] = Counter()
    told: Counter[tuple[str, str]] = Counter()
    idle: Counter[tuple[str, str]] = Counter()
    foreign: Counter[tuple[str]] = Counter()
    machines: dict[tuple[str, str], float] = {}
    for row in pool.get("machines") or ():
        use, name = uses.get(row["name"]), row.get("pool", "")
        if use is None:
            continue
        foreign[(name,)] += len(use.foreign)
        each = {device.index: device.used for device in use.devices if device.used is not None}
        if each:
            machines[name, row["name"]] = sum(each.values()) / len(each)
        for job, index in _held(row):
            if index not in each:
                continue
            key = name, projects.get(job, "")
            used[key] += each[index]  # type: ignore[assignment]
            told[key] += 1
            idle[key] += each[index] < IDLE
    by_project = ("pool", "project")
    yield _gauge(
        "device_use_ratio",
        "Mean use of the devices that a project holds and that report it, 0 to 1",
        by_project,
        {key: used[key] / number for key, number in told.items()},
    )
    yield _gauge("devices_told", "Held devices that report their use", by_project, told)
    yield _gauge(
        "devices_held_idle", "Held devices that are used less than 5 % now", by_project, idle
    )
    yield _gauge(
        "machine_device_use_ratio",
        "Mean use of the devices of a machine, 0 to 1",
        ("pool", "machine"),
        machines,
    )
    yield _gauge(
        "foreign_processes",
        "Processes on devices that no job of this bastion started",
        ("pool",),
        foreign,
    )


def _held(row: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield every device of a machine that a job holds: (job, index)."""
    held: Mapping[str, Mapping[str, list[int]]] = row.get("held") or {}
    for job, kinds in held.items():
        for kind, indices in kinds.items():
            if kind not in _COUNTED:
                yield from ((job, index) for index in indices)


def _gauge(
    name: str, meaning: str, labels: tuple[str, ...], found: Mapping[Any, float]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"bastion_{name}", meaning, labels=labels)
    for values, number in sorted(found.items()):
        family.add_metric([str(each) for each in values], number)
    return family
