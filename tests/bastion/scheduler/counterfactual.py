"""
Reasons are checked by doing what they say would help: the job must then start.

Other waiting jobs are removed first, except those with a promise or a planned start. Removing one
reason may reveal the next; none may appear twice.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from bastion.job import JobRecord, Phase
from bastion.machine import MachinePhase
from bastion.scheduler.placement.feasibility import filters_of
from bastion.scheduler.plan import Admit, Wait
from bastion.scheduler.reasons.reason import (
    Backoff,
    Behind,
    BeyondShare,
    BudgetSpent,
    CapacityLost,
    Dependency,
    Fragmented,
    Held,
    Maintenance,
    NeverFits,
    NoMachineMatches,
    NotMember,
    OverCeiling,
    OverLoad,
    OverUserLimit,
    Planned,
    PlannedForOther,
    Promised,
    ProviderStockout,
    QuotaFileInvalid,
    Reason,
    ShareInUse,
    UnknownProject,
    WaitingForCapacity,
    WaitsFor,
)
from quota import Budget, Quota
from quota.amounts import NOTHING
from quota.limits import Limits
from tests.bastion.scheduler.world import World

FOLLOWED = (
    Behind
    | BeyondShare
    | CapacityLost
    | Dependency
    | Fragmented
    | Maintenance
    | NotMember
    | OverCeiling
    | OverLoad
    | Planned
    | PlannedForOther
    | Promised
    | ProviderStockout
    | QuotaFileInvalid
    | ShareInUse
    | UnknownProject
    | WaitingForCapacity
    | WaitsFor
)
"""Reasons that name what would change them, where time or other users can bring that about."""

REJOINS = Backoff | Held | NotMember | QuotaFileInvalid | UnknownProject | WaitsFor
"""Reasons that only say how the job gets into the queue."""
ASKED = FOLLOWED | REJOINS | NeverFits | NoMachineMatches | BudgetSpent | OverUserLimit
"""The reasons that occur in random worlds and name what would change them."""


def reasons_are_true(world: World) -> None:
    """Every waiting job of `world` starts once its reasons are removed one after the other."""
    for name, verdict in world.plan.verdicts.items():
        if isinstance(verdict, Wait) and isinstance(verdict.reason, FOLLOWED):
            follow(world, name)


def follow(world: World, name: str) -> None:
    """Remove what holds `name` back until it runs; `world` is not changed."""
    twin = alone(world, name)
    told: list[Reason] = []
    while not twin.runs(name):
        verdict = twin.plan.verdicts[name]
        if isinstance(verdict.reason, NeverFits) and told and isinstance(told[-1], OverLoad):
            return  # an admission policy does not check whether it could ever run
        assert isinstance(verdict, Wait), verdict
        decided = (each for plan in twin.turns for each in plan.verdicts.values())
        if any(isinstance(each, Admit) for each in decided):
            told.clear()  # a job ahead of it started first
        assert isinstance(verdict.reason, FOLLOWED), (verdict.reason, told)
        assert verdict.reason not in told, f"{name} does not start: {told}"
        told.append(verdict.reason)
        take_away(twin, verdict.reason)
        twin.cycle()


def alone(world: World, name: str) -> World:
    """Return a copy in which only `name`, its gang, and jobs with a promise or a plan wait."""
    twin = world.copy()
    twin.ends.clear()
    keep = {name, *world.jobs[name].gang}
    keep |= {job for promise in world.plan.promises for job in promise.gang}
    keep |= {job for planned in world.plan.planned for job in planned.gang}
    keep |= {n for n, each in world.plan.verdicts.items() if isinstance(each.reason, Planned)}
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
        case ShareInUse():
            _end_all(world, {reason.project})
        case Maintenance():
            _wait_until(world, reason.until)
        case BeyondShare():
            others = {job.project for job in world.jobs.values()} - {reason.project}
            _end_all(world, others if _has_room(reason) else {*others, reason.project})
            _end(world, tuple(n for n, job in world.jobs.items() if job.project in others))
            _lend_everything(world)
        case Planned():
            _end(world, reason.waiting_for)
            if (
                not reason.waiting_for and reason.at is not None
            ):  # a plan closes devices, not quota: borrowers may undo it
                _wait_until(world, reason.at + 1)
        case Promised():
            _end(world, reason.stopping)
            _wait_until(world, reason.deadline)
        case PlannedForOther():
            planned = [world.jobs[each] for each in (reason.other, *reason.more)]
            _end(world, tuple(name for job in planned for name in (job.gang or (job.id,))))
        case OverLoad() if reason.alone <= reason.limit:
            _end(world, tuple(n for n, job in world.jobs.items() if job.is_admitted))
        case Fragmented():
            admitted = tuple(n for n, job in world.jobs.items() if job.is_admitted)
            _end(world, reason.to_end or admitted)
        case _:
            _change(world, reason)


def _change(world: World, reason: Reason) -> None:
    """Do what `reason` says would change it, if that is more than the end of some jobs."""
    match reason:
        case CapacityLost():
            for name in reason.machines:
                _heal(world, name)
        case Dependency():
            for name in reason.on:
                if world.jobs[name].phase is Phase.STOPPING:
                    world.requeue(name)
                ready = replace(world.jobs[name], held="", not_before=0.0, after=())
                world.jobs[name] = replace(ready, user=_peer(world, name))
        case WaitsFor():
            for job in [job for job in world.jobs.values() if job.after]:
                world.jobs[job.id] = replace(job, after=())
            _end(world, tuple(on for on, _, _ in reason.on))
        case ProviderStockout():
            world.extra.pop("stockouts", None)
        case _:
            _edit_quota(world, reason)


def _peer(world: World, name: str) -> str:
    """Return a user of its project: its own, or that of another job of its gang."""
    job = world.jobs[name]
    gang = (world.jobs[each] for each in (name, *job.gang) if each in world.jobs)
    users = (each.user for each in gang)
    members = world.quota.projects[job.project]
    return next((user for user in users if members.has_member(user)), "u")


@dataclass
class Tally:
    """Counts how often a reason of each kind was true when only what it names was changed, once."""

    asked: Counter[str] = field(default_factory=Counter)
    untrue: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Kind -> what came instead, and where."""

    def add(self, world: World) -> None:
        """Check the reason of every waiting job of `world`."""
        for name, verdict in world.plan.verdicts.items():
            if isinstance(verdict, Wait) and isinstance(verdict.reason, ASKED):
                self.asked[verdict.reason.kind] += 1
                told = next_reason(world, name, verdict.reason)
                if told:
                    self.untrue[verdict.reason.kind].append(f"{name}: {told}")

    def part(self, kind: str) -> float:
        """Return the fraction of the reasons of a kind that were true."""
        return 1.0 - len(self.untrue[kind]) / self.asked[kind]

    def __str__(self) -> str:
        rows = [f"{kind:20} {n:6} {100 * self.part(kind):6.1f} %" for kind, n in self.asked.items()]
        return "\n".join(sorted(rows))


