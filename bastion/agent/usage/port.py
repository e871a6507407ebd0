"""The samples that an agent takes of its machine every ten seconds: the port, and its values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Protocol

from bastion.records.reports.usage import DeviceUse, GroupUse
from bastion.value import value


@value
class DeviceProcess:
    """A process that has opened a device."""

    pid: int
    device: int
    memory_bytes: int = 0
    name: str = ""
    user: str = ""
    mark: str = ""
    """The keeper's mark in its environment; empty if no keeper started it."""


@value
class Devices:
    """The devices of a machine as their driver reports them."""

    each: tuple[DeviceUse, ...] = ()
    processes: tuple[DeviceProcess, ...] = ()


@value
class Group:
    """The processes of one host, to be sampled."""

    pids: tuple[int, ...]
    """The processes that the keeper started; their descendants belong to the group too."""
    started_at: float
    """On the keeper's clock."""


@value
class Sample:
    """The result of one look."""

    groups: Mapping[str, GroupUse] = field(default_factory=dict)
    """Hosts by the keeper's key."""
    devices: Devices = Devices()
    cores: float = 0.0
    """In use on the whole machine."""
    memory_bytes: int = 0
    received_bytes_s: float = 0.0
    sent_bytes_s: float = 0.0


class Sampler(Protocol):
    """Samples a machine; called on one thread at a time, and may take seconds."""

    def sample(self, groups: Mapping[str, Group], now: float) -> Sample:
        """Return the use of `groups`, the devices and the machine; omits what cannot be seen."""
        ...

    def close(self) -> None:
        """End everything that it started."""
        ...
