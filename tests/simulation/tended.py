"""
Machines that admins close, that their cloud takes back, and whose agents die beside them.

`spot` is a cloud that vouches for its machines. One machine is announced to be taken and gone at
that time, another disappears without notice, and of a third only the agent dies, so only its
silence shows it. `tended` are your own hosts, for which no provider vouches: they are cut off, and
their agents die. In both, an admin cordons, drains and opens machines at any time.

Nothing is ever placed on a machine that was cordoned by then. In the end every job has the outcome
that its program and its users determine, and no machine is left.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from bastion.agent.cloud.metadata import MetadataError
from bastion.agent.settings import Cloud
from bastion.records.keys import layout
from bastion.records.requests.answer import Answer
from bastion.records.requests.machine_request import DrainRequest, MachinesRequest
from bastion.records.requests.request import Body
from bastion.records.root import Root
from tests.simulation.asking import USERS
from tests.simulation.baton import Baton, SimClock
from tests.simulation.clouds import CLOUD_CONFIG, SimCloud
from tests.simulation.cut_off import CutOff
from tests.simulation.fates import Fates, Rates, Storm
from tests.simulation.hosts import HOSTS, HOSTS_CONFIG, cut_off
from tests.simulation.machines import SimMachine
from tests.simulation.processes import SOUND, Parts, Wish
from tests.simulation.rights import ADMIN
from tests.simulation.small import small
from tests.simulation.world import World

LAST_S = 120.0
"""Machines are closed, taken and silenced until then: most jobs run by then."""
PATIENT_S = 12_000.0
"""A silent machine is given up after an hour, and a job may meet that three times."""
NOTICE_S = {"gce": 30.0, "ec2": 120.0}
_HEARTBEAT_S = 300.0


class SimMetadata:
    """The metadata server of a simulated machine, which fails to answer now and then."""

    def __init__(self, baton: Baton, cloud: Cloud) -> None:
        self.cloud = cloud
        self._baton = baton
        self._says: dict[str, str] = {}

    def read(self, name: str) -> str:
        """See `Metadata`."""
        if self._baton.chance.random() < 0.02:
            raise MetadataError(f"metadata {name} did not answer")
        return self._says.get(name, "")

    def announce(self) -> None:
        """Announce that the machine is taken at the end of its notice."""
        if self.cloud == "gce":
            self._says["instance/preempted"] = "TRUE"
            return
        at = SimClock.EPOCH + self._baton.now + NOTICE_S["ec2"]
        time = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        said = json.dumps({"action": "terminate", "time": time})
        self._says["spot/instance-action"] = said

    def recommend(self) -> None:
        """Announce that the machine is likely to be taken."""
        if self.cloud == "ec2":
            self._says["events/recommendations/rebalance"] = json.dumps({"noticeTime": "now"})


class SimSpot(SimCloud):
    """A cloud of spot machines."""

    cloud: Cloud = "gce"

    def _booted(self, machine: SimMachine) -> None:
        machine.metadata = SimMetadata(self._baton, self.cloud)
        machine.cloud, machine.heartbeat_s = self.cloud, _HEARTBEAT_S
        super()._booted(machine)

    def take(self, *, is_announced: bool) -> None:
        """Take a machine back: after its notice, or immediately."""
        machine = self._any()
        if machine is None or not isinstance(machine.metadata, SimMetadata):
            return
        machine.note("is taken back" if is_announced else "vanishes")
        if not is_announced:
            machine.die()
            return
        machine.metadata.announce()
        self._baton.later(NOTICE_S[self.cloud], partial(_die, machine))

    def warn(self) -> None:
        """Recommend leaving a machine, which stays nevertheless."""
        machine = self._any()
        if machine is not None and isinstance(machine.metadata, SimMetadata):
            machine.metadata.recommend()

    def silence(self) -> None:
        """Kill the agent of a machine permanently; its keeper and its processes live on."""
        machine = self._any()
        if machine is not None:
            machine.note("agent dies for good")
            machine.is_forsaken = True
            self._baton.kill(machine.actor)

    def _any(self) -> SimMachine | None:
        running = [m for m in self.standing.values() if m.state == "running"]
        return self._baton.chance.choice(running) if running else None


def spot(seed: int, parts: Parts = SOUND) -> World:
    """Return the small scenario on spot machines with an active admin; half of the seeds storm."""
    baton = Baton(seed)
    chance = baton.chance
    fates = Storm(chance, Rates(), spared=(*USERS, ADMIN)) if chance.random() < 0.5 else None
    world = _world(baton, parts, config=CLOUD_CONFIG, provider=SimSpot, machines=4, fates=fates)
    cloud = world.provider
    assert isinstance(cloud, SimSpot)
    cloud.cloud = chance.choice(("gce", "ec2"))
    for _ in range(chance.randint(1, 3)):
        baton.later(_soon(baton), partial(cloud.take, is_announced=chance.random() < 0.7))
    for _ in range(chance.randint(0, 2)):
        baton.later(_soon(baton), cloud.warn)
    if chance.random() < 0.5:
        baton.later(_soon(baton), cloud.silence)
    return world


def tended(seed: int, parts: Parts = SOUND) -> World:
    """Return the small scenario on hosts that are cut off and closed; half of the seeds storm."""
    baton = Baton(seed)
    chance = baton.chance
    cut = CutOff(baton, "Network is unreachable")
    fates = Storm(chance, Rates(), spared=(*USERS, ADMIN)) if chance.random() < 0.5 else None
    world = _world(baton, parts, config=HOSTS_CONFIG, through=cut.of, fates=fates)
    for _ in range(chance.randint(1, 2)):
        lasts_s = chance.uniform(5.0, 400.0)
        baton.later(_soon(baton), partial(cut_off, world, cut, chance.choice(HOSTS), lasts_s))
    return world


def killed_amid_spot(seed: int, fates: Fates) -> World:
    """Return the small scenario on spot machines, of which one is taken and one disappears."""
    baton = Baton(seed)
    world = small(baton, fates=fates, config=CLOUD_CONFIG, provider=SimSpot, machines=4)
    cloud = world.provider
    assert isinstance(cloud, SimSpot)
    baton.later(30.0, partial(cloud.take, is_announced=True))
    baton.later(90.0, partial(cloud.take, is_announced=False))
    return world


def forsaken(seed: int, parts: Parts = SOUND) -> World:
    """Return the small scenario on spot machines; the agent of the long job dies permanently."""
    baton = Baton(seed)
    world = small(baton, parts, config=CLOUD_CONFIG, provider=SimSpot, machines=4)
    cloud = world.provider
    assert isinstance(cloud, SimSpot)
    world.limit_s = PATIENT_S
    baton.later(40.0, cloud.silence)
    return world


def closed(seed: int, parts: Parts = SOUND) -> World:
    """Return the small scenario in which every machine is cordoned before the gang is submitted."""
    baton = Baton(seed)
    asks = _Asks()
    world = small(
        baton,
        parts,
        config=CLOUD_CONFIG,
        provider=SimSpot,
        machines=4,
        more=[asks.wish(30.0, "cordon", 4), asks.wish(200.0, "uncordon", 4)],
    )
    asks.root = lambda: world.invariants.root
    return world


class _Asks:
    """What an admin requests of the machines that exist at that time."""

    def __init__(self) -> None:
        self.root: Callable[[], Root | None] = lambda: None

    def wish(self, at_s: float, verb: str, most: int, deadline_s: float | None = None) -> Wish:
        """Return a request of `verb` for up to that many machines; for none, it does nothing."""

        def body(_: dict[str, Answer]) -> Body | None:
            root = self.root()
            names = tuple(sorted(root.machines))[:most] if root is not None else ()
            if not names:
                return None
            if verb == "drain":
                return DrainRequest(machines=names, reason="care", deadline_s=deadline_s)
            return MachinesRequest(machines=names, reason="" if verb == "uncordon" else "care")

        name = f"{verb} at {at_s:.0f}"
        return Wish(at_s=at_s, user=ADMIN, project=layout.ADMIN, verb=verb, body=body, name=name)


def _world(baton: Baton, parts: Parts, *, fates: Fates | None, **more: Any) -> World:
    chance = baton.chance
    asks = _Asks()
    wishes = [
        asks.wish(
            _soon(baton),
            chance.choice(("cordon", "drain", "uncordon")),
            chance.randint(1, 3),
            chance.choice((None, 0.0, 30.0)),
        )
        for _ in range(chance.randint(1, 5))
    ]
    # A permanently closed machine could hold a job forever if no other machine may be created.
    wishes.append(asks.wish(LAST_S + 100.0, "uncordon", 100))
    world = small(baton, parts, fates=fates, more=wishes, **more)
    world.limit_s = PATIENT_S
    asks.root = lambda: world.invariants.root
    return world


def _soon(baton: Baton) -> float:
    return baton.chance.uniform(10.0, LAST_S)


def _die(machine: SimMachine) -> None:
    if not machine.is_dead():
        machine.die()
