"""
The scenario: two projects, two machines of eight devices, 20 jobs, and all that can go wrong.

`blue` owns ten devices and `red` six. Blue borrows the whole pool, and red reclaims its share. A
gang of blue's spans both machines. Some jobs fail, one is cancelled while it runs and one while it
waits, one reaches its time limit, and one ignores notices.
"""

from __future__ import annotations

from typing import Any

from bastion.records.keys import layout
from quota.amounts import Amounts
from tests.simulation.asking import USERS, launch, one, verb
from tests.simulation.baton import Baton
from tests.simulation.fates import Fates, Rates, Spoiling, Storm
from tests.simulation.processes import SOUND, Parts, Wish
from tests.simulation.storm import CONFIG, HARDNESS, QUOTA, plain, storm
from tests.simulation.world import World

JOBS = 20
"""How many jobs the wishes create."""


def wishes() -> list[Wish]:
    """Return everything that users will submit."""
    return [
        *[_one(5.0 * n, "ann", f"first-{n}", h100=2, runs_s=40 + 10 * n) for n in range(6)],
        _one(20.0, "ann", "crooked", runs_s=15, codes="3"),
        _one(22.0, "ann", "again", codes="1 0", retries=1),
        _one(24.0, "ann", "absent", codes="none"),
        _one(30.0, "ben", "borrower", h100=4, runs_s=90),
        _one(32.0, "ben", "borrower-2", h100=2, runs_s=80),
        _one(33.0, "ben", "unwanted", h100=2, runs_s=500),
        _one(34.0, "ben", "unwanted-2", h100=2, runs_s=500),
        verb(40.0, "ben", "cancel", "unwanted-2"),
        _one(50.0, "ben", "gang", h100=5, replicas=2, runs_s=30),
        verb(90.0, "ben", "cancel", "unwanted"),
        _one(35.0, "cat", "own", h100=4, runs_s=40),
        _one(36.0, "cat", "own-2", h100=2, runs_s=60, kind="deaf"),
        _one(60.0, "cat", "endless", runs_s=1e9, max_runtime=30.0),
        _one(61.0, "cat", "broken", replicas=2, runs_s=25, codes="7"),
        _one(62.0, "cat", "light", h100=0, runs_s=5),
        _one(63.0, "cat", "last", h100=2, runs_s=20),
    ]


def _one(at_s: float, user: str, name: str, **job: Any) -> Wish:
    return launch(at_s, user, name, one(**job))


def stormy(seed: int, parts: Parts = SOUND) -> World:
    """Return the scenario with faults; the seed determines how many, and the number of bastions."""
    return storm(seed, wishes(), parts, bastions=(1, 1, 2))


def spoilt(seed: int, parts: Parts = SOUND) -> World:
    """
    Return the scenario in which one in twenty writes of bastions and agents becomes an empty
    object.
    """
    baton = Baton(seed)
    storm = Storm(baton.chance, Rates(), spared=USERS)
    keys = (layout.RUNS, layout.MACHINES, layout.BELLS, layout.SPECS, layout.EVENTS)
    return World(
        baton,
        quota=QUOTA,
        config=CONFIG,
        wishes=wishes(),
        fates=Spoiling(storm, baton.chance, share=0.05, keys=keys),
        bastions=baton.chance.choice((1, 2)),
        parts=parts,
    )


def calm(
    seed: int, parts: Parts = SOUND, *, fates: Fates | None = None, bastions: int = 1
) -> World:
    """Return the scenario without faults except `fates`: only the order of actors is random."""
    return plain(seed, wishes(), parts, fates=fates, bastions=bastions)


def duel(seed: int, parts: Parts = SOUND, *, fates: Fates | None = None) -> World:
    """Return the scenario under three bastions without a lease, which compete for the lead."""
    baton = Baton(seed)
    rates = Rates(stall=20.0, crash=2.0, fault=4.0)
    return World(
        baton,
        quota=QUOTA,
        config=CONFIG,
        wishes=wishes(),
        fates=fates or Storm(baton.chance, rates, spared=USERS),
        bastions=3,
        has_lease=False,
        parts=parts,
    )


def comings(seed: int, parts: Parts = SOUND) -> World:
    """
    Return machines that come and go under three bastions without a lease.

    Each job of a user finds that the machine of the last one was just deleted, and stalled bastions
    resume among machines that they do not know.
    """
    baton = Baton(seed)
    jobs = [
        _one(45.0 * n + baton.chance.uniform(0, 30), "cat", f"j{n}", h100=4, runs_s=5)
        for n in range(8)
    ]
    return World(
        baton,
        quota=QUOTA,
        config=CONFIG.replace("idle_timeout = 60", "idle_timeout = 10"),
        wishes=jobs,
        fates=Storm(baton.chance, Rates(stall=20.0, crash=0.0, fault=0.0, death=0.0)),
        bastions=3,
        has_lease=False,
        parts=parts,
    )


def newcomer(seed: int, parts: Parts = SOUND, *, fates: Fates) -> World:
    """Return two bastions without a lease, and a job that arrives when both are idle."""
    asked = [_one(15.0, "ann", "only", h100=8, runs_s=100)]
    return plain(seed, asked, parts, fates=fates, bastions=2, has_lease=False)


def quitter(seed: int, parts: Parts = SOUND, *, fates: Fates) -> World:
    """Return one job that is cancelled as soon as its machine exists."""
    asked = [_one(0.0, "ann", "only", h100=8, runs_s=200), verb(40.0, "ann", "cancel", "only")]
    return plain(seed, asked, parts, fates=fates)


SLICES = """
[toml-schema]
version = "1"
[total_resources]
v4 = 32
[project_membership]
blue = ["ann", "ben"]
red = ["cat"]
[project_resources.blue]
v4 = 0.5
[project_resources.red]
v4 = 0.5
[scheduler]
min_runtime_s = 20
grace_s = 5
max_grace_s = 20
"""
"""Two slices of two hosts, each of 8 cores."""

SLICE_CONFIG = """
[pools.tpu]
provider = "fake"
instance_type = "tpu-v4-16"
max_machines = 4
idle_timeout = 60
boot = 10
"""


def slices(seed: int, parts: Parts = SOUND) -> World:
    """
    Return slices of two hosts, created and deleted together, in any storm.

    Blue borrows both, red reclaims one, and a gang takes both.
    """
    baton = Baton(seed)
    rates = Rates().times(baton.chance.choice(HARDNESS))
    return World(
        baton,
        quota=SLICES,
        config=SLICE_CONFIG,
        wishes=slice_wishes(),
        fates=Storm(baton.chance, rates, spared=USERS),
        bastions=baton.chance.choice((1, 2)),
        parts=parts,
        machines=4,
        per_machine=Amounts({"v4": 8}),
    )


def slice_wishes() -> list[Wish]:
    """Return requests for slices: both are borrowed, one is reclaimed, a gang takes both."""
    return [
        _slice(0.0, "ann", "one", runs_s=60),
        _slice(5.0, "ann", "borrows", runs_s=90),
        _slice(60.0, "cat", "reclaims", runs_s=30),
        _slice(70.0, "cat", "fails", runs_s=15, codes="3"),
        _slice(80.0, "ben", "both", runs_s=20, replicas=2),
        _slice(90.0, "ben", "unwanted", runs_s=500),
        verb(150.0, "ben", "cancel", "unwanted"),
    ]


def _slice(at_s: float, user: str, name: str, **job: Any) -> Wish:
    job = {"instance_type": "tpu-v4-16", **job}
    return launch(at_s, user, name, one(h100=0, **job))
