"""
Classes: which admitted gangs are on their project's own share.

The order is fixed, so no gang changes class unless one was added, removed or cut. Gangs that were
guaranteed before come first (those being stopped come last among them), then priority, then the
time of admission (for promises, the order in which they were made), then name. A quota cut
therefore demotes the lowest priority first, then the newest. A gang that never borrows precedes all
of them, and keeps its class when the share is cut below it.

This module must not know machines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from bastion.job import JobClass, JobRecord, Phase
from bastion.scheduler.promise import Promise
from bastion.scheduler.queue.order import Gang
from bastion.scheduler.state.holders.running import Running
from quota.amounts import NOTHING, Amounts
from quota.tree import Project, Quota


class Newcomer(NamedTuple):
    """A gang that does not run yet, and asks for a place in its project's own share."""

    name: str
    project: str
    job_class: JobClass
    priority: int
    admitted_at: float
    """Infinite for a promise: it does not start yet."""
    held: Amounts
    borrows: bool
    """Whether it would rather be beyond the share than not run at all."""
    is_leaving: bool = False
    number: int = 0
    """Among promises: the first made has the lowest."""


Claimant = Running | Newcomer
"""A gang that asks for a place in the share; running gangs ask for theirs again."""

Classify = Callable[
    [Quota, Iterable[Running], Iterable[Newcomer], Collection[str]], Mapping[str, JobClass]
]
"""How the classes of some projects are derived; see `classify`."""


def derive(
    quota: Quota, claimants: Iterable[Claimant], *, stopped: Collection[str]
) -> dict[str, JobClass]:
    """Return the class of every gang, by name; those `stopped` are being stopped from now on."""
    by_project: dict[str, list[Claimant]] = {}
    for each in claimants:
        by_project.setdefault(each.project, []).append(each)
    classes: dict[str, JobClass] = {}
    for name, asking in by_project.items():
        project = quota.project(name)
        if Amounts.sum(each.held for each in asking) <= project.nominal:
            own, borrowed = JobClass.GUARANTEED, JobClass.BORROWED
            classes.update({each.name: own if each.held else borrowed for each in asking})
        else:
            classes.update(_divide(project, asking, stopped))
    return classes


def _divide(
    project: Project, asking: Iterable[Claimant], stopped: Collection[str]
) -> dict[str, JobClass]:
    """Return the classes of what asks for more than the share of `project`."""
    ranked = []
    for at, each in enumerate(asking):
        is_borrowed = each.job_class is JobClass.BORROWED
        may_be_borrowed = each.borrows and project.borrow
        leaves_share = not is_borrowed and (each.is_leaving or each.name in stopped)
        # In a group a promise may rest on the share of the group: it demotes no running gang.
        is_last = bool(project.group) and each.admitted_at == math.inf
        rank = leaves_share, is_last, each.priority, each.admitted_at, _number(each), each.name
        ranked.append((may_be_borrowed, is_borrowed, *rank, at, each.held))
    ranked.sort()
    nominal, held = project.nominal, NOTHING
    classes: dict[str, JobClass] = {}
    for may_be_borrowed, _, leaves_share, *_, name, _, units in ranked:
        is_forced = leaves_share or not may_be_borrowed
        if units and (is_forced or nominal.holds(held, units)):
            held = held + units
            classes[name] = JobClass.GUARANTEED
        else:
            classes[name] = JobClass.BORROWED
    return classes


def covers(
    quota: Quota, claimants: Iterable[Claimant], classes: Mapping[str, JobClass]
) -> dict[str, str]:
    """
    Return the group whose share covers each gang that is beyond its project's, by name.

    Earlier gangs are covered first, so that no running gang is displaced by a newer one.
    """
    standing: dict[str, Amounts] = {}
    waiting: dict[str, list[Claimant]] = {}
    for each in claimants:
        for group in quota.groups_of(each.project)[:1]:
            if classes[each.name] is JobClass.GUARANTEED:
                standing[group.name] = standing.get(group.name, NOTHING) + each.held
            elif each.held and each.borrows and quota.project(each.project).borrow:
                waiting.setdefault(group.name, []).append(each)
    found: dict[str, str] = {}
    for name in sorted(quota.groups, key=lambda name: -len(quota.groups_of(name))):
        group, on = quota.groups[name], standing.get(name, NOTHING)
        for each in sorted(waiting.get(name, ()), key=_coming):
            if group.nominal.holds(on, each.held):
                found[each.name], on = name, on + each.held
            elif group.group:
                waiting.setdefault(group.group, []).append(each)
        if group.group:
            standing[group.group] = standing.get(group.group, NOTHING) + on
    return found


def _coming(each: Claimant) -> tuple[bool, float, int, int, str]:
    return each.is_leaving, each.admitted_at, each.priority, _number(each), each.name


def _number(each: Claimant) -> int:
    return each.number if isinstance(each, Newcomer) else 0


def classify(
    quota: Quota,
    running: Iterable[Running],
    promised: Iterable[Newcomer],
    victims: Collection[str] = (),
) -> dict[str, JobClass]:
    """
    Set the class of every running gang; gangs that are being stopped keep theirs.

    They count until they have ended: their place in the share may have been promised, so no other
    gang of their project may take it yet. They come last, so that the gang that was promised their
    place takes it from no other running gang. The same holds for the `victims` of promises within
    the share that may stand, by name: they will be stopped. A promise within the share counts like
    the newest guaranteed gang of its priority: what its project takes beside it is borrowed. The
    classes of promised gangs are returned.
    """
    holding, waiting = list(running), list(promised)
    classes = derive(quota, [*holding, *waiting], stopped=victims)
    cover = covers(quota, [*holding, *waiting], classes) if quota.groups else {}
    for each in holding:
        each.cover = cover.get(each.name, "")
        if not each.is_leaving:
            each.job_class = classes[each.name]
    return {each.name: classes[each.name] for each in waiting}


def promised_by(
    promises: Iterable[Promise],
    jobs: Mapping[str, JobRecord],
    cost: Callable[[Promise, Gang], Amounts],
    made: int = 0,
) -> list[Newcomer]:
    """
    Return the gangs that have a promise within their project's share, and still wait.

    The `promises` are in the order in which they were made, after as many as were `made` before.
    """
    found = []
    for number, promise in enumerate(promises, made):
        gang = tuple([jobs[name] for name in promise.gang if name in jobs])
        is_waiting = bool(gang) and all(job.phase is Phase.QUEUED for job in gang)
        if not (promise.within_share and is_waiting):
            continue
        found.append(
            Newcomer(
                name=promise.gang[0],
                project=gang[0].project,
                job_class=JobClass.GUARANTEED,
                priority=min([job.request.priority for job in gang]),
                admitted_at=math.inf,
                held=cost(promise, gang),
                borrows=all(job.request.borrow for job in gang),
                number=number,
            )
        )
    return found


def may_stand(quota: Quota, newcomer: Newcomer) -> bool:
    """Whether any share could hold it alone: the quota may have been cut since its promise."""
    return any(node.nominal.holds(NOTHING, newcomer.held) for node in quota.chain(newcomer.project))
