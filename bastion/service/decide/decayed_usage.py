"""Usage over time: decayed, as the basis of fair order, and in full against budgets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from bastion.job import JobClass
from bastion.records.root import Root
from bastion.scheduler.charge import faded, held_by
from bastion.value import replace
from quota import NOTHING, Amounts, Quota
from quota.budget import Spending
from quota.ledger import borrowed

_FORGOTTEN = 1e-6
"""Unit-seconds below which a project or user is dropped."""


def accrued(
    root: Root, quota: Quota | None, now: float, working: Iterable[str] | None = None
) -> Root:
    """
    Return `root` with its usage decayed to `now`, plus what was held since its commit.

    What was held also counts in full against the budgets of `quota`.

    A project is charged for what it borrows, a group of projects for what it holds beyond its own
    share, and a user for everything held. The charge is the dominant share of the pool times
    seconds, halved every `usage_half_life_s`. Without a quota file there is no charge. `working`
    names the jobs of `root` that are not just queued, if the caller knows them.
    """
    projects, users = dict(root.decayed), dict(root.decayed_by_user)
    passed_s = max(0.0, now - root.decayed_at)
    if quota is not None and passed_s > 0.0:
        kept, counted_s = faded(passed_s, quota.scheduler.usage_half_life_s)
        by_project, by_user = _charges(root, root.jobs if working is None else working, quota)
        _charge(projects, by_project, kept, counted_s)
        _charge(users, by_user, kept, counted_s)
    at = max(now, root.decayed_at)
    spent = root.spent if quota is None else _spent(root, quota, at, working)
    return replace(root, decayed=projects, decayed_by_user=users, decayed_at=at, spent=spent)


def accounts(root: Root) -> Mapping[str, object]:
    """Return what `accrued` brings up to date, as fields of root."""
    names = ("decayed", "decayed_by_user", "decayed_at", "spent")
    return {name: getattr(root, name) for name in names}


def _spent(
    root: Root, quota: Quota, now: float, working: Iterable[str] | None
) -> Mapping[str, Spending]:
    """Return by project or group what counts against its budget, with usage since the commit."""
    if not quota.budgets:
        return {}
    held: dict[str, Amounts] = defaultdict(lambda: NOTHING)
    for job in (root.jobs[name] for name in (root.jobs if working is None else working)):
        if job.attempt is not None and job.is_admitted:
            units = held_by(job, root.machines)
            for node in quota.chain(job.project):
                held[node.name] += units
    return {
        name: budget.charged(root.spent.get(name), held[name], since=root.decayed_at, now=now)
        for name, budget in quota.budgets.items()
    }


def _charge(
    books: dict[str, float], charges: Mapping[str, float], kept: float, counted_s: float
) -> None:
    for name in books.keys() | charges.keys():
        used = books.get(name, 0.0) * kept + charges.get(name, 0.0) * counted_s
        books[name] = used
        if used < _FORGOTTEN:
            del books[name]


def _charges(
    root: Root, names: Iterable[str], quota: Quota
) -> tuple[dict[str, float], dict[str, float]]:
    by_project: dict[str, float] = defaultdict(float)
    by_user: dict[str, float] = defaultdict(float)
    usage: dict[str, Amounts] = {}
    for job in (root.jobs[name] for name in names):
        if job.attempt is None or not job.is_admitted:
            continue
        held = held_by(job, root.machines)
        if quota.groups:
            usage[job.project] = usage.get(job.project, NOTHING) + held
        share = _dominant_share(held, quota.totals)
        by_user[f"{job.project}/{job.user}"] += share
        if job.attempt.job_class is JobClass.BORROWED:
            by_project[job.project] += share
    for group in quota.groups:
        by_project[group] = _dominant_share(borrowed(quota, usage, group), quota.totals)
    return by_project, by_user


def _dominant_share(usage: Amounts, totals: Amounts) -> float:
    return max((n / totals[kind] for kind, n in usage.items() if totals[kind]), default=0.0)
