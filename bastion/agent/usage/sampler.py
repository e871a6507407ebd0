"""The sampler of a real machine: its process groups, its devices, and the machine as a whole."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from bastion.agent.usage.devices import DeviceProbe
from bastion.agent.usage.port import Group, Sample
from bastion.agent.usage.process_groups import ProcessGroups, network_bytes

_TICKS = os.sysconf("SC_CLK_TCK")


class MachineSampler:
    """
    Samples this machine.

    Args:
        probe: Reports its devices.
    """

    def __init__(self, probe: DeviceProbe) -> None:
        self._probe = probe
        self._groups = ProcessGroups()
        self._before: tuple[float, float, tuple[int, int]] | None = None

    def sample(self, groups: Mapping[str, Group], now: float) -> Sample:
        """See `Sampler`."""
        busy_s, network = _busy_s(), network_bytes("self") or (0, 0)
        before, self._before = self._before, (now, busy_s, network)
        cores = received = sent = 0.0
        if before is not None and now > before[0]:
            passed_s = now - before[0]
            cores = max(0.0, busy_s - before[1]) / passed_s
            received = max(0, network[0] - before[2][0]) / passed_s
            sent = max(0, network[1] - before[2][1]) / passed_s
        return Sample(
            groups=self._groups.look(groups, now),
            devices=self._probe.look(now),
            cores=round(cores, 3),
            memory_bytes=_memory_bytes(),
            received_bytes_s=round(received),
            sent_bytes_s=round(sent),
        )

    def close(self) -> None:
        """See `Sampler`."""
        self._probe.close()


def _busy_s() -> float:
    """Return the CPU seconds of all cores since the start of the machine, without idle time."""
    with suppress(OSError, ValueError, IndexError):
        with Path("/proc/stat").open() as file:
            counted = [int(number) for number in file.readline().split()[1:9]]
        user, nice, system, _idle, _wait, irq, softirq, steal = counted
        return (user + nice + system + irq + softirq + steal) / _TICKS
    return 0.0


def _memory_bytes() -> int:
    """Return the memory in use, without what can be reclaimed immediately."""
    with suppress(OSError, ValueError, KeyError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        told = {name: rest.split()[0] for name, _, rest in (line.partition(":") for line in lines)}
        return (int(told["MemTotal"]) - int(told["MemAvailable"])) * 1024
    return 0
