"""Jobs that hang, that are held for inspection, that clean up, and that get another limit."""

from __future__ import annotations

from typing import Any

from tests.simulation.asking import launch, one, verb
from tests.simulation.fates import Fates
from tests.simulation.processes import SOUND, Parts, Wish
from tests.simulation.storm import storm
from tests.simulation.world import World

FOR_EVER_S = 1e9


def watched(seed: int, parts: Parts = SOUND, *, fates: Fates | None = None) -> World:
    """Return the scenario in a storm, or with other `fates`."""
    return storm(seed, wishes(), parts, fates=fates)


def wishes() -> list[Wish]:
    """Return everything that users will submit; `own` reclaims what blue's held jobs borrowed."""
    asked = [
        _one(0.0, "ann", "hung", runs_s=FOR_EVER_S, idle_timeout=20.0),
        _one(1.0, "ann", "hung-twice", runs_s=FOR_EVER_S, idle_timeout=15.0, retries=1),
        _one(2.0, "ann", "slow", runs_s=90.0, idle_timeout=25.0, on_idle="report"),
        _one(3.0, "ann", "kept", codes="3", hold_on_failure=60.0),
        _one(4.0, "ann", "released", codes="3", hold_on_failure=900.0),
        _one(5.0, "ann", "cancelled", codes="3", hold_on_failure=900.0),
        _one(6.0, "ann", "tidy", runs_s=20.0, on_end=("sim", "3", "4")),
        _one(7.0, "ann", "untidy", codes="2", on_end=("deaf", "1e9"), on_end_timeout=8.0),
        _one(8.0, "ben", "longer", runs_s=70.0, max_runtime=40.0),
        _one(9.0, "ben", "shorter", runs_s=FOR_EVER_S, max_runtime=300.0),
        _one(60.0, "ben", "gang", h100=5, replicas=2, codes="7", hold_on_failure=30.0),
        _one(80.0, "ben", "borrower", h100=6, replicas=2, codes="5", hold_on_failure=700.0),
        _one(150.0, "cat", "own", h100=6, runs_s=30.0),
        verb(25.0, "ben", "update", "longer", max_runtime_s=400.0),
        verb(30.0, "ben", "update", "shorter", max_runtime_s=60.0),
        verb(70.0, "ann", "release", "released"),
        verb(75.0, "ann", "cancel", "cancelled"),
        verb(400.0, "ben", "release", "borrower"),
    ]
    return sorted(asked, key=lambda wish: wish.at_s)


def _one(at_s: float, user: str, name: str, **job: Any) -> Wish:
    return launch(at_s, user, name, one(**job))
