"""
A dry run: the bastion's own scheduler, run on this machine with a copy of root.

It writes nothing and needs no bastion. Its answer is only as current as root: the bastion decides
again later, on the state at that time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bastion.client.change.quota_file import parsed_quota
from bastion.errors import NotFoundError
from bastion.job import JobRecord
from bastion.machine import Pool
from bastion.records.keys import layout
from bastion.records.keys.ulid import make
from bastion.records.outlook import snapshot_of
from bastion.records.requests.names import unknown_names
from bastion.records.requests.queued import queued_array, queued_jobs
from bastion.records.requests.quota_limits import with_limit
from bastion.records.requests.targets import look_up, without_ended
from bastion.records.root import MAX_ACTIVE_JOBS, Root, decode_root
from bastion.records.settings.secrets import rules_in
from bastion.records.settings.webhooks import notifications_in
from bastion.records.tasks import extent_of, with_tasks
from bastion.scheduler.snapshot import Snapshot
from bastion.scheduler.whatif import Outlook, QuotaOutlook, if_launched, if_quota_were
from bastion.spec import Launch
from bastion.store.port import ObjectStore


def of_launch(
    store: ObjectStore, pools: Mapping[str, Pool], launch: Launch, *, user: str
) -> Outlook:
    """
    Return what would happen if the checked `launch` were submitted by `user` now.

    For an array, it considers as many tasks as could start.

    Raises:
        NotFoundError: No bastion has ever served this bucket.
        SpecError: The quota in force cannot be read, or a dependency can never be satisfied.
        StoreError: The bucket is unreachable.
    """
    root = _root(store)
    ulid = make(root.now, b"\0" * 10)  # a name that no request has
    jobs = queued_jobs(launch, project=launch.project, user=user, ulid=ulid, at=root.now)
    quota = parsed_quota(root.quota_text)
    jobs = tuple(with_limit(job, quota) for job in jobs)
    if wrong := _problems(root, pools, launch, jobs):
        return Outlook(problems=tuple(wrong))
    if any(job.after for job in jobs):
        known = {name: job for name, job in root.jobs.items() if job.project == launch.project}
        targets = look_up(store, launch.project, launch.waits_for_others)
        arrays = [a for a in root.arrays.values() if a.project == launch.project]
        jobs = without_ended(jobs, known, targets, root.now, arrays=arrays)
    snapshot = snapshot_of(root, quota, now=root.now, pools=pools)
    array = queued_array(launch, jobs[0])
    if array is None:
        return if_launched(snapshot, jobs, root.now)
    new = with_tasks(
        {},
        {array.id: array},
        lambda: extent_of(snapshot.machines.values(), pools.values()),
        now=root.now,
        most=MAX_ACTIVE_JOBS,
    )
    return if_launched(snapshot, new.values(), root.now)


def of_quota(store: ObjectStore, pools: Mapping[str, Pool], text: str) -> QuotaOutlook:
    """
    Return what would happen if `text` were the quota file in force now.

    Raises:
        NotFoundError: No bastion has ever served this bucket.
        SpecError: The quota in force, or `text`, is wrong.
        StoreError: The bucket is unreachable.
    """
    root = _root(store)
    return if_quota_were(_snapshot(root, pools), parsed_quota(text), root.now)


def _problems(
    root: Root, pools: Mapping[str, Pool], launch: Launch, jobs: Iterable[JobRecord]
) -> list[str]:
    """Return why the bastion would refuse it under its admins' configuration."""
    config = root.config_text
    problems = notifications_in(config).problems_of(launch.tells) if launch.tells else []
    problems += unknown_names(launch.where, pools, root.machines.values())
    secrets = dict.fromkeys(each for job in jobs for each in job.secrets)
    return problems + (rules_in(config).problems(launch.project, secrets) if secrets else [])


def _root(store: ObjectStore) -> Root:
    try:
        found = store.read(layout.ROOT)
    except NotFoundError:
        raise NotFoundError("no bastion has served this bucket yet: nothing to predict") from None
    assert found is not None
    return decode_root(found.data)


def _snapshot(root: Root, pools: Mapping[str, Pool]) -> Snapshot:
    return snapshot_of(root, parsed_quota(root.quota_text), now=root.now, pools=pools)
