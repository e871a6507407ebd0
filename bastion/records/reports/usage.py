"""
What agents sample: the current use of a machine, and the use of a host over its run.

Agents write both, and a job shares its agent's identity. So every list is bounded, every text is
clipped, and no decision is ever based on them: they are only displayed.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from bastion.bounds import check_count, check_whole, clipped, within
from bastion.errors import RecordError, SpecError
from bastion.records.coding.codec import decode, encode
from bastion.value import value

MAX_DEVICES = 1_024
MAX_HOSTS = 1_024
"""Maximum number of hosts of attempts on one machine."""
MAX_FOREIGN = 64
"""Maximum number of foreign processes that are named; a shared machine may have more."""
MAX_SAMPLES = 400
"""Maximum samples in one segment: an hour at one every ten seconds, and some more."""
SEGMENT_BYTES = 1 << 20
"""Maximum bytes of a segment that a reader accepts, packed and unpacked."""
MACHINE_BYTES = 256 << 10
"""Maximum bytes of a machine's use that a reader accepts."""
_BYTES = 10**15
_NAME_CHARACTERS = 200
_RATE = 1e13


@value
class DeviceUse:
    """One device at one moment."""

    index: int
    """Its index, as its driver counts it."""
    used: float | None = None
    """0 to 1; None: unknown, as for a device that is split into several."""
    memory_bytes: int = 0
    memory_total_bytes: int = 0

    def __post_init__(self) -> None:
        check_whole("index", self.index, most=MAX_DEVICES - 1)
        check_whole("memory_bytes", self.memory_bytes, most=_BYTES)
        check_whole("memory_total_bytes", self.memory_total_bytes, most=_BYTES)
        if self.used is not None:
            object.__setattr__(self, "used", within(self.used, most=1.0))


@value
class GroupUse:
    """What the processes of one host use together; rates are per second since the last sample."""

    cores: float = 0.0
    memory_bytes: int = 0
    processes: int = 0
    read_bytes_s: float = 0.0
    written_bytes_s: float = 0.0
    """Disk rates."""
    received_bytes_s: float | None = None
    sent_bytes_s: float | None = None
    """None: it shares its network with other hosts."""

    def __post_init__(self) -> None:
        check_whole("memory_bytes", self.memory_bytes, most=_BYTES)
        check_whole("processes", self.processes, most=_BYTES)
        for name in (
            "cores",
            "read_bytes_s",
            "written_bytes_s",
            "received_bytes_s",
            "sent_bytes_s",
        ):
            number = getattr(self, name)
            if number is not None:
                object.__setattr__(self, name, within(number, most=_RATE))


@value
class HostUse:
    """One host of an attempt on a machine, and what it uses."""

    project: str
    job: str
    attempt: int
    replica: int = 0
    host: int = 0
    devices: tuple[int, ...] = ()
    """Indices of the devices that it holds, as their driver counts them."""
    use: GroupUse = GroupUse()

    def __post_init__(self) -> None:
        check_count("devices", len(self.devices), most=MAX_DEVICES)
        for name in ("project", "job"):
            check_count(f"{name}: characters", len(getattr(self, name)), most=_NAME_CHARACTERS)
        for name in ("attempt", "replica", "host"):
            check_whole(name, getattr(self, name))


@value
class ForeignProcess:
    """A process on a device of the machine that no job of this bastion started."""

    pid: int
    name: str = ""
    user: str = ""
    """One of the machine's own users."""
    devices: tuple[int, ...] = ()
    memory_bytes: int = 0

    def __post_init__(self) -> None:
        check_count("devices", len(self.devices), most=MAX_DEVICES)
        check_whole("memory_bytes", self.memory_bytes, most=_BYTES)
        check_whole("pid", self.pid)
        object.__setattr__(self, "name", clipped(self.name, _NAME_CHARACTERS))
        object.__setattr__(self, "user", clipped(self.user, _NAME_CHARACTERS))


@value
class MachineUse:
    """The use of one machine at one moment."""

    schema: Literal[1] = 1
    machine: str
    devices: tuple[DeviceUse, ...] = ()
    hosts: tuple[HostUse, ...] = ()
    foreign: tuple[ForeignProcess, ...] = ()
    cores: float = 0.0
    memory_bytes: int = 0
    received_bytes_s: float = 0.0
    sent_bytes_s: float = 0.0

    def __post_init__(self) -> None:
        check_count("devices", len(self.devices), most=MAX_DEVICES)
        check_count("hosts", len(self.hosts), most=MAX_HOSTS)
        check_count("foreign", len(self.foreign), most=MAX_FOREIGN)
        check_count("machine: characters", len(self.machine), most=_NAME_CHARACTERS)
        check_whole("memory_bytes", self.memory_bytes, most=_BYTES)
        for name in ("cores", "received_bytes_s", "sent_bytes_s"):
            object.__setattr__(self, name, within(getattr(self, name), most=_RATE))


@value
class UsageSegment:
    """
    Some minutes of samples of one host: columns of equal length, so that they compress well.

    Times are seconds since 1970 on the machine's own clock.
    """

    schema: Literal[1] = 1
    at: tuple[int, ...]
    used: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Device by index -> whole percent, -1 where it is unknown."""
    device_memory_mib: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    cores: tuple[float, ...] = ()
    memory_mib: tuple[int, ...] = ()
    disk_kib_s: tuple[int, ...] = ()
    """Bytes read and written."""
    network_kib_s: tuple[int, ...] = ()
    """Bytes received and sent; -1 if it shares its network with other hosts."""

    def __post_init__(self) -> None:
        check_count("at", len(self.at), most=MAX_SAMPLES)
        check_count("used", len(self.used), most=MAX_DEVICES)
        check_count("device_memory_mib", len(self.device_memory_mib), most=MAX_DEVICES)
        columns = (self.cores, self.memory_mib, self.disk_kib_s, self.network_kib_s)
        tables = (*self.used.values(), *self.device_memory_mib.values())
        for column in (*columns, *tables):
            if column and len(column) != len(self.at):
                raise SpecError(f"{len(column)} values for {len(self.at)} samples")


def packed(segment: UsageSegment) -> bytes:
    """Return `segment` as it is stored: the same bytes for the same samples."""
    return gzip.compress(encode(segment), compresslevel=6, mtime=0)


def unpacked(data: bytes, *, key: str) -> UsageSegment:
    """
    Return the segment in `data`.

    Raises:
        RecordError: It is not a segment, or is too large when unpacked.
    """
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            plain = file.read(SEGMENT_BYTES + 1)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise RecordError(f"{key}: cannot be unpacked: {error}") from error
    if len(plain) > SEGMENT_BYTES:
        raise RecordError(f"{key}: unpacks to more than {SEGMENT_BYTES} bytes")
    return decode(UsageSegment, plain, key=key)


def machine_use(data: bytes, *, key: str) -> MachineUse:
    """
    Return the use of a machine in `data`.

    Raises:
        RecordError: It is malformed.
    """
    return decode(MachineUse, data, key=key)