def next_reason(world: World, name: str, reason: Reason) -> str:
    """
    Return the reason of `name` after only what `reason` names has changed; empty if it was true.

    It was true if the job starts, has a promise, or waits for what `reason` named as the next wall.
    A job that can never run must not run even when everything else is gone.
    """
    twin = alone(world, name)
    for _ in range(3):
        if isinstance(reason, NeverFits):
            gang = {name, *twin.jobs[name].gang}
            _end(twin, tuple(each for each in twin.jobs if each not in gang))
            for machine in tuple(twin.machines):
                _heal(twin, machine)
            twin.cycle()
            return "it runs" if twin.runs(name) else ""
        _take_away_alone(twin, name, reason)
        twin.cycle()
        verdict = twin.plan.verdicts.get(name)
        if not isinstance(verdict, Wait) or isinstance(verdict.reason, Promised | Planned):
            return ""
        if isinstance(reason, REJOINS):
            return "" if verdict.reason != reason else f"still {reason}"
        then = getattr(reason, "then", None)
        if then is not None and then.kind == verdict.reason.kind:
            return ""
        if not any(
            isinstance(each, Admit) for plan in twin.turns for each in plan.verdicts.values()
        ):
            return f"{verdict.reason.kind} after {reason}"
        reason = verdict.reason  # a job with a promise started first
    return ""


