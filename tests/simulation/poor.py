"""
Poor machines: they run out of disk space, memory or file descriptors, and recover.

While a disk is full, its keeper records nothing and its agent's folders accept nothing. Without
memory, no process is created. Without descriptors, neither happens, and the agent cannot reach the
store. No job may fail because of this, and jobs that are lost on one machine end on another, or
later on the same one.
"""

from __future__ import annotations

from functools import partial

from tests.simulation.baton import Baton
from tests.simulation.cut_off import CutOff
from tests.simulation.machines import SimMachine
from tests.simulation.processes import SOUND, Parts
from tests.simulation.small import small
from tests.simulation.world import World

TIMES = (1, 5)
FIRST_S, LAST_S = 1.0, 120.0
LONGEST_S = 60.0
_NO_DESCRIPTORS = "Too many open files"


def poor(seed: int, parts: Parts = SOUND) -> World:
    """Return the small scenario on machines that are poor for some of the time."""
    baton = Baton(seed)
    chance = baton.chance
    cut = CutOff(baton, _NO_DESCRIPTORS)
    world = small(baton, parts, through=cut.of)
    for _ in range(chance.randint(*TIMES)):
        baton.later(chance.uniform(FIRST_S, LAST_S), partial(_strike, world, cut))
    return world


def all_poor(seed: int, parts: Parts = SOUND) -> World:
    """Return the small scenario in which each machine is poor for its first minute."""
    world = small(Baton(seed), parts)

    def strike() -> None:
        for machine in world.provider.standing.values():
            _impoverish(world, machine, "exhausted", for_s=60.0)

    for at_s in (1.0, 8.0, 15.0, 21.0, 26.0):
        world.baton.later(at_s, strike)
    return world


def _strike(world: World, starved: CutOff) -> None:
    chance = world.baton.chance
    machines = list(world.provider.standing.values())
    if machines:
        machine = chance.choice(machines)
        kind = chance.choice(("full", "exhausted", "starved"))
        _impoverish(world, machine, kind, for_s=chance.uniform(1.0, LONGEST_S), starved=starved)


def _impoverish(
    world: World,
    machine: SimMachine,
    kind: str,
    *,
    for_s: float,
    starved: CutOff | None = None,
) -> None:
    machine.note(f"is poor: {kind}")
    if kind == "full":
        machine.home.full = "No space left on device"
    elif kind == "exhausted":
        machine.home.exhausted = "Cannot allocate memory"
    else:
        machine.home.full = machine.home.exhausted = _NO_DESCRIPTORS
        if starved is not None:
            starved.actors.add(machine.actor)
    world.baton.later(for_s, partial(_recover, machine, starved))


def _recover(machine: SimMachine, starved: CutOff | None) -> None:
    machine.note("is well")
    machine.home.full = machine.home.exhausted = ""
    if starved is not None:
        starved.actors.discard(machine.actor)
