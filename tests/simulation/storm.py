"""The world on which most others are based: two projects on two machines, perhaps in a storm."""

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
"""The strengths of a storm, as multiples of `Rates`."""


def plain(
    seed: int,
    wishes: list[Wish],
    parts: Parts = SOUND,
    *,
    fates: Fates | None = None,
    bastions: int = 1,
    has_lease: bool = True,
) -> World:
    """Return a world without faults except `fates`: only the order of actors is random."""
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
    Return a world in a storm of its seed, which also determines its strength and the lease.

    Args:
        seed: Determines everything that is random.
        wishes: What users submit.
        parts: What bastions and agents are made of.
        fates: The faults, in place of the storm.
        bastions: How many there may be, each number as likely.
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
