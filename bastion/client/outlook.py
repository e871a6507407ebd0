"""
What would happen now: the bastion's own scheduler, asked on this machine about root as it stands.

Nothing is written and nobody is asked, so it works while the bastion is down. It is as true as root
is young; the bastion decides again, on what is true then.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping

from bastion import catalog
from bastion.client.quota_file import parsed_quota
from bastion.errors import NotFoundError
from bastion.job import JobRecord
from bastion.machine import Pool
from bastion.records import layout
from bastion.records.codec import decode
from bastion.records.root import Root
from bastion.records.ulid import make
from bastion.scheduler.snapshot import Snapshot
from bastion.scheduler.whatif import Outlook, QuotaOutlook, if_launched, if_quota_were
from bastion.spec import Job, Launch, job_id, request_of
from bastion.store.port import ObjectStore


def of_launch(
    store: ObjectStore, pools: Mapping[str, Pool], launch: Launch, *, user: str
) -> Outlook:
    """
    What would happen if `launch`, checked, were submitted by `user` now.

    Raises:
        NotFoundError: No bastion has ever served this bucket.
        SpecError: The quota in force cannot be read.
        StoreError: Out of reach.
    """
    root = _root(store)
    return if_launched(_snapshot(root, pools), _records(launch, user, root.now), root.now)


def of_quota(store: ObjectStore, pools: Mapping[str, Pool], text: str) -> QuotaOutlook:
    """
    What would happen if `text` were the quota file in force now.

    Raises:
        NotFoundError: No bastion has ever served this bucket.
        SpecError: The quota in force, or `text`, is wrong.
        StoreError: Out of reach.
    """
    root = _root(store)
    return if_quota_were(_snapshot(root, pools), parsed_quota(text), root.now)


def _root(store: ObjectStore) -> Root:
    try:
        found = store.read(layout.ROOT)
    except NotFoundError:
        raise NotFoundError("no bastion has served this bucket yet: nothing to foresee") from None
    assert found is not None
    data = found.data
    return decode(Root, gzip.decompress(data) if data[:1] != b"{" else data, key=layout.ROOT)


def _snapshot(root: Root, pools: Mapping[str, Pool]) -> Snapshot:
    by_user = {
        (key.partition("/")[0], key.partition("/")[2]): used
        for key, used in root.decayed_by_user.items()
    }
    return Snapshot(
        quota=parsed_quota(root.quota_text),
        jobs=root.jobs,
        machines=root.machines,
        pools=pools,
        promises=root.promises,
        planned=root.planned,
        seq=root.seq + 1,
        decayed=root.decayed,
        decayed_by_user=by_user,
    )


def _records(launch: Launch, user: str, now: float) -> list[JobRecord]:
    """The jobs as the bastion would record them, under names that no request has."""
    ulid = make(now, b"\0" * 10)
    single = len(launch.jobs) == 1
    names = [launch.name if single else f"{launch.name}-{job.name}" for job in launch.jobs]
    ids = tuple(job_id(name, ulid) for name in names)
    return [
        JobRecord(
            id=ids[index],
            project=launch.project,
            user=user,
            launch=job_id(launch.name, ulid),
            index=index,
            ulid=ulid,
            submitted_at=now,
            queued_at=now,
            request=request_of(launch, job, per_replica=job.per_replica, hosts=_hosts(job)),
            name=job.name,
            gang=ids if launch.together and not single else (),
            fail_when_busy=launch.when_busy == "fail",
            held=user if job.hold else "",
        )
        for index, job in enumerate(launch.jobs)
    ]


def _hosts(job: Job) -> int:
    return catalog.lookup(job.instance_type).hosts if job.instance_type else 1
