"""Which jobs can run at all: on the machines of a cluster, under the projects of a quota file."""

from __future__ import annotations

from dataclasses import replace

from bastion.errors import SpecError
from bastion.simulator.cluster.cluster import Cluster
from bastion.simulator.workload.job import TraceJob, Workload
from bastion.simulator.workload.trace import BadRow, Fits, bad_rows
from quota import Quota
from quota.choice import choose


def fitting(cluster: Cluster, *, quota: Quota | None = None, anywhere: bool = False) -> Fits:
    """
    Return a function that gives a job its type and replicas, or says why it can never run.

    Args:
        cluster: The machines.
        quota: Its projects are those that can be charged; None: any.
        anywhere: Devices count on any machine, as in a strict walk.
    """

    def fits(job: TraceJob) -> TraceJob | str:
        if quota is not None and job.project not in quota.projects:
            near = choose(job.project, list(quota.projects))
            return f"project {job.project} is not in the quota file, {near}"
        return cluster.fitted(job, anywhere=anywhere)

    return fits


def fitted(
    workload: Workload,
    cluster: Cluster,
    *,
    skip_bad: bool = False,
    quota: Quota | None = None,
    anywhere: bool = False,
) -> Workload:
    """
    Return `workload` with types and replicas as they are on `cluster`.

    Args: as for `fitting`; with `skip_bad`, jobs that cannot run are left out.

    Raises:
        SpecError: Some jobs can never run there; lists each with its line.
    """
    fits = fitting(cluster, quota=quota, anywhere=anywhere)
    jobs: list[TraceJob] = []
    bad: list[BadRow] = []
    for job in workload.jobs:
        found = fits(job)
        if isinstance(found, str):
            bad.append(BadRow(job.line, found, job.name))
        else:
            jobs.append(found)
    if bad and not skip_bad:
        raise bad_rows(workload.source or "workload", bad)
    if not jobs:
        raise SpecError(f"{workload.source}: no job of it fits the cluster")
    skipped = (*workload.skipped, *(each.text("line") for each in bad))
    return replace(workload, jobs=jobs, skipped=skipped)
