"""The world that most others are made from: two projects on two machines, in a storm or without."""

from __future__ import annotations

from tests.simulation.asking import USERS
from tests.simulation.baton import Baton
from tests.simulation.fates import Fates, Rates, Storm
from tests.simulation.processes import SOUND, Parts, Wish
from tests.simulation.world import World

QUOTA = """
[toml-schema]
version = "1"
[total_resources]
h100 = 16
[project_membership]
blue = ["ann", "ben"]
red = ["cat"]
[project_resources.blue]
h100 = 0.625
[project_resources.red]
h100 = 0.375
[scheduler]
min_runtime_s = 20
grace_s = 5
max_grace_s = 20
plan_after_s = 120
borrow_slice_s = 60
"""

CONFIG = """
[pools.gpu]
provider = "fake"
resources = { h100 = 8 }
max_machines = 2
idle_timeout = 60
boot = 10
"""

HARDNESS = (0.5, 1.0, 2.0, 4.0)
"""How many times as hard as `Rates` a storm blows."""


def plain(
    seed: int,
    wishes: list[Wish],
    parts: Parts = SOUND,
    *,
    fates: Fates | None = None,
    bastions: int = 1,
    has_lease: bool = True,
) -> World:
    """A world in which nothing goes wrong but `fates`: which actor goes first is left to chance."""
    return World(
        Baton(seed),
        quota=QUOTA,
        config=CONFIG,
        wishes=wishes,
        fates=fates,
        bastions=bastions,
        has_lease=has_lease,
        parts=parts,
    )


def storm(
    seed: int,
    wishes: list[Wish],
    parts: Parts = SOUND,
    *,
    fates: Fates | None = None,
    bastions: tuple[int, ...] = (1, 2),
) -> World:
    """
    A world in a storm of its seed, which also says how hard it blows and whether there is a lease.

    Args:
        seed: Everything left to chance follows from it.
        wishes: What users ask.
        parts: What bastions and agents are made of.
        fates: What goes wrong, in place of the storm.
        bastions: How many there may be, each as likely.
    """
    baton = Baton(seed)
    rates = Rates().times(baton.chance.choice(HARDNESS))
    return World(
        baton,
        quota=QUOTA,
        config=CONFIG,
        wishes=wishes,
        fates=fates or Storm(baton.chance, rates, spared=USERS),
        bastions=baton.chance.choice(bastions),
        has_lease=baton.chance.random() < 0.8,
        parts=parts,
    )
