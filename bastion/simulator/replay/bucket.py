"""Reads from a bucket what a replay needs: recorded attempts, machines, the quota file in force."""

from __future__ import annotations

from collections.abc import Mapping

from bastion.errors import NotFoundError
from bastion.history import ended_attempts, recorded_events
from bastion.machine import Machine, Pool
from bastion.records.keys import layout
from bastion.records.root import decode_root
from bastion.service.config.admin_files import read_config
from bastion.simulator.cluster.cluster import Cluster, Shape
from bastion.simulator.replay.record import Recorded, recorded
from bastion.simulator.replay.script import script_of
from bastion.store.port import ObjectStore

NOT_DEVICES = ("cpu", "memory")
_DAYS_S = 2 * 86_400.0
"""Before the first job: the first commit of each day records the quota file in force."""


def recorded_in(store: ObjectStore, url: str, *, since: float | None) -> Recorded:
    """
    Return the jobs that ended in a bucket since a time, with all their attempts.

    Raises:
        NotFoundError: No job that held devices has ended.
        StoreError: Unreachable.
    """
    rows = list(ended_attempts(store, since=since, url=url))
    began = min((row.submitted_at for row in rows), default=0.0)
    if since is not None:
        names = {row.job for row in rows}
        earlier = ended_attempts(store, since=began, until=since, url=url)
        rows = [*(row for row in earlier if row.job in names), *rows]
    events = recorded_events(store, since=began - _DAYS_S)
    script = script_of(events, since=began)
    found = recorded(rows, source=f"the record of {url}", script=script)
    if not found.workload.jobs:
        raise NotFoundError(
            f"{url}: no job that held devices ended in that time",
            hint="a longer time: --replay=90d",
        )
    return found


def cluster_in(store: ObjectStore) -> Cluster:
    """
    Return the current machines of a bucket: existing ones, and those that a pool can create.

    Raises:
        NotFoundError: It has no bastion, or no pool with devices.
        StoreError: Unreachable.
    """
    try:
        stored = store.read(layout.ROOT)
        pools = read_config(store).pools
    except NotFoundError:
        raise NotFoundError("no bastion has led here yet", hint="bastion serve") from None
    assert stored is not None
    machines = decode_root(stored.data).machines
    shapes = _shapes(machines, pools)
    if not shapes:
        raise NotFoundError("no pool here has devices, so there is nothing to schedule")
    return Cluster(shapes=shapes)


def _shapes(machines: Mapping[str, Machine], pools: Mapping[str, Pool]) -> tuple[Shape, ...]:
    standing: dict[str, list[str]] = {name: [] for name in pools}
    for machine in machines.values():
        standing.setdefault(machine.pool, []).append(machine.name)
    shapes = []
    for name, pool in pools.items():
        kinds = [kind for kind in pool.resources.types() if kind not in NOT_DEVICES]
        if len(kinds) == 1:
            shapes.append(
                Shape(
                    name=name,
                    count=len(standing[name]),
                    names=tuple(sorted(standing[name])),
                    most=pool.max_machines,
                    devices=pool.resources[kinds[0]],
                    type=kinds[0],
                    boot_s=pool.boot_s,
                    idle_timeout_s=pool.idle_timeout_s,
                    tier=pool.tier,
                )
            )
    return tuple(shapes)
