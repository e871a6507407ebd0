"""
What machines use now, and the samples of a host, as their agents wrote it, joined with the
bastion's views.

A record that cannot be read is left out: it is one machine's, and nothing depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from bastion.client.look.views import MachineView, PoolsView
from bastion.errors import NotFoundError, OversizeError, RecordError
from bastion.records.keys import layout
from bastion.records.reports.usage import (
    MACHINE_BYTES,
    SEGMENT_BYTES,
    ForeignProcess,
    HostUse,
    MachineUse,
    UsageSegment,
    machine_use,
    unpacked,
)
from bastion.store.port import Entry, ObjectStore, Version
from bastion.value import value

_T = TypeVar("_T")

STALE_S = 180.0
"""A machine's use that is older than this is out of date: three writes are missing."""
_READERS = 16
_AT_ONCE = 4
"""Up to this many reads need no threads."""
_PAGE = 1000
_NO_DEVICES = ("cpu", "memory")


@value
class DeviceView:
    """One device of a machine: the job that holds it, and how much it is used."""

    machine: str
    type: str
    index: int
    job: str = ""
    """Empty if no job holds it."""
    project: str = ""
    user: str = ""
    used: float | None = None
    """0 to 1; None if unknown."""
    memory_bytes: int = 0
    memory_total_bytes: int = 0


@value
class UsedMachine:
    """One machine, its devices, and its running jobs."""

    name: str
    pool: str
    at: float | None = None
    """When its agent reported its use, in Unix seconds by the store's clock; None: not recently."""
    devices: tuple[DeviceView, ...] = ()
    hosts: tuple[HostUse, ...] = ()
    foreign: tuple[ForeignProcess, ...] = ()
    """Processes on its devices that no job of this bastion started."""
    cores: float = 0.0
    cores_total: int = 0
    memory_bytes: int = 0
    memory_total_bytes: int = 0


@value
class TopView:
    """The current use of machines."""

    as_of: float
    machines: tuple[UsedMachine, ...]

    def __repr__(self) -> str:
        """Return each machine with the number of its devices that jobs hold, on one line."""
        told = (
            f"{each.name} {sum(bool(one.job) for one in each.devices)} of {len(each.devices)}"
            for each in self.machines
        )
        return f"<devices held: {', '.join(told) or 'no machines'}>"


@value
class JobUse:
    """The current use of a job's hosts that report it."""

    at: float
    """When the oldest of these reports was made, in Unix seconds by the store's clock."""
    devices: int = 0
    """How many of its devices report their use."""
    used: float | None = None
    """Their average use; None if none reports it."""
    least: float | None = None
    device_memory_bytes: int = 0
    cores: float = 0.0
    memory_bytes: int = 0


@value
class _Known:
    version: Version
    at: float
    use: MachineUse | None


