"""A replay of the record under several quota files or setups, shown in tables."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from launch.errors import UsageError
from launch.screen.notes import note
from launch.screen.render import Column, counted
from launch.session import Session
from quota.choice import choose

if TYPE_CHECKING:
    from bastion.simulator.cluster.cluster import Cluster
    from bastion.simulator.replay.difference import Difference, ProjectChange
    from bastion.simulator.replay.record import Recorded
    from bastion.simulator.setup import Setup
    from bastion.simulator.study.study import Study
    from quota import Quota

MOST_JOBS = 20
"""The most jobs that are listed; --json has all."""


def replayed(
    session: Session,
    time: str,
    others: dict[str, Quota],
    *,
    ways: dict[str, Setup] | None = None,
    more: dict[str, int] | None = None,
) -> tuple[Study, Difference | None]:
    """
    Replay the record of the bucket under its own quota file and `others`.

    Args:
        session: The session of the command.
        time: How far back, such as `30d`.
        others: Quota files to compare with the one in force, by label.
        ways: Setups to compare, by label, each with the file in force and the bucket's machines.
        more: Additional machines of all `ways`, by pool.
    """
    from bastion.admin import Admin
    from bastion.errors import BastionError
    from bastion.simulator.fitting import fitted
    from bastion.simulator.replay.bucket import cluster_in, recorded_in
    from bastion.simulator.replay.difference import difference
    from bastion.simulator.replay.record import same_starts
    from bastion.simulator.setup import Setup
    from bastion.simulator.study.compare import run_points
    from bastion.simulator.study.point import Point
    from bastion.simulator.study.study import Study
    from bastion.spec.values.quantity import seconds_of
    from launch.screen.study_progress import StudyProgress

    url = session.profile.root
    store = Admin(url).store
    since = session.client.store_now() - seconds_of("--replay", time)
    then = recorded_in(store, url, since=since)
    cluster = cluster_in(store)
    wider = _grown(cluster, more or {})
    quota = session.client.quota()
    workload = fitted(then.workload, cluster, skip_bad=True)
    if not session.is_quiet:
        note(f"{counted(len(workload.jobs), 'recorded job')}; {then.left_out} skipped")
        for line in workload.skipped[:1]:
            note(f"no longer fitting: {counted(len(workload.skipped), 'job')}, such as {line}")
        note(_files(then))
    quota = then.first_quota or quota
    plain = Setup(cluster=cluster, quota=quota, is_replay=True, label="in force")
    setups = [plain]
    for label, other in others.items():
        setups.append(replace(plain, quota=other, keeps_quota=True, label=label))
    for label, way in (ways or {}).items():
        if more:
            _check_totals(wider, way.quota or session.client.quota(), more)
        kept = replace(way, cluster=wider, is_replay=True, label=label)
        setups.append(replace(kept, quota=way.quota or quota, keeps_quota=way.quota is not None))
    names = tuple(job.name for job in workload.jobs)
    points = [Point(setup=setup, workload=workload, names=names) for setup in setups]
    with StudyProgress(quiet=session.out.format == "name") as progress:
        runs = run_points(points, told=progress.tell)
    study = Study(runs)
    by_label = {result.label: result for result in runs.results}
    if "in force" not in by_label:
        why = study.failed.get("in force", "it was interrupted")
        raise BastionError(f"the file in force could not be replayed: {why}")
    before = by_label["in force"]
    if not session.is_quiet:
        part = same_starts(then, before)
        note(f"under the file in force, {100 * part:.0f} % of the recorded starts are reproduced")
    others_found = [result for result in runs.results if result is not before]
    return study, difference(before, others_found[0]) if others_found else None


def _grown(cluster: Cluster, more: dict[str, int]) -> Cluster:
    """
    Return `cluster` with more machines.

    Raises:
        UsageError: A pool does not exist.
    """
    for name in more:
        if name not in cluster.named:
            raise UsageError(f"--more: no pool is named {name!r}; {choose(name, [*cluster.named])}")
    return cluster.grown(more)


def _check_totals(cluster: Cluster, quota: Quota, more: dict[str, int]) -> None:
    """
    Check that the quota file divides the devices of the added machines.

    Raises:
        UsageError: It divides fewer, so no project could use them.
    """
    for kind in sorted({cluster.named[name].type for name in more} & quota.types):
        units, total = cluster.totals[kind], quota.totals[kind]
        if total < units:
            raise UsageError(
                f"--more: the cluster then has {units} {kind}, but the quota file divides only"
                f" {total}, so no project could use the others",
                hint="run bastion quota show -o wide > new.toml, set"
                f" {kind} = {units} in it, and add --quota=new.toml",
            )


def _files(then: Recorded) -> str:
    if not then.files:
        return "the record has no quota file of that period; using the one in force now"
    return f"{counted(then.files, 'quota file')} in force in that period, each from its own time on"


def show_difference(session: Session, found: Difference) -> None:
    """Print what would have changed: by project, then the jobs with the largest changes."""
    from bastion.simulator.report.words import duration

    if session.out.format == "json":
        session.out.json(
            {"projects": list(map(_plain, found.projects)), "jobs": list(map(_plain, found.jobs))}
        )
        return
    columns: list[Column[ProjectChange]] = [
        Column(title="PROJECT", text=lambda each: each.project),
        Column(title="JOBS", text=lambda each: f"{each.jobs:,}"),
        Column(title="SOONER", text=lambda each: f"{each.sooner:,}"),
        Column(title="LATER", text=lambda each: f"{each.later:,}"),
        Column(
            title="WAITING",
            text=lambda each: (
                f"{duration(each.waited_before_s)} -> {duration(each.waited_after_s)}"
            ),
        ),
        Column(
            title="PREEMPTED",
            text=lambda each: f"{each.preempted_before} -> {each.preempted_after}",
        ),
    ]
    session.out.show("projects", found.projects, columns, name=lambda each: each.project)
    for job in found.jobs[:MOST_JOBS]:
        way = "sooner" if job.sooner_s > 0 else "later"
        by = duration(abs(job.sooner_s)) if abs(job.sooner_s) < float("inf") else "forever"
        note(
            f"{job.job} of {job.project} would have ended {by} {way}, preempted"
            f" {job.preempted_after} times, not {job.preempted_before}"
            if job.preempted_after != job.preempted_before
            else f"{job.job} of {job.project} would have ended {by} {way}"
        )
    if len(found.jobs) > MOST_JOBS:
        note(f"and {len(found.jobs) - MOST_JOBS:,} more jobs; --json lists all")
    if not found.jobs:
        note("nothing would have changed")


def _plain(change: object) -> dict[str, object]:
    from dataclasses import asdict

    found = asdict(change)  # type: ignore[call-overload]
    return {
        name: None if number in (float("inf"), float("-inf")) else number
        for name, number in found.items()
    }
