"""
The samples of one host: a summary over its whole run, and segments for its bucket.

A segment is sealed when it is as long as a quarter of the run before it, but at least a minute and
at most half an hour, and at the end. So a run of a day leaves about sixty objects of a few
kilobytes. Its bytes are fixed before the first try, and its number is on disk by then: an agent
that is killed loses the samples that were in no segment, and nothing of the summary before them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from math import isfinite
from pathlib import Path

from bastion.agent.machine.job_files import read_start, replace_file
from bastion.records.keys import layout
from bastion.records.reports.facts import HostFact
from bastion.records.reports.usage import MAX_SAMPLES, DeviceUse, GroupUse, UsageSegment, packed
from bastion.utilisation import IDLE, Utilisation, summed
from bastion.value import value

SHORTEST_S = 60.0
LONGEST_S = 1800.0
_PART = 4
"""A segment holds one part in this many of the run before it."""
_KEPT_BYTES = 64 << 10


@value
class Holding:
    """What a host holds, and how to react when it leaves that idle."""

    devices: tuple[int, ...] = ()
    """Device numbers as their driver counts them."""
    idle_warning_s: float = 0.0
    """How long they may be idle before that is reported; 0: forever."""
    stops_idle: bool = False
    """Whether the host is then stopped."""
    in_containers: bool = False
    """Whether its processes do not have the keeper's mark."""


class HostSeries:
    """
    The samples of one host.

    Args:
        of: The host.
        holding: What it holds; None: an earlier agent started it, and left that in `path`.
        path: Where the summary is kept while the host runs.
        started_at: When the host started, on the agent's clock.
    """

    def __init__(
        self, of: HostFact, holding: Holding | None, path: Path, *, started_at: float
    ) -> None:
        self._path = path
        self._prefix = layout.usage(
            of.project, of.job, of.attempt, replica=of.replica, host=of.host
        )
        self.started_at = started_at
        self._percents: Counter[int] = Counter()
        self._looks, self._cores, self._memory_bytes = 0, 0.0, 0
        self._number = 0
        self._rows: list[tuple[int, Mapping[int, DeviceUse], GroupUse]] = []
        self._since = started_at
        self._busy_at: float | None = None
        self.pending: tuple[str, bytes] | None = None
        """The segment that is being sent: its key and its bytes."""
        if holding is None:
            self.holding = self._restore()
        else:
            self.holding = holding
            if holding.devices:
                self._keep()

    def add(
        self, devices: Mapping[int, DeviceUse], use: GroupUse | None, *, at: int, now: float
    ) -> None:
        """Count one sample; `at` is the machine's time, `now` the agent's."""
        mine = {i: devices[i] for i in self.holding.devices if i in devices}
        told = [each.used for each in mine.values() if each.used is not None]
        self._percents.update(round(100 * used) for used in told)
        if self._busy_at is None or not told or max(told) >= IDLE:
            self._busy_at = now
        use = use or GroupUse()
        self._looks += 1
        self._cores += use.cores
        self._memory_bytes = max(self._memory_bytes, use.memory_bytes)
        if len(self._rows) < MAX_SAMPLES:
            self._rows.append((at, mine, use))

    def idle_s(self, now: float) -> float:
        """Return how long all its devices have been idle by now; 0 if unknown."""
        return max(0.0, now - self._busy_at) if self._busy_at is not None else 0.0

    def seal(self, now: float, *, is_end: bool = False) -> bool:
        """Fix the next segment if it is due; return whether there is one to send."""
        if self.pending is None and self._rows and (is_end or now >= self._due_at()):
            key = layout.usage_segment(self._prefix, self._number)
            self.pending = key, packed(_segment(self._rows))
            self._rows, self._since = [], now
            self._number += 1
            self._keep()
        return self.pending is not None

    def renumber(self) -> None:
        """Give the pending segment the next number: an earlier agent used this one."""
        assert self.pending is not None
        self.pending = layout.usage_segment(self._prefix, self._number), self.pending[1]
        self._number += 1
        self._keep()

    def landed(self) -> None:
        """Record that the pending segment is in the bucket, or will never be."""
        self.pending = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits to be sent."""
        return not self._rows and self.pending is None

    def summary(self) -> Utilisation | None:
        """Return the summary; None if it was never sampled."""
        if not self._looks:
            return None
        cores = self._cores / self._looks
        return summed(self._percents, cores=cores, memory_bytes=self._memory_bytes)

    def forget(self) -> None:
        """Delete what is kept on this machine."""
        with suppress(OSError):
            self._path.unlink()

    def _due_at(self) -> float:
        run_s = self._since - self.started_at
        return self._since + min(LONGEST_S, max(SHORTEST_S, run_s / _PART))

    def _keep(self) -> None:
        # A full disk is no reason to stop a job or its samples.
        said = {
            "devices": list(self.holding.devices),
            "idle_warning_s": self.holding.idle_warning_s,
            "stops_idle": self.holding.stops_idle,
            "in_containers": self.holding.in_containers,
            "number": self._number,
            "percents": sorted(self._percents.items()),
            "looks": self._looks,
            "cores": self._cores,
            "memory_bytes": self._memory_bytes,
        }
        with suppress(OSError):
            self._path.parent.mkdir(exist_ok=True)
            replace_file(str(self._path), json.dumps(said).encode())

    def _restore(self) -> Holding:
        try:
            said = json.loads(read_start(str(self._path), _KEPT_BYTES))
            self._percents.update({int(percent): int(n) for percent, n in said["percents"]})
            self._number = int(said["number"])
            self._looks, self._memory_bytes = int(said["looks"]), int(said["memory_bytes"])
            self._cores = float(said["cores"]) if isfinite(said["cores"]) else 0.0
            return Holding(
                devices=tuple(map(int, said["devices"])),
                idle_warning_s=float(said["idle_warning_s"]),
                stops_idle=bool(said["stops_idle"]),
                in_containers=bool(said["in_containers"]),
            )
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return Holding()


def _segment(rows: list[tuple[int, Mapping[int, DeviceUse], GroupUse]]) -> UsageSegment:
    indices = sorted({index for _, devices, _ in rows for index in devices})
    return UsageSegment(
        at=tuple(at for at, _, _ in rows),
        used={str(i): tuple(_percent(devices.get(i)) for _, devices, _ in rows) for i in indices},
        device_memory_mib={
            str(i): tuple(
                devices[i].memory_bytes >> 20 if i in devices else 0 for _, devices, _ in rows
            )
            for i in indices
        },
        cores=tuple(use.cores for _, _, use in rows),
        memory_mib=tuple(use.memory_bytes >> 20 for _, _, use in rows),
        disk_kib_s=tuple(int(use.read_bytes_s + use.written_bytes_s) >> 10 for _, _, use in rows),
        network_kib_s=tuple(_network(use) for _, _, use in rows),
    )


def _percent(device: DeviceUse | None) -> int:
    return -1 if device is None or device.used is None else round(100 * device.used)


def _network(use: GroupUse) -> int:
    if use.received_bytes_s is None or use.sent_bytes_s is None:
        return -1
    return int(use.received_bytes_s + use.sent_bytes_s) >> 10
