"""
The life of machines: one pure reconciler, the only one who makes, keeps and deletes them.

Monitors never do. A machine that a committed placement names is made; a warm one is kept for its
pool's `idle_timeout_s`, then deleted. A pool that is not in the configuration keeps its machines: a
file is easily cut short, and a machine is not easily had back. A pool that may have none loses each
once nothing uses it. `DELETING` never goes back. Two listings
must agree before anything is called gone, and a machine that a listing shows but the records do not
is deletable only when its name was allocated by a commit no newer than ours.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import count

from bastion.machine import Machine, MachinePhase, Pool
from bastion.machine_name import MachineName, parse_machine
from bastion.value import value

LISTINGS_TO_BE_GONE = 2
"""One listing may be a provider's hiccup; two in a row are believed."""


BOOT_PATIENCE = 5.0
"""Of a pool's usual boot time: what has not greeted by then is deleted, and its jobs start anew."""
LEAST_BOOT_S = 600.0
"""No machine is given up sooner: providers have slow minutes."""


@value
class Seen:
    """One machine in a provider's listing, in the words of the core."""

    name: str
    pool: str
    runs: bool
    """Its agent runs, or it is still booting."""
    gone: bool
    """Confirmed deleted."""


@value
class Create:
    """Make this machine, or see that it runs."""

    machine: str


@value
class Delete:
    """Delete the machine of this name."""

    machine: str
    pool: str


MachineAction = Create | Delete


@value
class Reconciled:
    """What the machines are now, and what is to be done outside once that is committed."""

    machines: Mapping[str, Machine]
    stale: str = ""
    """Name of a machine that a newer commit than ours allocated: we do not lead any more."""


def reconcile(
    machines: Mapping[str, Machine],
    pools: Mapping[str, Pool],
    listings: Mapping[str, tuple[Seen, ...]],
    in_use: Collection[str],
    now: float,
    *,
    seq: int,
) -> Reconciled:
    """
    The machines as they are to be committed.

    `listings` holds, by pool, only listings that no earlier call has seen. `in_use` names the
    machines of every attempt that has not ended and drained. `seq` is the number of the coming
    commit; it goes into the names of new machines.
    """
    kept: dict[str, Machine] = {}
    for name, machine in machines.items():
        idled = _idle(machine, pools.get(machine.pool), name in in_use, now)
        moved: Machine | None = idled
        if machine.pool in listings:
            shown = {seen.name: seen for seen in listings[machine.pool]}
            moved = _listed(idled, shown.get(name))
        if moved is not None:
            kept[name] = moved
    for pool in pools.values():
        kept.update((new.name, new) for new in _missing(pool, kept, now, seq))
    stale = next(_strangers(listings, machines, newer_than=seq - 1), "")
    return Reconciled(machines=kept, stale=stale)


def machine_actions(
    machines: Mapping[str, Machine], listings: Mapping[str, tuple[Seen, ...]], *, seq: int
) -> tuple[MachineAction, ...]:
    """
    What the committed `machines` ask for outside; `seq` is the commit's number.

    `listings` is the newest of every pool, seen before or not.
    """
    shown = {seen.name: seen for seens in listings.values() for seen in seens}
    actions: list[MachineAction] = []
    for machine in machines.values():
        seen = shown.get(machine.name)
        if machine.phase is MachinePhase.DELETING:
            if seen is None or not seen.gone:
                actions.append(Delete(machine=machine.name, pool=machine.pool))
        elif _wants_create(machine, seen):
            actions.append(Create(machine=machine.name))
    for seen in shown.values():
        named = parse_machine(seen.name, seen.pool)
        if named and named.seq <= seq and seen.name not in machines and not seen.gone:
            actions.append(Delete(machine=seen.name, pool=seen.pool))
    return tuple(actions)


def _wants_create(machine: Machine, seen: Seen | None) -> bool:
    """
    Whether it is still to be made, or stands without its agent.

    One that was ready and is not listed is never made again: its name was for one create.
    """
    if seen is None:
        return machine.phase is MachinePhase.CREATING
    return not (seen.runs or seen.gone)


def _strangers(
    listings: Mapping[str, tuple[Seen, ...]], machines: Mapping[str, Machine], *, newer_than: int
) -> Iterator[str]:
    for seens in listings.values():
        for seen in seens:
            named = parse_machine(seen.name, seen.pool)
            if named and named.seq > newer_than and seen.name not in machines and not seen.gone:
                yield seen.name


def _idle(machine: Machine, pool: Pool | None, used: bool, now: float) -> Machine:
    if machine.phase is MachinePhase.DELETING:
        return machine
    if pool is not None and _never_came(machine, pool, now):
        return replace(machine, phase=MachinePhase.DELETING)
    if used:
        return machine if machine.idle_since is None else replace(machine, idle_since=None)
    if machine.idle_since is None:
        return replace(machine, idle_since=now)
    return machine


def _listed(machine: Machine, seen: Seen | None) -> Machine | None:
    absent = seen is None or seen.gone
    if machine.phase is MachinePhase.CREATING and seen is None:
        return machine
    if not absent:
        return machine if not machine.missing else replace(machine, missing=0)
    missing = machine.missing + 1
    return None if missing >= LISTINGS_TO_BE_GONE else replace(machine, missing=missing)


def _missing(pool: Pool, machines: Mapping[str, Machine], now: float, seq: int) -> list[Machine]:
    mine = [m for m in machines.values() if m.pool == pool.name]
    alive = [m for m in mine if m.phase is not MachinePhase.DELETING]
    surplus = sorted(
        (m for m in alive if _is_surplus(m, pool, now)), key=lambda m: (m.idle_since or 0.0, m.name)
    )[: max(0, len(alive) - pool.min_machines)]
    if surplus:
        return [replace(surplus[0], phase=MachinePhase.DELETING)]  # one a turn, so that each counts
    taken = {m.name for m in mine}
    names = (str(MachineName(pool=pool.name, seq=seq, index=index)) for index in count())
    free = (name for name in names if name not in taken)
    return [_new(pool, next(free), now) for _ in range(pool.min_machines - len(alive))]


def _never_came(machine: Machine, pool: Pool, now: float) -> bool:
    """Whether a machine was asked for so long ago that something is wrong with it."""
    patience_s = max(LEAST_BOOT_S, BOOT_PATIENCE * pool.boot_s)
    return machine.phase is MachinePhase.CREATING and now - machine.created_at > patience_s


def _is_surplus(machine: Machine, pool: Pool, now: float) -> bool:
    patience_s = pool.idle_timeout_s if pool.max_machines else 0.0
    return machine.idle_since is not None and now - machine.idle_since >= patience_s


def _new(pool: Pool, name: str, now: float) -> Machine:
    return Machine(
        name=name,
        pool=pool.name,
        resources=pool.resources,
        tier=pool.tier,
        zone=pool.zones[0],
        created_at=now,
        labels=pool.labels,
        idle_since=now,
    )
