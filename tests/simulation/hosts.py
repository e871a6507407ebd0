"""
Your own hosts, which are cut off for a while from the store and from the bastion.

A provider cannot say that such a host is gone. Nothing of it may start elsewhere while it may still
run there, and in the end every job runs and no machine is left.
"""

from __future__ import annotations

from functools import partial

from tests.simulation.baton import Baton
from tests.simulation.cut_off import CutOff
from tests.simulation.fates import Fates
from tests.simulation.processes import SOUND, Parts
from tests.simulation.small import small
from tests.simulation.storm import CONFIG
from tests.simulation.world import World

HOSTS = ("one", "two")
TIMES = (1, 2)
FIRST_S, LAST_S = 10.0, 100.0
SHORT_S, LONG_S = (5.0, 100.0), (200.0, 700.0)
HOSTS_CONFIG = CONFIG.replace(
    'provider = "fake"', 'provider = "ssh"\nhosts = ["one", "two"]\npermit = "3m"'
)


def hosts(seed: int, parts: Parts = SOUND) -> World:
    """Return the small scenario on two hosts, each of which may be cut off for any time."""
    baton = Baton(seed)
    chance = baton.chance
    world, cut = _world(baton, parts)
    for _ in range(chance.randint(*TIMES)):
        host, lasts_s = chance.choice(HOSTS), chance.uniform(*chance.choice((SHORT_S, LONG_S)))
        baton.later(chance.uniform(FIRST_S, LAST_S), partial(cut_off, world, cut, host, lasts_s))
    return world


def long_cut(seed: int, parts: Parts = SOUND) -> World:
    """Return the small scenario in which each host in turn is cut off for more than its permit."""
    world, cut = _world(Baton(seed), parts)
    for at_s, host in ((30.0, "one"), (700.0, "two")):
        world.baton.later(at_s, partial(cut_off, world, cut, host, 500.0))
    return world


def killed_amid_cuts(seed: int, fates: Fates) -> World:
    """Return the small scenario in which one host is cut off for long and another briefly."""
    world, cut = _world(Baton(seed), SOUND, fates)
    for at_s, host, lasts_s in ((30.0, "one", 400.0), (50.0, "two", 20.0)):
        world.baton.later(at_s, partial(cut_off, world, cut, host, lasts_s))
    return world


def _world(baton: Baton, parts: Parts, fates: Fates | None = None) -> tuple[World, CutOff]:
    cut = CutOff(baton, "Network is unreachable")
    return small(baton, parts, config=HOSTS_CONFIG, through=cut.of, fates=fates), cut


def cut_off(world: World, cut: CutOff, host: str, lasts_s: float) -> None:
    """Cut a host off from the store and from the bastion for this many seconds."""
    world.baton.note("is cut off", host)
    world.provider.cut.add(host)
    cut.actors |= {
        machine.actor for machine in world.provider.standing.values() if machine.zone == host
    }
    world.baton.later(lasts_s, partial(_mend, world, cut, host))


def _mend(world: World, cut: CutOff, host: str) -> None:
    world.baton.note("is back", host)
    world.provider.cut.discard(host)
    cut.actors -= {m.actor for m in world.provider.machines.values() if m.zone == host}
