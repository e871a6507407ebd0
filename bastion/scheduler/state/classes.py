"""
Classes: which admitted gangs stand on their project's own share.

Rules: a fixed order, so nothing changes class unless something came, went or was cut: those that
were guaranteed first (last among them those that are being stopped), then priority, then the time
of admission, then name. A quota cut therefore
demotes the lowest priority first, then the newest.

It must not know machines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from bastion.job import JobClass, JobRecord, Phase
from bastion.scheduler.promise import Promise
from bastion.scheduler.queue.order import Gang
from bastion.scheduler.state.running import Running
from quota.amounts import NOTHING, Amounts
from quota.tree import Quota


class Newcomer(NamedTuple):
    """A gang that does not run yet, and asks for a place in its project's own share."""

    name: str
    project: str
    job_class: JobClass
    priority: int
    admitted_at: float
    held: Amounts


Claimant = Running | Newcomer
"""Who asks for a place in the share; those who run ask for theirs again."""


def derive(
    quota: Quota, claimants: Iterable[Claimant], *, stopped: Collection[str] = ()
) -> dict[str, JobClass]:
    """The class of every gang, by name; those `stopped` are being stopped from now on."""

    def leaves_share(each: Claimant) -> bool:
        if each.job_class is JobClass.BORROWED:
            return False
        return each.name in stopped or (isinstance(each, Running) and each.is_leaving)

    def precedence(each: Claimant) -> tuple[bool, bool, int, float, str]:
        is_borrowed = each.job_class is JobClass.BORROWED
        return is_borrowed, leaves_share(each), each.priority, each.admitted_at, each.name

    by_project: dict[str, list[Claimant]] = {}
    for each in claimants:
        by_project.setdefault(each.project, []).append(each)
    classes = {}
    for project, asking in by_project.items():
        nominal, held = quota.project(project).nominal, NOTHING
        all_fit = Amounts.sum(each.held for each in asking) <= nominal
        for each in asking if all_fit else sorted(asking, key=precedence):
            if each.held and (all_fit or nominal.holds(held, each.held) or leaves_share(each)):
                held = held if all_fit else held + each.held
                classes[each.name] = JobClass.GUARANTEED
            else:
                classes[each.name] = JobClass.BORROWED
    return classes


def classify(
    quota: Quota, running: Iterable[Running], promised: Iterable[Newcomer]
) -> dict[str, JobClass]:
    """
    Set the class of every running gang; those that are being stopped keep theirs.

    They take part until they have ended: that their own project stops somebody on its share lets
    nobody else of it stand there yet, whom another may have been promised. They come last, so that
    whoever was promised their place takes it from nobody who runs on.

    A promise within the share counts like the newest guaranteed gang of its priority: what its
    project takes on beside it is borrowed. The classes of promised gangs are returned.
    """
    holding, waiting = list(running), list(promised)
    classes = derive(quota, [*holding, *waiting])
    for each in holding:
        if not each.is_leaving:
            each.job_class = classes[each.name]
    return {each.name: classes[each.name] for each in waiting}


def promised_by(
    promises: Iterable[Promise],
    jobs: Mapping[str, JobRecord],
    cost: Callable[[Promise, Gang], Amounts],
) -> list[Newcomer]:
    """The gangs that have a promise within their project's share, and still wait; its `cost`."""
    found = []
    for promise in promises:
        gang = tuple(jobs[name] for name in promise.gang if name in jobs)
        is_waiting = bool(gang) and all(job.phase is Phase.QUEUED for job in gang)
        if not (promise.within_share and is_waiting):
            continue
        found.append(
            Newcomer(
                name=promise.gang[0],
                project=gang[0].project,
                job_class=JobClass.GUARANTEED,
                priority=min(job.request.priority for job in gang),
                admitted_at=math.inf,
                held=cost(promise, gang),
            )
        )
    return found
