"""Usage over time, decayed: what fairness between projects and users stands on."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from bastion.job import JobClass
from bastion.records.root import Root
from quota import Amounts, Quota

_FORGOTTEN = 1e-6
"""Unit-seconds below which a name leaves the books."""


def accrued(root: Root, quota: Quota | None, now: float) -> Root:
    """
    `root` with its books brought forward to `now`.

    A project is charged for what it borrows and a user for all that he holds: the dominant share of
    the pool times seconds, halved every `usage_half_life_s`.
    """
    passed_s = max(0.0, now - root.decayed_at)
    if quota is None or passed_s == 0.0:
        return replace(root, decayed_at=now)
    kept = 0.5 ** (passed_s / quota.scheduler.usage_half_life_s)
    projects = {name: used * kept for name, used in root.decayed.items()}
    users = {name: used * kept for name, used in root.decayed_by_user.items()}
    by_project, by_user = _charges(root, quota)
    _charge(projects, by_project, passed_s)
    _charge(users, by_user, passed_s)
    return replace(root, decayed=projects, decayed_by_user=users, decayed_at=now)


def _charge(books: dict[str, float], charges: dict[str, float], passed_s: float) -> None:
    for name, share in charges.items():
        books[name] = books.get(name, 0.0) + share * passed_s
    for name in [name for name, used in books.items() if used < _FORGOTTEN]:
        del books[name]


def _charges(root: Root, quota: Quota) -> tuple[dict[str, float], dict[str, float]]:
    by_project: dict[str, float] = defaultdict(float)
    by_user: dict[str, float] = defaultdict(float)
    for job in root.jobs.values():
        if job.attempt is None or not job.is_admitted:
            continue
        share = _dominant_share(job.usage, quota.totals)
        by_user[f"{job.project}/{job.user}"] += share
        if job.attempt.job_class is JobClass.BORROWED:
            by_project[job.project] += share
    return by_project, by_user


def _dominant_share(usage: Amounts, totals: Amounts) -> float:
    return max((n / totals[kind] for kind, n in usage.items() if totals[kind]), default=0.0)
