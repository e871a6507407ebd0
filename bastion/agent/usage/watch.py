"""
The agent's sampling of its hosts' use: every ten seconds, on another thread, for running hosts.

A host gets its samples, ships them beside its logs, and is told when its devices stay idle. The use
of the whole machine is one object that only this agent replaces; readers take it as it is. A
sampler that fails, hangs or returns nonsense costs only its samples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Protocol

from bastion.agent.errands import Errands
from bastion.agent.keeper.port import Keeper, KeeperGoneError, Running
from bastion.agent.keeper.socket.request import file_name
from bastion.agent.settings import AgentSettings
from bastion.agent.usage.foreign import foreign_processes
from bastion.agent.usage.port import Group, Sample, Sampler
from bastion.agent.usage.series import Holding, HostSeries
from bastion.clock import Clock
from bastion.errors import ConflictError, NotFoundError, SpecError
from bastion.job import StopReason
from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.reports.facts import HostFact
from bastion.records.reports.usage import (
    MAX_FOREIGN,
    MAX_HOSTS,
    DeviceUse,
    ForeignProcess,
    HostUse,
    MachineUse,
)
from bastion.spec.values.quantity import text_of_seconds
from bastion.store.port import ObjectStore, Version
from bastion.utilisation import IDLE

SAMPLE_S = 10.0
"""Between two looks."""
PUBLISH_S = 60.0
"""Between two writes of the use of a machine to a cloud: 0.7 cents a day."""


class Sampled(Protocol):
    """A running host, as far as sampling needs it."""

    of: HostFact
    key: str

    @property
    def series(self) -> HostSeries | None:
        """Its samples; None while it does not run."""
        ...

    def left_idle(self, text: str) -> None:
        """Report that its devices are idle; with an empty text, that they are used again."""
        ...

    def stop_by_agent(
        self, reason: StopReason, now: float, *, by: str = "", grace_s: float = 30.0
    ) -> None:
        """Stop it on the agent's own initiative."""
        ...


class UsageWatch:
    """
    The use of one agent's hosts.

    Args:
        store: The bucket.
        errands: Makes the calls to it, and the looks.
        keeper: Lists the processes of hosts.
        settings: The settings of this agent.
        clock: Time on this machine.
        say: Writes one line to the agent's log.
        folder: The home, below which summaries are kept while hosts run.
        sampler: Samples the machine; None: nothing is sampled.
    """

    def __init__(
        self,
        store: ObjectStore,
        errands: Errands,
        keeper: Keeper,
        settings: AgentSettings,
        clock: Clock,
        say: Callable[[str], None],
        folder: Path,
        *,
        sampler: Sampler | None,
    ) -> None:
        self._store = store
        self._errands = errands
        self._keeper = keeper
        self._settings = settings
        self._clock = clock
        self._say = say
        self._sampler = sampler
        self.tell_foreign: Callable[[Sequence[ForeignProcess]], None] = lambda _: None
        """Takes the foreign processes on the devices, after each look."""
        self._folder = folder / "usage"
        self._look_at = 0.0
        self._told: set[str] = set()
        """Hosts whose devices were reported to be idle."""
        self._version: Version | None = None
        self._publish_at = 0.0
        self._is_shown = False
        """Whether the object in the bucket shows something that may be over."""
        self._said = ""

    def series_of(
        self, of: HostFact, key: str, holding: Holding | None, started_at: float
    ) -> HostSeries | None:
        """Return the series of a host that starts, or that an earlier agent started."""
        if self._sampler is None:
            return None
        path = self._folder / f"{file_name(key)}.json"
        return HostSeries(of, holding, path, started_at=started_at)

    def turn(self, now: float, hosts: Mapping[str, Sampled]) -> None:
        """Look if it is time, and send what is due."""
        if self._sampler is None:
            return
        running = {key: host for key, host in hosts.items() if host.series is not None}
        for key, host in running.items():
            assert host.series is not None
            if host.series.seal(now):
                send(self._store, self._errands, key, host.series, now)
        if now < self._look_at:
            return
        is_first = not self._look_at
        self._look_at = now + SAMPLE_S
        if is_first:
            return  # a job of some seconds is over before it costs a look
        self._told &= running.keys()
        work = partial(self._look, {k: h.series.started_at for k, h in running.items() if h.series})
        then = partial(self._saw, hosts)
        self._errands.send(
            "usage", work, then, now=now, otherwise=self._not_seen, is_long=True, is_look=True
        )

    def close(self) -> None:
        """End the sampler."""
        if self._sampler is not None:
            self._sampler.close()

    def _look(self, started_at: Mapping[str, float]) -> tuple[Sample, float]:
        """Sample, on another thread."""
        assert self._sampler is not None
        states = self._keeper.attempts() if started_at else ()
        groups = {
            state.key: Group(
                pids=tuple(pid for pid in state.pids if pid is not None),
                started_at=started_at[state.key],
            )
            for state in states
            if isinstance(state, Running) and state.key in started_at
        }
        now = self._clock.monotonic()
        return self._sampler.sample(groups, now), now

    def _not_seen(self, error: Exception) -> None:
        if isinstance(error, KeeperGoneError):
            raise error  # its connection is over: the agent makes another, or starts a new life
        if str(error) != self._said:
            self._said = str(error)
            self._say(f"the use of this machine cannot be sampled: {error}")

    def _saw(self, hosts: Mapping[str, Sampled], seen: tuple[Sample, float]) -> None:
        sample, now = seen
        devices = {each.index: each for each in sample.devices.each}
        at = int(self._clock.wall())
        for key, host in hosts.items():
            if host.series is not None and key in sample.groups:
                host.series.add(devices, sample.groups[key], at=at, now=now)
                self._judge(key, host, host.series, now)
        if sample.devices.each:  # without any, their driver has not answered: nothing is known
            prefix = f"{self._settings.home}:"
            self.tell_foreign(foreign_processes(sample.devices, prefix, _boxed(hosts)))
        self._publish(hosts, sample, devices, now)

    def _judge(self, key: str, host: Sampled, series: HostSeries, now: float) -> None:
        """Report devices that have been idle for too long, once, and their use again."""
        limit_s, idle_s = series.holding.idle_warning_s, series.idle_s(now)
        if not limit_s or (idle_s < limit_s) == (key not in self._told):
            return
        if idle_s < limit_s:
            self._told.discard(key)
            host.left_idle("")
            return
        self._told.add(key)
        n = len(series.holding.devices)
        what = "its device" if n == 1 else f"any of its {n} devices"
        text = f"no use of {what} above {IDLE:.0%} for {text_of_seconds(float(int(idle_s)))}"
        host.left_idle(text)
        if series.holding.stops_idle:
            host.stop_by_agent(StopReason.IDLE, now, by=text)

    def _publish(
        self,
        hosts: Mapping[str, Sampled],
        sample: Sample,
        devices: Mapping[int, DeviceUse],
        now: float,
    ) -> None:
        """Replace the use of this machine in the bucket, if it has something to show."""
        is_full = bool(hosts) or bool(devices)
        if now < self._publish_at or not (is_full or self._is_shown):
            return
        settings = self._settings
        try:
            use = _machine_use(settings.machine, f"{settings.home}:", hosts, sample)
        except SpecError as error:
            self._not_seen(error)
            return
        self._is_shown = is_full
        is_cloud = settings.tempo.logs.old_s >= PUBLISH_S
        self._publish_at = now + (PUBLISH_S if is_cloud else SAMPLE_S) - SAMPLE_S / 2
        key = layout.machine_use(settings.machine)
        work = partial(_replace, self._store, key, encode(use), self._version)
        self._errands.send(
            "use of this machine", work, self._published, now=now, otherwise=self._not_seen
        )

    def _published(self, version: Version | None) -> None:
        self._version = version


