"""Arrays in any storm: failures, retries, preemption, a part that is cancelled, holds, limits."""

from __future__ import annotations

from typing import Any

from bastion.spec import Array
from tests.simulation.asking import launch, one, verb
from tests.simulation.fates import Fates
from tests.simulation.processes import SOUND, Parts, Wish
from tests.simulation.storm import storm
from tests.simulation.world import World


def sweeps(seed: int, parts: Parts = SOUND, *, fates: Fates | None = None) -> World:
    """Return the scenario in a storm, or with other `fates`."""
    return storm(seed, wishes(), parts, fates=fates)


def wishes() -> list[Wish]:
    """Return everything that users will submit."""
    return [
        _array(0.0, "ann", "wide", "0-23", runs_s=25.0),
        _array(5.0, "ann", "narrow", "0-9%2", runs_s=8.0, codes="1 0", retries=1),
        _array(6.0, "ann", "crooked", "0-3,10-11", runs_s=5.0, codes="3"),
        _array(8.0, "ben", "pairs", "0-2", h100=2, replicas=2),
        _array(9.0, "ben", "unwanted", "0-4999%3", runs_s=20.0),
        _array(10.0, "ben", "patient", "0-5", runs_s=5.0, hold=True),
        _array(12.0, "ben", "brittle", "0-99%2", runs_s=9.0, codes="4", scope="launch"),
        verb(20.0, "ann", "cancel", "wide", tasks=".3-5,18-20"),
        verb(45.0, "ben", "release", "patient", tasks=".0-2"),
        _array(50.0, "cat", "own", "0-5", runs_s=15.0),
        verb(70.0, "ben", "cancel", "unwanted", tasks=".100-4999"),
        verb(90.0, "ben", "cancel", "unwanted"),
        verb(110.0, "ben", "release", "patient"),
    ]


def _array(at_s: float, user: str, name: str, tasks: str, **job: Any) -> Wish:
    return launch(at_s, user, name, one(**job), array=Array(tasks))
