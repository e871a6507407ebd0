"""Clocks of machines and bastions that jump by days, while the store has another date."""

from __future__ import annotations

from functools import partial

from tests.simulation.asking import USERS
from tests.simulation.baton import Baton
from tests.simulation.fates import Rates, Storm
from tests.simulation.machines import SimMachine
from tests.simulation.processes import SOUND, Bastion, Parts
from tests.simulation.small import small
from tests.simulation.world import World

DAY_S = 86400.0
STEPS = (2, 12)
LAST_S = 150.0


def clocks(seed: int, parts: Parts = SOUND) -> World:
    """Return the small scenario with clocks that jump; half of the seeds in a storm."""
    baton = Baton(seed)
    chance = baton.chance
    fates = Storm(chance, Rates().times(0.5), spared=USERS) if chance.random() < 0.5 else None
    apart_s = chance.choice((0.0, -1.0, 1.0)) * chance.uniform(0.0, 3 * DAY_S)
    world = small(baton, parts, fates=fates, store_skew_s=apart_s)
    for _ in range(chance.randint(*STEPS)):
        by_s = chance.choice((-1.0, 1.0)) * chance.choice((60.0, DAY_S, 10 * DAY_S, 400 * DAY_S))
        baton.later(chance.uniform(3.0, LAST_S), partial(_step, world, by_s))
    return world


def all_step(seed: int, parts: Parts = SOUND) -> World:
    """Return the small scenario in which every clock goes back ten days while jobs run."""
    world = small(Baton(seed), parts)
    world.baton.later(35.0, lambda: _step_all(world, -10 * DAY_S))
    return world


def _step(world: World, by_s: float) -> None:
    stepped = world.baton.chance.choice(_with_clocks(world))
    world.baton.note(f"clock steps {by_s:g}", stepped.name)
    stepped.clock.step(by_s)


def _step_all(world: World, by_s: float) -> None:
    for each in _with_clocks(world):
        each.clock.step(by_s)


def _with_clocks(world: World) -> list[SimMachine | Bastion]:
    return [*world.provider.standing.values(), *world.bastions]
