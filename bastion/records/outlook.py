"""The scheduler's input, made from root."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from bastion.array import ArrayRecord
from bastion.job import JobRecord
from bastion.machine import Machine, Pool
from bastion.records.root import MAX_ACTIVE_JOBS, Root
from bastion.records.tasks import extent_of, states_of, with_tasks
from bastion.scheduler.promise import PlannedStart, Promise
from bastion.scheduler.reasons.reason import ProviderStockout
from bastion.scheduler.runs import Runs
from bastion.scheduler.snapshot import Snapshot
from quota import Quota


def snapshot_of(
    root: Root,
    quota: Quota,
    *,
    now: float,
    pools: Mapping[str, Pool],
    jobs: Mapping[str, JobRecord] | None = None,
    arrays: Mapping[str, ArrayRecord] | None = None,
    machines: Mapping[str, Machine] | None = None,
    quota_problem: str = "",
    stockouts: Mapping[str, ProviderStockout] | None = None,
    runs: Mapping[str, Runs] | None = None,
    considered: frozenset[tuple[str, bool]] = frozenset(),
) -> Snapshot:
    """
    Return the snapshot for the commit after `root`.

    `jobs`, `arrays`, `machines` and `runs` replace those of `root` if a turn has changed them.
    `considered` comes from the last plan. The snapshot has only those tasks of each array for which
    a cycle could do anything.
    """
    by_user = {
        (key.partition("/")[0], key.partition("/")[2]): used
        for key, used in root.decayed_by_user.items()
    }
    standing = root.machines if machines is None else machines
    own = root.jobs if jobs is None else jobs
    active = root.arrays if arrays is None else arrays
    known = with_tasks(
        own,
        active,
        lambda: extent_of(standing.values(), pools.values()),
        now=now,
        promised=[*_gangs(root.promises), *_gangs(root.planned)],
        most=MAX_ACTIVE_JOBS,
    )
    return Snapshot(
        quota=quota,
        quota_problem=quota_problem,
        jobs=known,
        arrays=states_of(own, active) if active else {},
        machines=standing,
        pools=pools,
        promises=root.promises,
        planned=root.planned,
        considered=considered,
        seq=root.seq + 1,
        decayed=root.decayed,
        decayed_by_user=by_user,
        spent={
            name: budget.hours_spent(root.spent.get(name), now)
            for name, budget in quota.budgets.items()
        },
        stockouts=stockouts or {},
        runs=root.runs if runs is None else runs,
        reports=_Reports(known),
    )


class _Reports(Mapping[str, Mapping[str, float]]):
    """Job -> what it reported, looked up when a policy asks: most policies never ask."""

    def __init__(self, jobs: Mapping[str, JobRecord]) -> None:
        self._jobs = jobs

    def __getitem__(self, name: str) -> Mapping[str, float]:
        if not (report := self._jobs[name].report):
            raise KeyError(name)
        return report

    def __iter__(self) -> Iterator[str]:
        return (name for name, job in self._jobs.items() if job.report)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _gangs(kept: Iterable[Promise | PlannedStart]) -> Iterator[str]:
    return (job for each in kept for job in each.gang)