class LiveUse:
    """
    The current use of machines; reads only what changed since the last look.

    Args:
        store: The bucket.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._known: dict[str, _Known] = {}

    def of_job(self, project: str, job: str, machines: Iterable[str]) -> JobUse | None:
        """
        Return the current use of a job's hosts on these machines; None if none reported recently.

        Raises:
            StoreError: The bucket is unreachable.
        """
        keys = [layout.machine_use(machine) for machine in machines]
        read = _read_all(keys, partial(_told, self._store))
        told = [each for _, each in read if each is not None]
        newest = max((at for _, at in told), default=0.0)
        fresh = [(use, at) for use, at in told if newest - at <= STALE_S]
        return job_use(fresh, project, job)

    def newest_at(self) -> float:
        """
        Return when a machine last reported its use, by the store's clock; 0 if none ever did.

        Raises:
            StoreError: The bucket is unreachable.
        """
        entries = _entries(self._store, layout.USAGE)
        uses = (entry for entry in entries if layout.parse_machine_use(entry.key) is not None)
        return max((entry.modified_at for entry in uses), default=0.0)

    def read(self) -> Mapping[str, tuple[MachineUse, float]]:
        """
        Return the use of each machine that reported recently, and when it did.

        Raises:
            StoreError: The bucket is unreachable.
        """
        found = {}
        changed = []
        for entry in _entries(self._store, layout.USAGE):
            machine = layout.parse_machine_use(entry.key)
            if machine is None:
                continue
            known = self._known.get(entry.key)
            if known is None or known.version != entry.version:
                changed.append(entry.key)
            found[entry.key] = _Known(
                version=entry.version,
                at=entry.modified_at,
                use=known.use if known is not None else None,
            )
        for key, use in _read_all(changed, partial(_use, self._store)):
            found[key] = _Known(version=found[key].version, at=found[key].at, use=use)
        self._known = found
        newest = max((known.at for known in found.values()), default=0.0)
        return {
            known.use.machine: (known.use, known.at)
            for known in found.values()
            if known.use is not None and newest - known.at <= STALE_S
        }


def job_use(told: Iterable[tuple[MachineUse, float]], project: str, job: str) -> JobUse | None:
    """Return the use of a job's hosts from the machines' reports; None if no host is in them."""
    hosts, devices, times = [], [], []
    for use, at in told:
        mine = [host for host in use.hosts if (host.project, host.job) == (project, job)]
        held = {index for host in mine for index in host.devices}
        hosts += mine
        devices += [device for device in use.devices if device.index in held]
        times += [at] if mine else []
    if not hosts:
        return None
    used = [device.used for device in devices if device.used is not None]
    return JobUse(
        at=min(times),
        devices=len(used),
        used=sum(used) / len(used) if used else None,
        least=min(used) if used else None,
        device_memory_bytes=sum(device.memory_bytes for device in devices),
        cores=round(sum(host.use.cores for host in hosts), 2),
        memory_bytes=sum(host.use.memory_bytes for host in hosts),
    )


def top_view(
    view: PoolsView,
    uses: Mapping[str, tuple[MachineUse, float]],
    holders: Mapping[str, tuple[str, str]],
) -> TopView:
    """
    Join machines with their use.

    `holders` has the project and user of each job. A use that is much older than the view is left
    out.
    """
    machines = []
    for machine in view.machines:
        use, at = uses.get(machine.name, (None, 0.0))
        if use is not None and view.as_of - at > STALE_S:
            use = None
        machines.append(_used_machine(machine, use, at, holders))
    return TopView(as_of=view.as_of, machines=tuple(machines))


def _used_machine(
    machine: MachineView,
    use: MachineUse | None,
    at: float,
    holders: Mapping[str, tuple[str, str]],
) -> UsedMachine:
    known = {each.index: each for each in use.devices} if use is not None else {}
    devices = []
    for kind in machine.resources.types():
        if kind in _NO_DEVICES:
            continue
        holder = {
            index: job for job, kinds in machine.held.items() for index in kinds.get(kind, ())
        }
        for index in range(machine.resources[kind]):
            told = known.get(index)
            job = holder.get(index, "")
            project, user = holders.get(job, ("", ""))
            devices.append(
                DeviceView(
                    machine=machine.name,
                    type=kind,
                    index=index,
                    job=job,
                    project=project,
                    user=user,
                    used=told.used if told is not None else None,
                    memory_bytes=told.memory_bytes if told is not None else 0,
                    memory_total_bytes=told.memory_total_bytes if told is not None else 0,
                )
            )
    return UsedMachine(
        name=machine.name,
        pool=machine.pool,
        at=at if use is not None else None,
        devices=tuple(devices),
        hosts=use.hosts if use is not None else (),
        foreign=use.foreign if use is not None else (),
        cores=use.cores if use is not None else 0.0,
        cores_total=machine.resources["cpu"],
        memory_bytes=use.memory_bytes if use is not None else 0,
        memory_total_bytes=machine.resources["memory"],
    )


def _entries(store: ObjectStore, prefix: str) -> Iterator[Entry]:
    after = ""
    while True:
        page = store.list(prefix, start_after=after, limit=_PAGE)
        yield from page
        if len(page) < _PAGE:
            return
        after = page[-1].key


def _read_all(keys: list[str], read: Callable[[str], _T]) -> list[tuple[str, _T]]:
    """Read every key, many at a time, in the order of `keys`."""
    if len(keys) <= _AT_ONCE:
        return [(key, read(key)) for key in keys]
    with ThreadPoolExecutor(_READERS, thread_name_prefix="usage") as readers:
        return list(zip(keys, readers.map(read, keys)))


def _use(store: ObjectStore, key: str) -> MachineUse | None:
    told = _told(store, key)
    return told[0] if told is not None else None


def _told(store: ObjectStore, key: str) -> tuple[MachineUse, float] | None:
    """Return the use of the machine of `key`, and when it was reported; None if unreadable."""
    try:
        found = store.read(key, limit_bytes=MACHINE_BYTES)
        assert found is not None
        use = machine_use(found.data, key=key)
    except (NotFoundError, RecordError, OversizeError):
        return None
    return (use, found.modified_at) if use.machine == layout.parse_machine_use(key) else None


def segment_at(store: ObjectStore, key: str) -> UsageSegment | None:
    """
    Return the samples at `key`; None if there are none or they cannot be read.

    Raises:
        StoreError: The bucket is unreachable.
    """
    try:
        found = store.read(key, limit_bytes=SEGMENT_BYTES)
        assert found is not None
        return unpacked(found.data, key=key)
    except (NotFoundError, RecordError, OversizeError):
        return None
