"""
A brute-force check of capacity: tries every placement to find whether a gang could start.

It is written from the rules, not from the code: machines have devices by index and amounts, whole
machines serve `exclusive` jobs and slices, and tiers have totals. It is exact where the scheduler,
which places replica by replica, can be exact: for gangs of one job, and for gangs whose jobs have
sizes that divide each other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from bastion.job import JobRecord, Phase, Placement
from bastion.machine import Machine, Pool
from bastion.scheduler.plan import Admit, Plan
from bastion.scheduler.promise import PlannedStart, Promise
from bastion.scheduler.snapshot import Snapshot
from bastion.spec.where import Where
from quota import Amounts

NOTHING = Amounts({})
COUNTED = ("cpu", "memory")
GUESTS = 32

Charge = tuple[Amounts, ...]
"""The amounts of the types under quota, by tier."""


def alive(snapshot: Snapshot) -> list[JobRecord]:
    """Return the jobs that hold something."""
    return [job for job in snapshot.jobs.values() if job.is_admitted and job.attempt]


def placed(job: JobRecord) -> Placement:
    """Return where the job is placed."""
    assert job.attempt is not None
    return job.attempt.placement


def admits(plan: Plan) -> dict[str, Admit]:
    """Return the jobs that start."""
    return {name: v for name, v in plan.verdicts.items() if isinstance(v, Admit)}


def size_of(snapshot: Snapshot, machine: Machine) -> Amounts:
    """Return everything that a machine has."""
    return machine.resources or snapshot.pools[machine.pool].resources


def machines_of(snapshot: Snapshot, plan: Plan | None = None) -> dict[str, Machine]:
    """Return all machines, including those that `plan` creates."""
    made = plan.new_machines if plan else ()
    return {**snapshot.machines, **{machine.name: machine for machine in made}}


def _machines_to_be(snapshot: Snapshot, plan: Plan | None) -> dict[str, Machine]:
    """Return these machines, and those on which `plan` keeps a start before they exist."""
    found = machines_of(snapshot, plan)
    reserved: list[Promise | PlannedStart] = [*plan.promises, *plan.planned] if plan else []
    places = (replica for each in reserved for place in each.placements for replica in place)
    for name in sorted({host.machine for place in places for host in place.hosts} - found.keys()):
        pool = next(pool for pool in snapshot.pools if name.startswith(f"{pool}-"))
        found[name] = _unmade(snapshot.pools[pool], name, name.partition("-h")[0])
    return found


def _unmade(pool: Pool, name: str, slice_: str) -> Machine:
    return Machine(
        name=name, pool=pool.name, tier=pool.tier, slice=slice_ if pool.hosts > 1 else ""
    )


def start_of(planned: PlannedStart) -> float:
    """Return when it starts; never, as far as is known, if it drains."""
    return float("inf") if planned.at is None else planned.at


def timed(planned: Sequence[PlannedStart]) -> list[PlannedStart]:
    """Return plans that close devices to all others; drains close them within a project only."""
    return [each for each in planned if each.at is not None]


def takes_whole(job: JobRecord) -> bool:
    """Whether it gets whole machines and is charged for them."""
    return job.request.where.exclusive or job.request.hosts > 1


def charge_of(
    snapshot: Snapshot, job: JobRecord, placement: Placement, plan: Plan | None = None
) -> Charge:
    """Return what a job is charged for `placement`."""
    machines = _machines_to_be(snapshot, plan)
    types = snapshot.quota.types
    by_tier = [NOTHING for _ in snapshot.quota.tiers]
    seen = set()
    for place in placement:
        if not takes_whole(job):
            by_tier[place.tier] += job.request.per_replica.only(types)
            continue
        for host in place.hosts:
            if host.machine not in seen and host.machine in machines:
                seen.add(host.machine)
                by_tier[place.tier] += size_of(snapshot, machines[host.machine]).only(types)
    return tuple(by_tier)


def total(charge: Charge) -> Amounts:
    """Return the sum over all tiers."""
    return Amounts.sum(charge)


def held_by(snapshot: Snapshot, job: JobRecord) -> Amounts:
    """Return what an admitted job is charged."""
    return total(charge_of(snapshot, job, placed(job)))


@dataclass(frozen=True)
class Spot:
    """What is left on one machine."""

    pool: str
    tier: int
    slice: str
    names: tuple[str, ...]
    """The labels that a filter can match; none if the machine does not exist yet."""
    labels: tuple[tuple[str, str], ...]
    size: Amounts
    free: Amounts
    is_vacant: bool
    """Whether it has no job and no promise."""
    is_sound: bool
    """Whether all of its devices are healthy."""
    guests: int = 0
    owner: str = ""
    """The job that has taken the whole machine in this trial."""


@dataclass
class Stand:
    """What is left on all machines and in the tiers."""

    spots: dict[str, Spot]
    tiers: list[Amounts]
    now: float


def stand(
    snapshot: Snapshot,
    now: float,
    plan: Plan,
    *,
    gone: Iterable[str] = (),
    ignoring: Iterable[tuple[str, ...]] = (),
    beside: Iterable[Promise] = (),
) -> Stand:
    """
    Return what is left once the jobs `gone` have ended, with all starts, promises and plans.

    It includes machines that a pool can still create. Promises and plans of the gangs `ignoring` do
    not count; the promises `beside` count in addition.
    """
    without, left_out = set(gone), set(ignoring)
    taken: list[tuple[JobRecord, Placement]] = [
        (job, placed(job)) for job in alive(snapshot) if job.id not in without
    ]
    taken += [(snapshot.jobs[name], verdict.placement) for name, verdict in admits(plan).items()]
    reserved: list[Promise | PlannedStart] = [*plan.promises, *timed(plan.planned), *beside]
    for each in reserved:
        if each.gang not in left_out:
            taken += [(snapshot.jobs[n], p) for n, p in zip(each.gang, each.placements)]
    machines = _machines_to_be(snapshot, plan)
    devices: dict[str, set[tuple[str, int]]] = defaultdict(set)
    amounts: dict[str, Amounts] = defaultdict(lambda: NOTHING)
    guests: dict[str, int] = defaultdict(int)
    sealed, visited = set(), set()
    tiers = [tier.units for tier in snapshot.quota.tiers]
    for job, placement in taken:
        for tier, charge in enumerate(charge_of(snapshot, job, placement, plan)):
            tiers[tier] -= charge
        for place in placement:
            for host in place.hosts:
                visited.add(host.machine)
                if takes_whole(job):
                    sealed.add(host.machine)
                if not job.request.per_replica:
                    guests[host.machine] += 1
                devices[host.machine] |= {(t, i) for t, ids in host.devices.items() for i in ids}
                amounts[host.machine] += job.request.per_replica.only(COUNTED)
    spots = {}
    for name, machine in machines.items():
        if not machine.accepts or name in sealed:
            continue
        size = size_of(snapshot, machine)
        out = {(t, i) for t, ids in machine.bad_devices.items() for i in ids if i < size[t]}
        used = devices[name] | out
        units = {t: n - sum(each == t for each, _ in used) for t, n in size.items()}
        spots[name] = replace(
            spot_of(snapshot, machine),
            free=Amounts(units) - amounts[name],
            is_vacant=name not in visited,
            is_sound=not out,
            guests=guests[name],
        )
    return Stand({**spots, **_to_make(snapshot, now, machines)}, tiers, now)


def spot_of(snapshot: Snapshot, machine: Machine) -> Spot:
    """Return the spot of a machine without jobs."""
    size = size_of(snapshot, machine)
    return Spot(
        pool=machine.pool,
        tier=min(machine.tier, len(snapshot.quota.tiers) - 1),
        slice=machine.slice,
        names=(machine.name, machine.hostname),
        labels=_labels(snapshot.pools.get(machine.pool), machine),
        size=size,
        free=size,
        is_vacant=True,
        is_sound=True,
    )


def _labels(pool: Pool | None, machine: Machine | None = None) -> tuple[tuple[str, str], ...]:
    of_pool = pool.labels if pool else {}
    return tuple(sorted({**of_pool, **(machine.labels if machine else {})}.items()))


def _to_make(snapshot: Snapshot, now: float, machines: Mapping[str, Machine]) -> dict[str, Spot]:
    """Return the machines that pools can create in addition to `machines`, slice by slice."""
    found = {}
    for pool in snapshot.pools.values():
        room = pool.max_machines - sum(each.pool == pool.name for each in machines.values())
        stockout = snapshot.stockouts.get(pool.name)
        if stockout is not None and stockout.until > now:
            room = 0
        for i in range(room // pool.hosts * pool.hosts):
            machine = _unmade(pool, f"new {pool.name} {i}", f"new {pool.name} {i // pool.hosts}")
            found[machine.name] = spot_of(snapshot, machine)
    return found


@dataclass(frozen=True)
class _Need:
    job: str
    units: Amounts
    hosts: int
    is_exclusive: bool
    where: Where
    closed: frozenset[str]
    """The spots on which maintenance prevents its start."""


def can_start(
    snapshot: Snapshot, gang: Iterable[JobRecord], left: Stand, allows: Callable[[Amounts], bool]
) -> bool:
    """Whether some placement holds all of `gang`, at a charge that is allowed."""
    gang = list(gang)
    resumes = all(job.resume for job in gang)
    closed = {job.id: _closed_for(snapshot, job, left, resumes=resumes) for job in gang}
    needs = [
        _Need(
            job=job.id,
            units=job.request.per_replica,
            hosts=job.request.hosts,
            is_exclusive=job.request.where.exclusive,
            where=job.request.where,
            closed=closed[job.id],
        )
        for job in gang
        for _ in range(job.request.replicas)
    ]
    needs.sort(key=lambda need: (-need.hosts, not need.is_exclusive, -sum(_sizes(need)), need.job))
    same = max(job.request.where.same for job in gang)
    return any(
        _try(snapshot.quota.types, needs, spots, left.tiers, NOTHING, allows)
        for spots in _blocks(left.spots, same)
    )


def _blocks(spots: Mapping[str, Spot], same: str) -> list[dict[str, Spot]]:
    """
    Return the sets within which a whole gang must fit: all of `spots`, or one set per block of
    `same`.
    """
    if not same:
        return [dict(spots)]
    found: dict[str, dict[str, Spot]] = defaultdict(dict)
    for name, spot in spots.items():
        if block := block_of(spot, same):
            found[block][name] = spot
    return list(found.values())


def block_of(spot: Spot, same: str) -> str:
    """Return the value of the label `same`, or the pool; empty if unknown."""
    return spot.pool if same == "pool" else dict(spot.labels).get(same, "")


def _closed_for(
    snapshot: Snapshot, job: JobRecord, left: Stand, *, resumes: bool
) -> frozenset[str]:
    """
    Return spots with a window that begins before `job` ends, or before its minimum run if it
    `resumes`.

    A promise may start it later than now, so the longest wait for a promise is added to its run
    time.
    """
    options, limit_s = snapshot.quota.scheduler, job.request.max_runtime_s
    asked_s = options.grace_s if job.request.grace_s is None else job.request.grace_s
    runs_s = float("inf") if limit_s is None else limit_s
    if resumes:
        runs_s = min(runs_s, max(options.min_runtime_s, 1.0))
    spare_s = options.min_runtime_s + options.max_grace_s
    ends_at = left.now + spare_s + runs_s + min(asked_s, options.max_grace_s)
    windows = [
        w for w in snapshot.quota.maintenance if w.starts_at < ends_at and w.ends_at > left.now
    ]
    return frozenset(
        name
        for name, spot in left.spots.items()
        for window in windows
        if not (window.pools or window.machines)
        or spot.pool in window.pools
        or {*window.machines} & {*spot.names}
    )


def _sizes(need: _Need) -> list[int]:
    return [units for resource, units in need.units.items() if resource not in COUNTED]


def _try(
    types: frozenset[str],
    needs: list[_Need],
    spots: Mapping[str, Spot],
    tiers: list[Amounts],
    spent: Amounts,
    allows: Callable[[Amounts], bool],
) -> bool:
    if not needs:
        return allows(spent)
    need, tried = needs[0], set()
    for change in _ways(need, spots):
        key = tuple(sorted((repr(spots[n]), repr(spot)) for n, spot in change.items()))
        if key in tried:
            continue
        tried.add(key)
        tier = next(iter(change.values())).tier
        is_new = any(not spots[name].owner and spot.owner for name, spot in change.items())
        whole = Amounts.sum(spot.size for spot in change.values())
        is_whole = need.hosts > 1 or need.is_exclusive
        cost = (whole if is_new else NOTHING) if is_whole else need.units
        cost = cost.only(types)
        if any(units > tiers[tier][t] for t, units in cost.items()):
            continue
        left = [free - cost if i == tier else free for i, free in enumerate(tiers)]
        if _try(types, needs[1:], {**spots, **change}, left, spent + cost, allows):
            return True
    return False


def is_wanted(where: Where, spot: Spot) -> bool:
    """Whether every filter of `where` matches it."""
    labels = {**where.labels}
    labels |= {"cluster": where.cluster} if where.cluster else {}
    labels |= {"shard": where.shard} if where.shard else {}
    return (
        where.pool in ("", spot.pool)
        and (not where.same or bool(block_of(spot, where.same)))
        and (not where.hostnames or bool({*where.hostnames} & {*spot.names}))
        and labels.items() <= dict(spot.labels).items()
    )


def _ways(need: _Need, spots: Mapping[str, Spot]) -> Iterable[dict[str, Spot]]:
    if need.hosts > 1:
        yield from _slices(need, spots)
        return
    for name, spot in spots.items():
        if spot.slice or name in need.closed or not is_wanted(need.where, spot):
            continue
        if not need.units and not need.is_exclusive:
            if spot.guests < GUESTS and not spot.owner:
                yield {name: replace(spot, guests=spot.guests + 1, is_vacant=False)}
        elif any(units > spot.free[t] for t, units in need.units.items()):
            continue
        elif need.is_exclusive:
            if spot.owner == need.job or (spot.is_vacant and not spot.owner):
                left = spot.free - need.units
                yield {name: replace(spot, free=left, is_vacant=False, owner=need.job)}
        elif not spot.owner:
            yield {name: replace(spot, free=spot.free - need.units, is_vacant=False)}


def _slices(need: _Need, spots: Mapping[str, Spot]) -> Iterable[dict[str, Spot]]:
    for name in sorted({spot.slice for spot in spots.values() if spot.slice}):
        hosts = {n: spot for n, spot in spots.items() if spot.slice == name}
        is_free = all(s.is_vacant and s.is_sound and not s.owner for s in hosts.values())
        size = Amounts.sum(spot.size for spot in hosts.values())
        is_free = is_free and all(is_wanted(need.where, spot) for spot in hosts.values())
        is_free = is_free and not need.closed & hosts.keys()
        if len(hosts) == need.hosts and is_free and need.units <= size:
            yield {n: replace(spot, is_vacant=False, owner=need.job) for n, spot in hosts.items()}


def waiting(snapshot: Snapshot, gang: Iterable[str]) -> list[JobRecord]:
    """Return the jobs of `gang` that wait."""
    jobs = [snapshot.jobs[name] for name in gang if name in snapshot.jobs]
    return [job for job in jobs if job.phase is Phase.QUEUED]
