"""
Classes: which admitted gangs stand on their project's own share.

Rules: a fixed order, so nothing changes class unless something came, went or was cut: those that
were guaranteed first, then priority, then the time of admission, then name. A quota cut therefore
demotes the lowest priority first, then the newest.

It must not know machines.
"""

from __future__ import annotations

from collections.abc import Iterable

from bastion.job import JobClass
from bastion.scheduler.running import Running
from bastion.value import value
from quota.amounts import NOTHING, Amounts
from quota.tree import Quota


@value
class Claimant:
    """A gang that asks for a place in its project's own share."""

    name: str
    project: str
    was: JobClass
    priority: int
    admitted_at: float
    held: Amounts


def derive(quota: Quota, claimants: Iterable[Claimant]) -> dict[str, JobClass]:
    """The class of every gang, by name."""
    classes = {}
    held: dict[str, Amounts] = {}
    for each in sorted(claimants, key=_precedence):
        before = held.get(each.project, NOTHING)
        after = before + each.held
        nominal = quota.project(each.project).nominal
        if each.held and after.only(each.held) <= nominal:
            held[each.project] = after
            classes[each.name] = JobClass.GUARANTEED
        else:
            classes[each.name] = JobClass.BORROWED
    return classes


def _precedence(each: Claimant) -> tuple[bool, int, float, str]:
    return each.was is JobClass.BORROWED, each.priority, each.admitted_at, each.name


def classify(quota: Quota, running: Iterable[Running]) -> None:
    """Set the class of every running gang; those that are being stopped keep theirs."""
    staying = [each for each in running if not each.is_leaving]
    classes = derive(quota, map(claimant, staying))
    for each in staying:
        each.job_class = classes[each.name]


def claimant(running: Running) -> Claimant:
    """`running` as one who asks for its place again."""
    return Claimant(
        name=running.name,
        project=running.project,
        was=running.job_class,
        priority=running.priority,
        admitted_at=running.admitted_at,
        held=running.held,
    )
