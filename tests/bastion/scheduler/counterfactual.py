"""
Reasons taken at their word: what a reason says would change it is done, and the job must start.

Who else waits is let go first, but for those for whom something is promised or planned. Taking one
reason away may bring the next to light; none may come twice.
"""

from __future__ import annotations

from dataclasses import replace

from bastion.job import Phase
from bastion.machine import MachinePhase
from bastion.scheduler.plan import Admit, Wait
from bastion.scheduler.reasons.reason import (
    Behind,
    BeyondShare,
    CapacityLost,
    Dependency,
    Fragmented,
    NotMember,
    OverCeiling,
    OverLoad,
    Planned,
    PlannedForOther,
    Promised,
    ProviderStockout,
    QuotaFileInvalid,
    Reason,
    UnknownProject,
    WaitingForCapacity,
    WaitsFor,
)
from quota.amounts import NOTHING
from tests.bastion.scheduler.world import World

FOLLOWED = (
    Behind
    | BeyondShare
    | CapacityLost
    | Dependency
    | Fragmented
    | NotMember
    | OverCeiling
    | OverLoad
    | Planned
    | PlannedForOther
    | Promised
    | ProviderStockout
    | QuotaFileInvalid
    | UnknownProject
    | WaitingForCapacity
    | WaitsFor
)
"""Reasons that say what would change them, and that time or others can change."""


def reasons_are_true(world: World) -> None:
    """Every waiting job of `world` starts once its reasons are taken away, one after the other."""
    for name, verdict in world.plan.verdicts.items():
        if isinstance(verdict, Wait) and isinstance(verdict.reason, FOLLOWED):
            follow(world, name)


def follow(world: World, name: str) -> None:
    """Take away what holds `name` back until it runs; `world` stays as it is."""
    twin = alone(world, name)
    told: list[Reason] = []
    while not twin.runs(name):
        verdict = twin.plan.verdicts[name]
        assert isinstance(verdict, Wait), verdict
        if any(isinstance(each, Admit) for each in twin.plan.verdicts.values()):
            told.clear()  # somebody ahead of it came in between
        assert isinstance(verdict.reason, FOLLOWED), (verdict.reason, told)
        assert verdict.reason not in told, f"{name} does not start: {told}"
        told.append(verdict.reason)
        take_away(twin, verdict.reason)
        twin.cycle()


def alone(world: World, name: str) -> World:
    """A copy in which nobody waits beside `name`, its gang, and who has a promise or a plan."""
    twin = world.copy()
    twin.ends.clear()
    keep = {name, *world.jobs[name].gang}
    keep |= {job for promise in world.plan.promises for job in promise.gang}
    keep |= {job for planned in world.plan.planned for job in planned.gang}
    for job in world.jobs.values():
        if job.phase is Phase.QUEUED and job.id not in keep:
            twin.end(job.id)
    return twin


def take_away(world: World, reason: Reason) -> None:
    """Do what `reason` says would change it."""
    match reason:
        case WaitingForCapacity():
            _end_all(world, {project for project, _ in reason.holders})
        case Behind():
            _end_all(world, {job.project for job in world.jobs.values()})
        case BeyondShare():
            others = {job.project for job in world.jobs.values()} - {reason.project}
            _end_all(world, others if _has_room(reason) else {*others, reason.project})
            _end(world, tuple(n for n, job in world.jobs.items() if job.project in others))
            _lend_everything(world)
        case Planned():
            _end(world, reason.waiting_for)
            if not reason.waiting_for:  # a plan closes devices, not quota: borrowers may undo it
                _wait_until(world, reason.at + 1)
        case Promised():
            _end(world, reason.stopping)
            _wait_until(world, reason.deadline)
        case PlannedForOther():
            _end(world, world.jobs[reason.other].gang or (reason.other,))
        case OverLoad() if reason.alone <= reason.limit:
            _end(world, tuple(n for n, job in world.jobs.items() if job.is_admitted))
        case Fragmented():
            everybody = tuple(n for n, job in world.jobs.items() if job.is_admitted)
            _end(world, reason.to_end or everybody)
        case _:
            _change(world, reason)


def _change(world: World, reason: Reason) -> None:
    """What nobody's end would bring about."""
    match reason:
        case CapacityLost():
            for name in reason.machines:
                _heal(world, name)
        case Dependency():
            for name in reason.on:
                if world.jobs[name].phase is Phase.STOPPING:
                    world.requeue(name)
                world.jobs[name] = replace(world.jobs[name], held="")
        case WaitsFor():
            for job in [job for job in world.jobs.values() if job.after]:
                world.jobs[job.id] = replace(job, after=())
            _end(world, tuple(on for on, _, _ in reason.on))
        case ProviderStockout():
            world.extra.pop("stockouts", None)
        case _:
            _edit_quota(world, reason)


def _heal(world: World, name: str) -> None:
    """The machine is in order again; one that is being deleted is gone, and its pool has room."""
    machine = world.machines[name]
    if machine.phase is MachinePhase.DELETING:
        del world.machines[name]
    else:
        healed = replace(machine, cordoned="", draining=False, bad_devices={})
        world.machines[name] = healed


def _edit_quota(world: World, reason: Reason) -> None:
    """What an admin has to change."""
    match reason:
        case OverCeiling():
            _raise_ceiling(world, reason.project)
        case OverLoad():
            options = replace(world.quota.scheduler, load_limit=reason.load)
            world.quota = replace(world.quota, scheduler=options)
        case QuotaFileInvalid():
            world.extra.pop("quota_problem")
        case UnknownProject():
            _add_project(world, reason.project)
        case NotMember():
            _add_member(world, reason.project, reason.user)
        case _:
            raise AssertionError(reason)


def _has_room(reason: BeyondShare) -> bool:
    return reason.held + reason.asked <= reason.total


def _end(world: World, names: tuple[str, ...]) -> None:
    for name in names:
        if name in world.jobs:
            world.end(name)


def _end_all(world: World, projects: set[str]) -> None:
    holding = (job for job in world.jobs.values() if job.is_admitted)
    _end(world, tuple(job.id for job in holding if job.project in projects))


def _wait_until(world: World, deadline: float) -> None:
    """Who is being stopped, or has run for as long as it may, is gone by then."""
    world.now = max(world.now, deadline)
    for job in list(world.jobs.values()):
        if job.attempt is None or not job.is_admitted:
            continue
        limit, started = job.request.max_runtime_s, job.attempt.admitted_at
        is_over = limit is not None and started + limit <= world.now
        if is_over or job.attempt.stop is not None:
            world.end(job.id)


def _lend_everything(world: World) -> None:
    projects = {n: replace(p, kept=NOTHING) for n, p in world.quota.projects.items()}
    world.quota = replace(world.quota, projects=projects)


def _raise_ceiling(world: World, name: str) -> None:
    project = replace(world.quota.projects[name], ceiling=world.quota.totals)
    world.quota = replace(world.quota, projects={**world.quota.projects, name: project})


def _add_project(world: World, name: str) -> None:
    """One that has no share, and everybody as members."""
    some = next(iter(world.quota.projects.values()))
    new = replace(some, name=name, nominal=NOTHING, kept=NOTHING)
    world.quota = replace(world.quota, projects={**world.quota.projects, name: new})


def _add_member(world: World, name: str, user: str) -> None:
    project = world.quota.projects[name]
    members = replace(project.members, written=(*project.members.written, user))
    projects = {**world.quota.projects, name: replace(project, members=members)}
    world.quota = replace(world.quota, projects=projects)
