"""Worlds in which admins and users use more keys than in the plain worlds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from quota.limits import Limits
from quota.maintenance import Window
from quota.options import SchedulerOptions
from quota.tree import Project, Quota
from tests.bastion.scheduler.histories import PROJECTS, Make
from tests.bastion.scheduler.world import Decide, World


def featured(make: Make) -> Make:
    """
    Return worlds like those of `make`, with earlier usage and more keys of the quota file and jobs.

    Users are limited, projects differ in weight and order and some do not borrow, machines are
    closed for a time, jobs resume, grow or do not borrow, and other policies order and place them.
    """

    def made(random: Random, decide: Decide) -> World:
        world = make(random, decide)
        draw = Random(random.random())
        _use(draw, world)
        windows = _windows(draw, world)
        options = _policies(draw, world.quota.scheduler)

        def written(quota: Quota) -> Quota:
            projects = {name: _keyed(draw, each) for name, each in quota.projects.items()}
            return replace(quota, projects=projects, maintenance=windows, scheduler=options)

        world.written = written
        world.quota = written(world.quota)
        world.ask = _asking(draw, world)  # type: ignore[method-assign]
        return world

    return made


def _use(draw: Random, world: World) -> None:
    used = (0.0, 10.0, 1e4)
    users = ("u", "v", "u-w")
    world.extra["decayed_by_user"] = {(p, u): draw.choice(used) for p in PROJECTS for u in users}
    world.decayed = {name: draw.choice(used) for name in PROJECTS}


def _policies(draw: Random, options: SchedulerOptions) -> SchedulerOptions:
    return replace(
        options,
        order=draw.choice(("fair", "fair", "fifo", "priority", "srtf", "las", "tiresias")),
        placement=draw.choice(("best-fit", "best-fit", "spread", "first-fit")),
    )


def _windows(draw: Random, world: World) -> tuple[Window, ...]:
    names, found = sorted(world.machines), []
    for _ in range(draw.choice((0, 0, 1, 2))):
        starts_at = world.now + draw.choice((-50.0, 100.0, 300.0, 1000.0))
        closed = draw.choice(((), (names[0],), tuple(names[:2])))
        found.append(Window(starts_at=starts_at, ends_at=starts_at + 400.0, machines=closed))
    return tuple(sorted(found, key=lambda window: window.starts_at))


def _keyed(draw: Random, project: Project) -> Project:
    units = draw.choice(({}, {}, {"gpu": draw.choice((1, 4, 8))}))
    limits = Limits(max_units=units, max_running=draw.choice((None, None, 1, 3)))
    return replace(
        project,
        borrow=draw.random() < 0.8,
        limits=limits,
        order=draw.choice(("fair", "fifo")),
        weight=draw.choice((0.5, 1.0, 3.0)),
    )


def _asking(draw: Random, world: World) -> Callable[..., str]:
    plain = world.ask

    def ask(*args: Any, replicas: int = 1, **options: Any) -> str:
        is_plain = not options.get("gang") and options.get("hosts", 1) == 1
        most = replicas + draw.randint(1, 4) if is_plain and draw.random() < 0.3 else 0
        name = plain(*args, replicas=replicas, most=most, **options)
        job = world.jobs[name]
        request = replace(job.request, borrow=draw.random() < 0.8)
        world.jobs[name] = replace(job, resume=draw.random() < 0.5, request=request)
        return name

    return ask