def _take_away_alone(world: World, name: str, reason: Reason) -> None:
    """Do the same as `take_away`, but change only what `reason` names, and only for `name`."""
    job = world.jobs[name]
    match reason:
        case Held():
            world.jobs[name] = replace(job, held="")
        case Backoff():
            _wait_until(world, reason.until)
        case NoMachineMatches():
            for each in {name, *job.gang} & world.jobs.keys():
                _ask_elsewhere(world, each, reason.filter)
        case BudgetSpent():
            world.quota = _without_budget(world.quota, reason.of)
        case OverUserLimit() if reason.asked > reason.most:
            project = replace(world.quota.projects[reason.project], limits=Limits())
            projects = {**world.quota.projects, reason.project: project}
            world.quota = replace(world.quota, projects=projects)
        case OverUserLimit():
            others = world.jobs.keys() - {name, *job.gang}
            mine = [n for n in others if world.jobs[n].user == reason.user]
            _end(world, tuple(n for n in mine if world.jobs[n].project == reason.project))
        case BeyondShare():
            own = reason.asked <= reason.share or bool(reason.own)
            named = set() if reason.asked <= reason.share else projects_in(world, reason.lenders)
            named |= {reason.project} if own else set()
            _end(world, tuple(n for n, job in world.jobs.items() if _holds(job, named)))
        case _:
            take_away(world, reason)


def _without_budget(quota: Quota, name: str) -> Quota:
    """Return the quota file without the budget of one project or group."""
    if name in quota.groups:
        group = replace(quota.groups[name], budget=Budget())
        return replace(quota, groups={**quota.groups, name: group})
    project = replace(quota.projects[name], budget=Budget())
    return replace(quota, projects={**quota.projects, name: project})


def _ask_elsewhere(world: World, name: str, written: str) -> None:
    """Submit the job again without the filter, as a user would."""
    job = world.jobs[name]
    where = job.request.where
    named = [field for field, _, each in filters_of(where) if each == written]
    nothing: Any = {field: type(getattr(where, field))() for field in named}
    world.jobs[name] = replace(job, request=replace(job.request, where=replace(where, **nothing)))


def _holds(job: JobRecord, projects: set[str]) -> bool:
    return job.project in projects and (job.is_admitted or job.phase is not Phase.QUEUED)


def projects_in(world: World, names: Iterable[str]) -> set[str]:
    """Return the projects among `names`, and those of the groups among them."""
    found: set[str] = set()
    for name in names:
        group = world.quota.groups.get(name)
        found |= projects_in(world, group.members) if group else {name}
    return found


def _heal(world: World, name: str) -> None:
    """Bring the machine back in good health, even if it was being deleted."""
    machine = world.machines[name]
    phase = MachinePhase.READY if machine.phase is MachinePhase.DELETING else machine.phase
    world.machines[name] = replace(
        machine, phase=phase, cordoned="", draining=False, bad_devices={}
    )


def _edit_quota(world: World, reason: Reason) -> None:
    """Make the change that an admin has to make."""
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
    """Wait until jobs that are stopping, or have reached their limit, are gone."""
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
    if name in world.quota.groups:
        group = replace(world.quota.groups[name], ceiling=world.quota.totals)
        world.quota = replace(world.quota, groups={**world.quota.groups, name: group})
        return
    project = replace(world.quota.projects[name], ceiling=world.quota.totals)
    world.quota = replace(world.quota, projects={**world.quota.projects, name: project})


def _add_project(world: World, name: str) -> None:
    """Add a project without a share, with the members of another project."""
    some = next(iter(world.quota.projects.values()))
    new = replace(some, name=name, nominal=NOTHING, kept=NOTHING)
    world.quota = replace(world.quota, projects={**world.quota.projects, name: new})


def _add_member(world: World, name: str, user: str) -> None:
    project = world.quota.projects[name]
    members = replace(project.members, written=(*project.members.written, user))
    projects = {**world.quota.projects, name: replace(project, members=members)}
    world.quota = replace(world.quota, projects=projects)
