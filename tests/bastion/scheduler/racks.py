"""Worlds of several racks, where some gangs have to lie in one rack or in one pool."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from bastion.spec.where import Where
from tests.bastion.scheduler.histories import Make
from tests.bastion.scheduler.world import Decide, World

RACKS = ("a", "b", "a", "")
"""Racks of the pools of a world, in order of the pools' names; a pool may have none."""


def racked(make: Make) -> Make:
    """Return worlds of `make` with pools in racks, and with gangs that must stay in one rack."""

    def made(random: Random, decide: Decide) -> World:
        world = make(random, decide)
        draw = Random(random.random())
        racks = draw.sample(RACKS, k=len(RACKS))
        for name, rack in zip(sorted(world.pools), racks):
            pool = world.pools[name]
            labels = {**pool.labels, **({"rack": rack} if rack else {})}
            world.pools[name] = replace(pool, labels=labels)
        world.ask = _asking(draw, world)  # type: ignore[method-assign]
        return world

    return made


def _asking(draw: Random, world: World) -> Callable[..., str]:
    plain = world.ask
    chosen: dict[tuple[str, ...], str] = {}

    def ask(
        *args: Any,
        gang: tuple[str, ...] = (),
        replicas: int = 1,
        where: Where = Where(),  # noqa: B008
        **options: Any,
    ) -> str:
        same = draw.choice(("", "rack", "rack", "pool"))
        same = chosen.setdefault(gang, same) if gang else same
        if not gang and options.get("hosts", 1) == 1 and not where.hostnames:
            replicas += draw.choice((0, 1, 2))
        most = replicas + draw.choice((0, 0, 2)) if not gang and not where.exclusive else 0
        where = replace(where, same=same)
        return plain(*args, gang=gang, replicas=replicas, most=most, where=where, **options)

    return ask
