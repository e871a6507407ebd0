"""Random histories of small worlds; the laws are checked at every cycle."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from random import Random
from typing import Any

from bastion.job import Phase
from bastion.machine import Machine, MachinePhase
from bastion.scheduler.cycle import decide
from bastion.scheduler.plan import Plan
from bastion.scheduler.reasons.reason import ProviderStockout
from bastion.scheduler.snapshot import Snapshot
from bastion.scheduler.state.memory.memory import Memory
from bastion.spec.where import Where
from quota import Quota
from tests.bastion.scheduler.laws import Law
from tests.bastion.scheduler.world import Decide, World, machines_of, pool_of, quota_of

PROJECTS = ("A", "B", "C")
SHARES = ((0.5, 0.5, 0.0), (0.5, 0.25, 0.25), (0.25, 0.25, 0.25), (0.75, 0.25, 0.0))


Make = Callable[[Random, Decide], World]
"""Creates the world of a history."""


def remembering() -> Decide:
    """Return `decide` with a memory, which every cycle compares with a state built from scratch."""
    memory = Memory(check_every=1)

    def remembered(snapshot: Snapshot, now: float) -> Plan:
        plan = decide(snapshot, now, memory)
        assert not memory.problems, memory.problems[0]
        return plan

    return remembered


def watched(laws: Iterable[Law], inner: Decide = decide) -> Decide:
    """Return `inner` with every plan checked against `laws`."""

    def checked(snapshot: Snapshot, now: float) -> Plan:
        plan = inner(snapshot, now)
        for law in laws:
            law(snapshot, now, plan)
        return plan

    return checked


def world_of(random: Random, decide: Decide) -> World:
    """Return a small world: 8 to 24 devices, three projects, one or two tiers, or an empty pool."""
    size = random.choice((4, 8))
    count = random.choice((2, 3))
    total = size * count
    shares = dict(zip(PROJECTS, random.choice(SHARES)))
    tiers = random.random() < 0.2
    machines = machines_of(count, gpu=size)
    pools = {"p": pool_of(count, gpu=size)}
    if tiers:
        machines |= {name: replace(m, tier=1) for name, m in machines_of(1, "q", gpu=size).items()}
        pools["q"] = pool_of(1, "q", tier=1, gpu=size)
    elif random.random() < 0.2:
        pools["p"] = pool_of(count + 1, gpu=size)
        total += size
    options = {}
    if random.random() < 0.2:
        options["A"] = "lend = { gpu = 0.5 }"
    if random.random() < 0.2:
        options["B"] = "ceiling = { gpu = 0.8 }"
    quota = quota_of(
        [{"gpu": total}, {"gpu": size}] if tiers else {"gpu": total},
        {name: {"gpu": share} for name, share in shares.items()},
        options=options,
        min_runtime_s=random.choice((0, 100)),
        grace_s=10,
        max_grace_s=30,
        plan_after_s=random.choice((60, 300)),
        borrow_slice_s=random.choice((100, 500)),
    )
    return World(quota, machines, pools, decide=decide)


def mixed_world_of(random: Random, decide: Decide) -> World:
    """
    Return a small world of several types: devices with CPUs and memory, slices, up to three tiers.

    CPUs are under quota in half of these worlds; the totals are what the machines have, or less.
    """
    machines = machines_of(random.choice((1, 2)), gpu=4, cpu=16, memory=64)
    pools = {"p": pool_of(2, gpu=4, cpu=16, memory=64)}
    tiers: list[dict[str, int]] = [{"gpu": 4 * len(machines), "cpu": 16 * len(machines)}]
    if random.random() < 0.4:
        machines |= slices_of(2, hosts=2, v4=4, cpu=8)
        pools["t"] = pool_of(4, "t", hosts=2, v4=4, cpu=8)
        tiers[0] |= {"v4": 16, "cpu": tiers[0]["cpu"] + 32}
    for tier in range(1, random.choice((1, 1, 2, 3))):
        name = f"q{tier}"
        more = machines_of(1, name, gpu=4, cpu=16, memory=64)
        machines |= {n: replace(machine, tier=tier) for n, machine in more.items()}
        pools[name] = pool_of(1, name, tier=tier, gpu=4, cpu=16, memory=64)
        tiers.append({"gpu": 4, "cpu": 16})
    if random.random() < 0.2:
        tiers[0]["gpu"] -= 2
    types = ["gpu", *(["cpu"] if random.random() < 0.5 else []), "v4"]
    under = [{t: units for t, units in tier.items() if t in types} for tier in tiers]
    world = World(_mixed_quota(random, under), machines, pools, decide=decide)
    world.is_mixed = True
    return world


def wide_world_of(random: Random, decide: Decide) -> World:
    """
    Return a small world of several pools with different labels, zones and limits.

    Jobs request pools, clusters, shards, labels and machines by name. Pools create machines, run
    out of them, and get other limits; machines are drained and deleted; jobs are held.
    """
    machines = machines_of(random.choice((1, 2)), gpu=4)
    machines |= machines_of(random.choice((0, 1)), "q", gpu=4)
    machines = {n: replace(m, hostname=f"{n}.example") for n, m in machines.items()}
    first = min(machines)
    machines[first] = replace(machines[first], labels={"net": "fast"})
    pools = {
        "p": replace(pool_of(2, gpu=4), labels={"cluster": "east"}, zones=("a", "b")),
        "q": replace(pool_of(2, "q", gpu=4), labels={"cluster": "west", "shard": "s1"}),
    }
    is_tiered = random.random() < 0.3
    if is_tiered:
        pools["q"] = replace(pools["q"], tier=1)
        machines |= {n: replace(m, tier=1) for n, m in machines.items() if m.pool == "q"}
    shares = dict(zip(PROJECTS, random.choice(SHARES)))
    total = random.choice((12, 16))
    world = World(
        quota_of(
            [{"gpu": 8}, {"gpu": total - 8}] if is_tiered else {"gpu": total},
            {name: {"gpu": share} for name, share in shares.items()},
            min_runtime_s=random.choice((0, 100)),
            grace_s=10,
            max_grace_s=30,
            plan_after_s=random.choice((60, 300)),
            borrow_slice_s=random.choice((100, 500)),
        ),
        machines,
        pools,
        decide=decide,
    )
    world.is_wide = True
    return world


def stream_world_of(random: Random, decide: Decide) -> World:
    """
    Return a small world of one or two projects that own everything, each with an endless stream.

    Equal one-device jobs keep arriving, with or without a limit. Gangs that fit in the share arrive
    now and then.
    """
    shares = random.choice(({"A": 1.0}, {"A": 0.5, "B": 0.5}))
    order = random.choice(("fair", "fifo"))
    quota = quota_of(
        {"gpu": 4 * len(shares)},
        {name: {"gpu": share} for name, share in shares.items()},
        options=dict.fromkeys(shares, f'order = "{order}"'),
        min_runtime_s=random.choice((0, 100)),
        grace_s=10,
        max_grace_s=30,
        plan_after_s=random.choice((60, 300)),
        borrow_slice_s=500,
    )
    world = World(quota, machines_of(len(shares), gpu=4), decide=decide)
    world.streams = {
        name: (random.choice((4, 5, 6)), random.choice((200.0, None))) for name in shares
    }
    return world


def _flow(random: Random, world: World) -> None:
    """Continue the streams, perhaps submit a gang, and let time pass."""
    for project, (width, limit) in world.streams.items():
        there = sum(name.startswith(f"{project}-s") for name in world.jobs)
        for n in range(width - there):
            name = f"{project}-s{world.seq:04}-{n}"
            user = random.choice(("u", "v", "u-w"))
            world.ask(project, name, user=user, max_runtime_s=limit, runs_s=200.0, gpu=1)
        if random.random() < 0.1 and not any(n.startswith(f"{project}-g") for n in world.jobs):
            name = f"{project}-g{world.seq:04}"
            size = random.choice((2, 3, 4))
            world.ask(project, name, replicas=size, max_runtime_s=100.0, runs_s=100.0, gpu=1)
    world.live(random.choice((10.0, 50.0)))


GROUPS: tuple[dict[str, str], ...] = (
    {"one": 'members = ["A", "B"]'},
    {"one": 'members = ["A", "C"]'},
    {"one": 'members = ["A", "B"]\nlend = { gpu = 0.5 }'},
    {"one": 'members = ["B", "C"]\nceiling = { gpu = 0.8 }'},
    {"one": 'members = ["A", "B"]', "two": 'members = ["one", "C"]'},
    {"one": 'members = ["A", "C"]', "two": 'members = ["B"]'},
)


def grouped_world_of(random: Random, decide: Decide) -> World:
    """Return a small world in which two of three projects are in a group, perhaps a nested one."""
    count = random.choice((2, 3))
    world = World(_grouped_quota(random, 4 * count), machines_of(count, gpu=4), decide=decide)
    world.is_grouped = True
    return world


def _grouped_quota(random: Random, total: int) -> Quota:
    shares = dict(zip(PROJECTS, random.choice(SHARES)))
    options = {"A": "lend = { gpu = 0.5 }"} if random.random() < 0.2 else {}
    return quota_of(
        {"gpu": total},
        {name: {"gpu": share} for name, share in shares.items()},
        options=options,
        groups=random.choice(GROUPS),
        min_runtime_s=random.choice((0, 100)),
        grace_s=10,
        max_grace_s=30,
        plan_after_s=random.choice((60, 300)),
        borrow_slice_s=random.choice((100, 500)),
    )


def slices_of(count: int, pool: str = "t", *, hosts: int, **resources: int) -> dict[str, Machine]:
    """Return `count` whole slices of `hosts` machines each."""
    found = {}
    for number in range(count):
        for name, machine in machines_of(hosts, f"{pool}{number}", **resources).items():
            found[name] = replace(machine, pool=pool, slice=f"{pool}{number}")
    return found


def _mixed_quota(random: Random, tiers: list[dict[str, int]]) -> Quota:
    types = sorted({each for tier in tiers for each in tier})
    rows = {each: random.choice(SHARES) for each in types}
    shares = {name: {each: rows[each][i] for each in types} for i, name in enumerate(PROJECTS)}
    options = {}
    if random.random() < 0.2:
        options["A"] = "lend = { gpu = 0.5 }"
    if random.random() < 0.2:
        options["B"] = "ceiling = { gpu = 0.8 }"
    return quota_of(
        tiers if len(tiers) > 1 else tiers[0],
        shares,
        options=options,
        min_runtime_s=random.choice((0, 100)),
        grace_s=10,
        max_grace_s=30,
        plan_after_s=random.choice((60, 300)),
        borrow_slice_s=random.choice((100, 500)),
    )


def step(random: Random, world: World) -> None:
    """Do one random thing."""
    if world.streams:
        _flow(random, world)
        return
    kind = random.random()
    if kind < 0.5:
        ask(random, world)
    elif kind < 0.65:
        end(random, world)
    elif kind < 0.7:
        hurt(random, world)
    elif kind < 0.73:
        edit(random, world)
    elif kind < 0.83 and world.is_wide:
        upset(random, world)
    else:
        world.pass_time(random.choice((1.0, 10.0, 50.0, 200.0)))


def end(random: Random, world: World) -> None:
    """End a running job, if any ends."""
    running = [name for name, job in sorted(world.jobs.items()) if job.is_admitted]
    if running:
        world.end(random.choice(running))


def edit(random: Random, world: World) -> None:
    """Give the projects other shares in the quota file."""
    if world.is_grouped:
        edited = _grouped_quota(random, world.quota.totals["gpu"])
    elif world.is_mixed:
        edited = _mixed_quota(random, [dict(tier.units.items()) for tier in world.quota.tiers])
    else:
        shares = dict(zip(PROJECTS, random.choice(SHARES)))
        tiers = [{"gpu": tier.units["gpu"]} for tier in world.quota.tiers]
        edited = quota_of(
            tiers if len(tiers) > 1 else tiers[0],
            {name: {"gpu": share} for name, share in shares.items()},
        )
    world.quota = replace(world.written(edited), scheduler=world.quota.scheduler)


def ask(random: Random, world: World) -> None:
    """Submit a job, or a gang of two."""
    project = random.choice(PROJECTS)
    limit = random.choice((None, None, 20.0, 200.0))
    common: dict[str, Any] = {
        "user": random.choice(("u", "v")),
        "priority": random.choice((1, 3, 3, 5)),
        "max_runtime_s": limit,
        "runs_s": limit,
        "grace_s": random.choice((None, None, 60.0)),
        "fail_when_busy": random.random() < 0.05,
    }
    if random.random() < 0.15:
        number = len(world.jobs)
        gang = tuple(f"{project}-{number}-{world.seq}-{i}" for i in range(2))
        for name in gang:
            world.ask(project, name, gang=gang, gpu=random.choice((1, 2)), **common)
        return
    name = f"{project}-{world.seq}-{len(world.jobs)}"
    if world.is_mixed:
        kind, units = random.choice(_mixed_asks(world))
        where = Where(exclusive=kind == "exclusive")
        hosts = 2 if kind == "slice" else 1
        replicas = random.choice((1, 1, 2)) if hosts == 1 else 1
        asked = {**common, **units}
        world.ask(project, name, replicas=replicas, hosts=hosts, where=where, **asked)
        return
    if world.is_wide:
        replicas, gpu = random.choice((1, 1, 1, 2)), random.choice((1, 2, 4))
        world.ask(project, name, replicas=replicas, gpu=gpu, where=_filter(random, world), **common)
        return
    replicas = random.choice((1, 1, 1, 2, 3))
    world.ask(project, name, replicas=replicas, gpu=random.choice((1, 1, 2, 3, 4, 8)), **common)


def _filter(random: Random, world: World) -> Where:
    names = [each for m in world.machines.values() for each in (m.name, m.hostname) if each]
    return random.choice(
        (
            Where(),
            Where(),
            Where(pool=random.choice("pq")),
            Where(cluster=random.choice(("east", "west"))),
            Where(shard="s1", exclusive=random.random() < 0.5),
            Where(labels={"net": "fast"}),
            Where(hostnames=random.sample(sorted(names), k=min(2, len(names)))),
            Where(exclusive=True, cluster=random.choice(("", "east"))),
        )
    )


def upset(random: Random, world: World) -> None:
    """Disturb the world: a pool is sold out or has a new limit, machines change, jobs are held."""
    pool = random.choice(sorted(world.pools))
    used = {
        h.machine
        for job in world.jobs.values()
        if job.attempt
        for r in job.attempt.placement
        for h in r.hosts
    }
    idle = sorted(world.machines.keys() - used)
    what = random.choice(("stockout", "limit", "drain", "delete", "hold", "release"))
    if what == "stockout":
        until = world.now + random.choice((20.0, 200.0))
        world.extra["stockouts"] = {pool: ProviderStockout(pool=pool, until=until)}
    elif what == "limit":
        limit = random.choice((0, 1, 2, 3))
        world.pools[pool] = replace(world.pools[pool], max_machines=limit)
    elif what == "drain" and world.machines:
        name = random.choice(sorted(world.machines))
        world.machines[name] = replace(world.machines[name], draining=random.random() < 0.5)
    elif what == "delete" and idle:
        name = random.choice(idle)
        if world.machines[name].phase is MachinePhase.DELETING:
            del world.machines[name]
        else:
            world.machines[name] = replace(world.machines[name], phase=MachinePhase.DELETING)
    elif what in ("hold", "release"):
        waiting = [name for name, job in sorted(world.jobs.items()) if job.phase is Phase.QUEUED]
        if waiting:
            name, by = random.choice(waiting), "admin" if what == "hold" else ""
            world.jobs[name] = replace(world.jobs[name], held=by)


def _mixed_asks(world: World) -> list[tuple[str, dict[str, int]]]:
    """Return what a job of a mixed world can request."""
    asks: list[tuple[str, dict[str, int]]] = [
        ("plain", {"gpu": 1, "cpu": 4, "memory": 16}),
        ("plain", {"gpu": 2, "cpu": 2}),
        ("plain", {"gpu": 3, "cpu": 12, "memory": 8}),
        ("plain", {"gpu": 4}),
        ("plain", {"cpu": 6}),
        ("plain", {"cpu": 16, "memory": 32}),
        ("plain", {}),
        ("exclusive", {"gpu": 1}),
        ("exclusive", {"gpu": 2, "cpu": 4}),
        ("exclusive", {"cpu": 4}),
    ]
    if "t" in world.pools:
        asks += 3 * [("slice", {"v4": 8})] + [("slice", {"v4": 4})]
    return asks


def hurt(random: Random, world: World) -> None:
    """Cordon or heal a machine, remove one of its devices, or lose it with everything on it."""
    if not world.machines:
        return
    name = random.choice(sorted(world.machines))
    machine: Machine = world.machines[name]
    what = random.choice(("cordon", "heal", "device", "die"))
    if what == "cordon":
        world.machines[name] = replace(machine, cordoned="admin")
    elif what == "heal":
        world.machines[name] = replace(machine, cordoned="", bad_devices={})
    elif what == "device":
        world.machines[name] = replace(machine, bad_devices=_bad(random, machine))
    else:
        world.machines[name] = replace(machine, cordoned="dead")
        for job in list(world.jobs.values()):
            if job.attempt is None or not job.is_admitted:
                continue
            if any(h.machine == name for r in job.attempt.placement for h in r.hosts):
                world.requeue(job.id)


def _bad(random: Random, machine: Machine) -> dict[str, tuple[int, ...]]:
    return {"v4" if machine.slice else "gpu": (random.randrange(4),)}


def run(
    seed: int,
    laws: Iterable[Law],
    *,
    steps: int = 25,
    inner: Decide | None = None,
    after: Callable[[World], None] | None = None,
    make: Make = world_of,
) -> World:
    """Play one history; every cycle is checked against `laws`, and every state against `after`."""
    random = Random(seed)
    world = make(random, watched(laws, inner or remembering()))
    for _ in range(steps):
        for _ in range(random.choice((1, 1, 2, 4))):
            step(random, world)
        world.cycle()
        if after is not None:
            after(world)
    return world


def has_stopping(world: World) -> bool:
    """Whether a job is being stopped."""
    return any(job.phase is Phase.STOPPING for job in world.jobs.values())


WORLDS: tuple[Make, ...] = (world_of, mixed_world_of, wide_world_of, stream_world_of)
"""Every kind of world."""
