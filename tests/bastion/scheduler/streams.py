"""Endless streams of equal jobs, in worlds where all devices are in use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.bastion.scheduler import laws
from tests.bastion.scheduler.histories import remembering, watched
from tests.bastion.scheduler.world import Decide, World, machines_of, quota_of

STEP_S = 25.0
AFTER_S = 600.0
RUNS_S = 500.0
GRACE_S = 30.0


@dataclass
class Stream:
    """One project's endless stream: another job arrives whenever one ends."""

    project: str
    width: int
    limit: float | None = RUNS_S
    users: tuple[str, ...] = ("u",)
    per: int = 1
    came: int = 0

    def keep_up(self, world: World, queued: int = 2) -> None:
        """Keep as many jobs running or waiting as there should be."""
        there = sum(name.startswith(f"{self.project}-s") for name in world.jobs)
        for _ in range(self.width + queued - there):
            world.ask(
                self.project,
                f"{self.project}-s{self.came:04}",
                user=self.users[self.came % len(self.users)],
                max_runtime_s=self.limit,
                runs_s=RUNS_S,
                gpu=self.per,
            )
            self.came += 1


def fill(world: World, streams: list[Stream]) -> None:
    """Let the first jobs of every stream start one after the other, not together."""
    for n in range(max(stream.width for stream in streams)):
        for stream in streams:
            if n < stream.width:
                short = Stream(stream.project, n + 1, stream.limit, stream.users, stream.per, n)
                short.keep_up(world, queued=0)
                stream.came = short.came
        world.cycle()
        world.pass_time(RUNS_S / max(stream.width for stream in streams))
        world.cycle()


def waited(world: World, gang: str, streams: list[Stream], most_s: float) -> float:
    """Return how long `gang` waits beside the streams; at most `most_s` is simulated."""
    asked_at = world.now
    while world.now - asked_at < most_s and not world.runs(gang):
        for stream in streams:
            stream.keep_up(world)
        world.cycle()
        if world.runs(gang):
            break
        world.pass_time(STEP_S)
    return world.now - asked_at


BOUND_S = AFTER_S + RUNS_S + GRACE_S + 2 * STEP_S
"""`plan_after_s`, the longest limit with its grace, and a margin for the turns between."""
FEW: tuple[laws.Law, ...] = (laws.no_device_is_shared, laws.gangs_are_whole, laws.work_is_conserved)


def labs(
    shares: Mapping[str, float],
    order: str = "fair",
    inner: Decide | None = None,
    machines: int = 1,
    watching: Sequence[laws.Law] | None = None,
    **scheduler: object,
) -> World:
    """Return projects that own machines of four devices; every plan is checked against laws."""
    options = dict.fromkeys(shares, f'order = "{order}"')
    settings: dict[str, Any] = {"plan_after_s": AFTER_S, "grace_s": GRACE_S, **scheduler}
    held = {name: {"gpu": share} for name, share in shares.items()}
    quota = quota_of({"gpu": 4 * machines}, held, options=options, **settings)
    kept = [*FEW, laws.told_starts_are_kept()] if watching is None else watching
    watch = watched(kept, inner or remembering())
    return World(quota, machines_of(machines, gpu=4), decide=watch)
