"""Root as the scheduler sees it."""

from __future__ import annotations

from collections.abc import Mapping

from bastion.job import JobRecord
from bastion.machine import Machine, Pool
from bastion.records.root import Root
from bastion.scheduler.snapshot import Snapshot
from quota import Quota


def snapshot_of(
    root: Root,
    quota: Quota,
    *,
    pools: Mapping[str, Pool],
    jobs: Mapping[str, JobRecord] | None = None,
    machines: Mapping[str, Machine] | None = None,
    quota_problem: str = "",
    stockouts: Mapping[str, float] | None = None,
) -> Snapshot:
    """
    What the scheduler may know for the commit after `root`.

    `jobs` and `machines` are what a turn has made of those of `root`, where it has.
    """
    by_user = {
        (key.partition("/")[0], key.partition("/")[2]): used
        for key, used in root.decayed_by_user.items()
    }
    known = root.jobs if jobs is None else jobs
    return Snapshot(
        quota=quota,
        quota_problem=quota_problem,
        jobs=known,
        machines=root.machines if machines is None else machines,
        pools=pools,
        promises=root.promises,
        planned=root.planned,
        seq=root.seq + 1,
        decayed=root.decayed,
        decayed_by_user=by_user,
        stockouts=stockouts or {},
        reports={job.id: job.report for job in known.values() if job.report},
    )
