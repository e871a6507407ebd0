"""
Clouds of two kinds: one creates batches of machines in zones, and one queues slices.

When a cloud says that a machine is gone, the bastion believes it. Everything else may go wrong: a
create with an unknown outcome, half a gang in a zone that sells out, a list that is a minute old, a
delete that is accepted and not done, a machine whose agent never starts, credentials that expire,
and a provider that asks for fewer calls. In the end every job has the right outcome, and no machine
is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from bastion.errors import NoCapacityError, ProviderRefusedError, ProviderUnavailableError
from bastion.machine import Machine, Pool
from bastion.provider.port import Listed
from quota.amounts import Amounts
from tests.simulation.asking import USERS
from tests.simulation.baton import Baton
from tests.simulation.fates import Calm, Fates, Rates, Storm
from tests.simulation.machines import BOOT_S, DELETE_S, SimMachine, SimProvider
from tests.simulation.processes import SOUND, Parts
from tests.simulation.scenario import SLICE_CONFIG, SLICES, slice_wishes
from tests.simulation.small import small
from tests.simulation.storm import CONFIG
from tests.simulation.world import CALM_AT_S, World

ZONES = ("a", "b")
LAG_S = 60.0
"""The maximum age of a list."""
DEAF_DELETES = 0.2
"""Fraction of deletes that are accepted and not done."""
MUTE = 0.15
"""Fraction of machines whose agents never start."""
QUEUED_S = (5.0, 400.0)
"""How long a request for a slice is kept before it is served."""
CLOUD_CONFIG = CONFIG.replace("max_machines = 2", 'max_machines = 4\nzones = ["a", "b"]')
_QUEUE_CONFIG = SLICE_CONFIG.replace("boot = 10", 'boot = 10\npatience = "2m"\nzones = ["a", "b"]')


class SimCloud(SimProvider):
    """A cloud with two zones that are sold out now and then."""

    lag_s = 0.0
    """The age of its lists."""
    error: Exception | None = None
    """The error of every call."""
    mutes = 0
    """The number of next machines that boot without an agent."""
    _sold_out: tuple[tuple[Machine, ...], Pool] | None = None
    """The first request that was refused for want of machines."""
    _lists: tuple[tuple[float, tuple[Listed, ...]], ...] = ()
    _slices: dict[str, str]
    _dry: set[str]

    def list(self) -> tuple[Listed, ...]:
        """See `Provider`: the machines as they were a while ago."""
        return self._port.call("list machines", "", self._old_list)

    def create(self, machines: Sequence[Machine], pool: Pool) -> None:
        """See `Provider`: a batch is one call, of which half may be created."""
        self._port.call(
            "create machine",
            machines[0].name,
            partial(self._create_batch, tuple(machines), pool),
            writes=True,
        )

    def run_dry(self, zone: str, *, is_dry: bool) -> None:
        """Set whether `zone` has machines."""
        self._baton.note("is dry" if is_dry else "has machines", zone)
        (self._zones_dry.add if is_dry else self._zones_dry.discard)(zone)

    def make_what_was_refused(self) -> None:
        """Create the machines of the first request that was refused, as no cloud should."""
        assert self._sold_out is not None
        machines, pool = self._sold_out
        self._baton.note("makes what it refused", machines[0].name)
        for machine in machines:
            self._create(machine, pool)

    def fail_with(self, error: Exception | None) -> None:
        """Raise `error` from every call; None: answer again."""
        self._baton.note("fails with", str(error))
        self.error = error

    @property
    def _zones_dry(self) -> set[str]:
        if "_dry" not in self.__dict__:
            self._dry = set()
        return self._dry

    def _fail(self) -> None:
        if self.error is not None:
            raise self.error

    def _old_list(self) -> tuple[Listed, ...]:
        self._fail()
        now = self._baton.now
        self._lists = (*self._lists, (now, self._list()))
        since = now - self.lag_s
        known = [each for each in self._lists if each[0] <= since]
        self._lists = (*known[-1:], *(each for each in self._lists if each[0] > since))
        return known[-1][1] if known else ()

    def _is_hidden(self, machine: SimMachine) -> bool:
        return not self.lag_s and super()._is_hidden(machine)

    def _create_batch(self, machines: tuple[Machine, ...], pool: Pool) -> None:
        self._fail()
        zone = machines[0].zone
        for machine in machines:
            if machine.name not in self.machines and zone in self._zones_dry:
                self._sold_out = self._sold_out or (machines, pool)
                raise NoCapacityError(f"zone {zone} of {pool.name} is sold out")
            self._create(machine, pool)

    def _booted(self, machine: SimMachine) -> None:
        if self.mutes or (not self.is_calm and self._baton.chance.random() < MUTE):
            self.mutes = max(0, self.mutes - 1)
            self._baton.note("boots without agent", machine.name)
            if machine.state == "creating":
                machine.state = "running"
            return
        super()._booted(machine)

    def _delete(self, name: str) -> None:
        self._fail()
        if not self.is_calm and self._baton.chance.random() < DEAF_DELETES:
            self._on_delete(name)
            self._baton.note("is not deleted", name)
            return
        super()._delete(name)


class SimQueue(SimCloud):
    """A cloud that keeps requests for slices until it has some, and deletes a slice as a whole."""

    def _create_batch(self, machines: tuple[Machine, ...], pool: Pool) -> None:
        self._fail()
        for machine in machines:
            if machine.name in self.machines:
                self._create(machine, pool)  # which starts an agent that has died
                continue
            made = SimMachine(
                machine.name,
                pool.name,
                baton=self._baton,
                fates=self._fates,
                on_start=self._on_start,
                clock=self._clock,
                zone=machine.zone,
            )
            made.slice = machine.slice
            made.state = "waiting"
            self.machines[made.name] = made
        self._baton.later(self._queued_s(), partial(self._serve, machines[0].slice))

    def _queued_s(self) -> float:
        return 1.0 if self.is_calm else self._baton.chance.uniform(*QUEUED_S)

    def _serve(self, name: str) -> None:
        hosts = [each for each in self.machines.values() if each.slice == name]
        if any(each.state != "waiting" for each in hosts):
            return
        if hosts[0].zone in self._zones_dry or self._full():
            self._baton.later(20.0, partial(self._serve, name))
            return
        for host in hosts:
            host.state = "creating"
            boot_s = self._baton.chance.uniform(*BOOT_S)
            self._baton.later(boot_s, partial(self._booted, host))

    def _full(self) -> bool:
        served = [m for m in self.standing.values() if m.state != "waiting"]
        return len(served) >= self._capacity

    def _delete(self, name: str) -> None:
        machine = self.machines.get(name)
        together = [m for m in self.standing.values() if machine and m.slice == machine.slice]
        for each in together:
            self._on_delete(each.name)
            if each.state != "deleting":
                each.state = "deleting"
                self._baton.later(self._baton.chance.uniform(*DELETE_S), each.die)


def clouds(seed: int, parts: Parts = SOUND) -> World:
    """Return the small scenario on a cloud where everything goes wrong now and then."""
    baton = Baton(seed)
    rates = Rates().times(baton.chance.choice((0.5, 1.0, 2.0)))
    world, cloud = _cloud(baton, parts, Storm(baton.chance, rates, spared=USERS))
    _spoil(baton, cloud)
    return world


def queues(seed: int, parts: Parts = SOUND) -> World:
    """Return slices of two hosts, from a cloud that keeps each request for minutes."""
    baton = Baton(seed)
    fates = Storm(baton.chance, Rates(), spared=USERS)
    world, cloud = _queue(baton, parts, fates, bastions=baton.chance.choice((1, 2)))
    _spoil(baton, cloud)
    return world


def killed(seed: int, fates: Fates) -> World:
    """Return the small scenario, in which the bastion meets a chosen fate at a provider call."""
    return _cloud(Baton(seed), SOUND, fates)[0]


def killed_at_a_queue(seed: int, fates: Fates) -> World:
    """Return the same with slices, and a provider that keeps each request for a while."""
    return _queue(Baton(seed), SOUND, fates)[0]


def made_late(seed: int, parts: Parts = SOUND) -> World:
    """Return a world where the first create is refused, and its machine exists a minute later."""
    baton = Baton(seed)
    world, cloud = _cloud(baton, parts, Calm())
    cloud.run_dry("a", is_dry=True)
    baton.later(60.0, cloud.make_what_was_refused)
    return world


def old_lists(seed: int, parts: Parts = SOUND) -> World:
    """Return a world where every list is a minute old."""
    world, cloud = _cloud(Baton(seed), parts, Calm())
    cloud.lag_s = LAG_S
    return world


def mute_host(seed: int, parts: Parts = SOUND) -> World:
    """Return a world where the agent of one host of the first slice never starts."""
    world, cloud = _queue(Baton(seed), parts, Calm())
    cloud.mutes = 1
    return world


def kept_for_ever(seed: int, parts: Parts = SOUND) -> World:
    """Return a world where the first zone keeps every request and never serves one."""
    world, cloud = _queue(Baton(seed), parts, Calm())
    cloud.run_dry("a", is_dry=True)
    return world


def _cloud(baton: Baton, parts: Parts, fates: Fates) -> tuple[World, SimCloud]:
    world = small(baton, parts, fates=fates, config=CLOUD_CONFIG, machines=4, provider=SimCloud)
    assert isinstance(world.provider, SimCloud)
    return world, world.provider


def _queue(
    baton: Baton, parts: Parts, fates: Fates, *, bastions: int = 1
) -> tuple[World, SimCloud]:
    world = World(
        baton,
        quota=SLICES,
        config=_QUEUE_CONFIG,
        wishes=slice_wishes(),
        fates=fates,
        bastions=bastions,
        parts=parts,
        machines=4,
        per_machine=Amounts({"v4": 8}),
        provider=SimQueue,
    )
    assert isinstance(world.provider, SimCloud)
    return world, world.provider


def _spoil(baton: Baton, cloud: SimCloud) -> None:
    """Sell out zones, delay lists, expire credentials and keep the provider busy, for a while."""
    chance = baton.chance
    cloud.is_calm = False
    cloud.lag_s = chance.choice((0.0, 0.0, LAG_S))
    baton.later(CALM_AT_S, partial(setattr, cloud, "lag_s", 0.0))
    for zone in ZONES:
        if chance.random() < 0.7:
            at_s = chance.uniform(0.0, 60.0)
            baton.later(at_s, partial(cloud.run_dry, zone, is_dry=True))
            baton.later(at_s + chance.uniform(10, 200), partial(cloud.run_dry, zone, is_dry=False))
    for error in (
        ProviderRefusedError("the credentials have expired"),
        ProviderUnavailableError("429: slow down", retry_after_s=30.0),
    ):
        if chance.random() < 0.4:
            at_s = chance.uniform(0.0, 200.0)
            baton.later(at_s, partial(cloud.fail_with, error))
            baton.later(at_s + chance.uniform(20.0, 150.0), partial(cloud.fail_with, None))