def send(store: ObjectStore, errands: Errands, key: str, series: HostSeries, now: float) -> None:
    """Send the pending segment; it is given up only if it can never be written."""
    assert series.pending is not None

    def failed(error: Exception) -> None:
        if isinstance(error, ConflictError):
            series.renumber()
        else:
            series.landed()

    work = partial(store.create, *series.pending)
    errands.send(f"samples {key}", work, lambda _: series.landed(), now=now, otherwise=failed)


def _replace(store: ObjectStore, key: str, data: bytes, version: Version | None) -> Version | None:
    """Write `data`, replacing anything there; return its version, or None after another's write."""
    try:
        if version is not None:
            return store.swap(key, data, if_version=version).version
        return store.create(key, data).version
    except ConflictError:
        pass
    with suppress(ConflictError, NotFoundError):
        found = store.read(key)
        assert found is not None
        return store.swap(key, data, if_version=found.version).version
    return None


def _boxed(hosts: Mapping[str, Sampled]) -> set[int]:
    """Return the devices of hosts in containers."""
    held = (each.series.holding for each in hosts.values() if each.series is not None)
    return {device for each in held if each.in_containers for device in each.devices}


def _machine_use(
    machine: str, mark_prefix: str, hosts: Mapping[str, Sampled], sample: Sample
) -> MachineUse:
    used = []
    boxed = _boxed(hosts)
    for key, host in hosts.items():
        if host.series is None or key not in sample.groups:
            continue
        holding = host.series.holding
        of = host.of
        used.append(
            HostUse(
                project=of.project,
                job=of.job,
                attempt=of.attempt,
                replica=of.replica,
                host=of.host,
                devices=holding.devices,
                use=sample.groups[key],
            )
        )
    return MachineUse(
        machine=machine,
        devices=sample.devices.each,
        hosts=tuple(used[:MAX_HOSTS]),
        foreign=foreign_processes(sample.devices, mark_prefix, boxed)[:MAX_FOREIGN],
        cores=sample.cores,
        memory_bytes=sample.memory_bytes,
        received_bytes_s=sample.received_bytes_s,
        sent_bytes_s=sample.sent_bytes_s,
    )
