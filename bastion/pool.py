"""
The reconciler of machines: pure functions that alone decide which to create, keep and delete.

A machine that a committed placement names is created. An idle machine is kept for its pool's
`idle_timeout_s`, then deleted. A pool that left the configuration keeps its machines, because a
truncated file must not delete them. A pool with `max_machines = 0` loses each machine once it is
idle. A machine never leaves `DELETING`.

Two listings in a row must lack a machine before it counts as gone. A machine that is listed and not
in root is deleted only if a commit no newer than ours allocated its name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import count

from bastion.machine import Machine, MachinePhase, Pool
from bastion.machine_name import MachineName, parse_machine
from bastion.value import value

LISTINGS_TO_BE_GONE = 2
"""Listings in a row that must lack a machine: a single one may be a provider's error."""


BOOT_PATIENCE = 5.0
"""
In boot times of its pool. A machine that has not registered by then is deleted, and its jobs are
requeued.
"""
SILENT_S = 120.0
"""Four heartbeats of a machine whose provider cannot report it as gone: it gets no more jobs."""
PERMIT_SLACK_S = 90.0
"""A keeper whose permit has expired takes 30 s to stop its processes; clocks drift far less."""
LEAST_BOOT_S = 600.0
"""The least time before such a machine is deleted: providers can be slow for minutes."""


@value
class Seen:
    """One machine in a provider's listing, as the reconciler needs it."""

    name: str
    pool: str
    runs: bool
    """Whether its agent runs, or it is still booting."""
    gone: bool
    """Whether it is confirmed deleted."""


@value
class Create:
    """Create this machine, or start its agent if it exists."""

    machine: str


@value
class Delete:
    """Delete the machine of this name."""

    machine: str
    pool: str


MachineAction = Create | Delete


@value
class Reconciled:
    """The result of `reconcile`: the machines to commit, or a proof that our root is stale."""

    machines: Mapping[str, Machine]
    stale: str = ""
    """Name of a machine that a newer commit than ours allocated, or empty. We no longer lead."""


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
    Return the machines to commit.

    `listings` holds, by pool, only listings that no earlier call has received. `in_use` names the
    machines of every attempt that has not ended and drained. `seq` is the number of the next
    commit; it goes into the names of new machines.
    """
    kept: dict[str, Machine] = {}
    for name, machine in machines.items():
        with_idle = _update_idle(machine, pools.get(machine.pool), name in in_use, now)
        updated: Machine | None = _apply_silence(with_idle, now)
        if updated is not None and machine.pool in listings:
            shown = {seen.name: seen for seen in listings[machine.pool]}
            updated = _apply_listing(updated, shown.get(name))
        if updated is not None:
            kept[name] = updated
    for pool in pools.values():
        kept.update((new.name, new) for new in _resize(pool, kept, now, seq))
    stale = next(_unknown(listings, machines, newer_than=seq - 1), "")
    return Reconciled(machines=kept, stale=stale)


def machine_actions(
    machines: Mapping[str, Machine], listings: Mapping[str, tuple[Seen, ...]], *, seq: int
) -> tuple[MachineAction, ...]:
    """
    Return the creates and deletes that the committed `machines` require.

    `seq` is the commit's number. `listings` holds the newest listing of every pool.
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
    Whether `machine` is not created yet, or exists without its agent.

    A machine that was ready and is not listed is never created again: its name is for one create.
    """
    if seen is None:
        return machine.phase is MachinePhase.CREATING
    return not (seen.runs or seen.gone)


def _unknown(
    listings: Mapping[str, tuple[Seen, ...]], machines: Mapping[str, Machine], *, newer_than: int
) -> Iterator[str]:
    for seens in listings.values():
        for seen in seens:
            named = parse_machine(seen.name, seen.pool)
            if named and named.seq > newer_than and seen.name not in machines and not seen.gone:
                yield seen.name


def _update_idle(machine: Machine, pool: Pool | None, used: bool, now: float) -> Machine:
    if machine.phase is MachinePhase.DELETING:
        return machine
    if pool is not None and _is_boot_overdue(machine, pool, now):
        return replace(machine, phase=MachinePhase.DELETING)
    if used:
        return machine if machine.idle_since is None else replace(machine, idle_since=None)
    if machine.idle_since is None:
        return replace(machine, idle_since=now)
    return machine


def _apply_silence(machine: Machine, now: float) -> Machine | None:
    """
    Quarantine a machine that is silent, where no provider can report it as gone.

    Return None once its permit has certainly expired, so that none of our processes runs there. A
    permit counts from a bell that has landed, so it expires no later than `permit_s` after the
    bastion saw the last one.
    """
    silent_s = now - max(machine.heard_at, machine.created_at)
    if not machine.permit_s or silent_s <= SILENT_S:
        return machine
    if silent_s > machine.permit_s + PERMIT_SLACK_S:
        return None
    if machine.phase is MachinePhase.READY:
        return replace(machine, phase=MachinePhase.SILENT)
    return machine


def _apply_listing(machine: Machine, seen: Seen | None) -> Machine | None:
    if seen is None and machine.permit_s:
        return machine  # its host may only be unreachable
    absent = seen is None or seen.gone
    if machine.phase is MachinePhase.CREATING and seen is None:
        return machine
    if not absent:
        return machine if not machine.missing else replace(machine, missing=0)
    missing = machine.missing + 1
    return None if missing >= LISTINGS_TO_BE_GONE else replace(machine, missing=missing)


def _resize(pool: Pool, machines: Mapping[str, Machine], now: float, seq: int) -> list[Machine]:
    """The machine of `pool` to delete in this turn, or the new machines up to its minimum."""
    mine = [m for m in machines.values() if m.pool == pool.name]
    alive = [m for m in mine if m.phase is not MachinePhase.DELETING]
    surplus = sorted(
        (m for m in alive if _is_surplus(m, pool, now)), key=lambda m: (m.idle_since or 0.0, m.name)
    )[: max(0, len(alive) - pool.min_machines)]
    if surplus:
        # One a turn, so that the next turn counts the ones that are left.
        return [replace(surplus[0], phase=MachinePhase.DELETING)]
    taken = {m.name for m in mine}
    names = (str(MachineName(pool=pool.name, seq=seq, index=index)) for index in count())
    free = (name for name in names if name not in taken)
    zones = pool.zones
    wanted = max(0, pool.min_machines - len(alive))
    if pool.machines_per_zone:
        zones = pool.free_zones(m.zone for m in mine)
        wanted = min(wanted, len(zones))
    spread = zones if pool.machines_per_zone else zones[:1] * wanted
    return [_new(pool, next(free), zone, now) for zone in spread[:wanted]]


def _is_boot_overdue(machine: Machine, pool: Pool, now: float) -> bool:
    """Whether `machine` was created so long ago that its boot must have failed."""
    patience_s = max(LEAST_BOOT_S, BOOT_PATIENCE * pool.boot_s)
    return machine.phase is MachinePhase.CREATING and now - machine.created_at > patience_s


def _is_surplus(machine: Machine, pool: Pool, now: float) -> bool:
    patience_s = pool.idle_timeout_s if pool.max_machines else 0.0
    return machine.idle_since is not None and now - machine.idle_since >= patience_s


def _new(pool: Pool, name: str, zone: str, now: float) -> Machine:
    return Machine(
        name=name,
        pool=pool.name,
        resources=pool.resources,
        tier=pool.tier,
        zone=zone,
        created_at=now,
        labels=pool.labels,
        idle_since=now,
        permit_s=pool.permit_s,
    )
