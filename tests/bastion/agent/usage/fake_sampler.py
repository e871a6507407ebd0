"""A sampler that returns what a test wants."""

from __future__ import annotations

from collections.abc import Mapping

from bastion.agent.usage.port import DeviceProcess, Devices, Group, Sample
from bastion.records.reports.usage import DeviceUse, GroupUse


class FakeSampler:
    """Devices with these uses; every group uses `use`."""

    def __init__(self, *used: float | None, use: GroupUse | None = None) -> None:
        self.used = used
        self.use = use or GroupUse(cores=2.0, memory_bytes=3 << 30, processes=1)
        self.processes: tuple[DeviceProcess, ...] = ()
        self.error: Exception | None = None
        self.looks = 0
        self.is_closed = False

    def sample(self, groups: Mapping[str, Group], now: float) -> Sample:
        """See `Sampler`."""
        self.looks += 1
        if self.error is not None:
            raise self.error
        each = tuple(
            DeviceUse(index=i, used=used, memory_bytes=1 << 30, memory_total_bytes=80 << 30)
            for i, used in enumerate(self.used)
        )
        return Sample(
            groups=dict.fromkeys(groups, self.use),
            devices=Devices(each=each, processes=self.processes),
        )

    def close(self) -> None:
        """See `Sampler`."""
        self.is_closed = True
