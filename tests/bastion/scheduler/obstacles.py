"""
Worlds in which more can be in the way of a job, for reasons that are rare in plain histories.

Users have limits, budgets are spent, projects do not borrow, gangs must lie in one pool, and
machines are closed for maintenance. Jobs are held, wait for others or after a failure, or ask for
what no machine has.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from bastion.job import Dependency, JobRecord, Phase
from bastion.spec.where import Where
from quota.budget import Budget
from quota.limits import Limits
from quota.maintenance import Window
from tests.bastion.scheduler.histories import Make
from tests.bastion.scheduler.world import Decide, World


def obstructed(make: Make) -> Make:
    """Return a world like those of `make`, under a quota file with more keys."""

    def made(random: Random, decide: Decide) -> World:
        world = make(random, decide)
        quota = world.quota
        policy: Any = random.choice(("best-fit", "best-fit", "spread", "consolidated"))
        projects = dict(quota.projects)
        for name, project in quota.projects.items():
            what = random.random()
            if what < 0.3:
                types = [t for t in ("gpu", "v4") if t in quota.types]
                units: dict[str, int] = {t: random.choice((1, 2, 4)) for t in types}
                limits = random.choice((Limits(max_units=units), Limits(max_running=1)))
                projects[name] = replace(project, limits=limits)
            elif what < 0.4:
                projects[name] = replace(project, borrow=False)
        options = replace(quota.scheduler, placement=policy)
        world.quota = replace(quota, projects=projects, scheduler=options)
        return world

    return made


def obstruct(random: Random, world: World) -> None:
    """Put something in the way of waiting jobs."""
    if random.random() < 0.1 and not world.extra.pop("spent", None):
        _spend(world, random.choice(sorted({*world.quota.projects, *world.quota.groups})))
    if random.random() < 0.1:
        begins = world.now + random.choice((0.0, 2_000.0))
        pool = random.choice(sorted(world.pools))
        window = Window(starts_at=begins, ends_at=begins + 300.0, pools=(pool,), reason="cables")
        world.quota = replace(world.quota, maintenance=(window,))
    for name, job in sorted(world.jobs.items()):
        if job.phase is Phase.QUEUED and random.random() < 0.15:
            world.jobs[name] = _hindered(random, world, job)


def _spend(world: World, name: str) -> None:
    """Use up the budget of the project or group, of every type."""
    quota, budget = world.quota, Budget(hours=dict.fromkeys(world.quota.types, 1))
    if name in quota.groups:
        group = replace(quota.groups[name], budget=budget)
        world.quota = replace(quota, groups={**quota.groups, name: group})
    else:
        project = replace(quota.projects[name], budget=budget)
        world.quota = replace(quota, projects={**quota.projects, name: project})
    world.extra["spent"] = {name: dict.fromkeys(quota.types, 1.0)}


def _hindered(random: Random, world: World, job: JobRecord) -> JobRecord:
    what = random.choice(("hold", "backoff", "after", "user", "filter", "filter"))
    if what == "hold":
        return replace(job, held="ann")
    if what == "backoff":
        return replace(job, not_before=world.now + 50.0)
    if what == "after":
        others = [name for name, each in sorted(world.jobs.items()) if each.is_admitted]
        on = tuple(Dependency(on=name, when="any") for name in others[:1])
        return replace(job, after=on)
    if what == "user" and not job.gang:
        return replace(job, user="mallory")
    if what == "filter" and job.request.where == Where():
        where = random.choice((Where(labels={"rack": "9"}), Where(pool="z")))
        return replace(job, request=replace(job.request, where=where))
    return job
