"""
The reconciler of machines: pure functions that alone decide which to create, keep and delete.

A machine that a committed placement names is created. A machine that ends before its agent arrives,
or whose agent does not arrive in time, is given up like a refused one. An idle machine is kept for
its pool's `idle_timeout_s`, then deleted, unless the pool would fall below its minimum. A request
that waits at its provider is cancelled soon after nothing needs it. A cordoned machine is replaced
if its pool has a minimum. A pool that was removed from the configuration keeps its machines,
because a truncated file must not delete them. A pool with `max_machines = 0` loses each machine
once it is idle. A machine never leaves `DELETING`.

A slice is one unit: once one host of it is gone or being deleted, the others follow as soon as
nothing uses them, and only then is any of them deleted.

A machine counts as gone only after two consecutive listings without it. A machine that is listed
but not in root is deleted only if a commit no newer than ours allocated its name. A machine that
its provider refused to create leaves root immediately, unless an earlier call may have created it.
It is then looked for until the listings of `LISTING_LAG_S` lack it, so it does not leak, even if
its pool moves to other zones in the meantime.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from bastion.machine import Machine, MachinePhase, Pool
from bastion.machine_name import parse_machine
from bastion.pool_size import is_kept, resized
from bastion.spec.values.quantity import text_of_seconds
from bastion.value import value

LISTINGS_TO_BE_GONE = 2
"""Consecutive listings that must not show a machine: a single one may be a provider's error."""
LISTING_LAG_S = 300.0
"""How long listings may miss a new machine: providers' lists lag by a minute."""
BOOT_PATIENCE = 5.0
"""
In boot times of its pool. A machine that has not registered by then is deleted, and its jobs are
requeued.
"""
SILENT_S = 120.0
"""Four heartbeats of a machine that its provider cannot report as gone; it then gets no jobs."""
PERMIT_SLACK_S = 90.0
"""A keeper whose permit has expired takes 30 s to stop its processes; clocks drift far less."""
LEAST_BOOT_S = 600.0
"""The least time before such a machine is deleted: providers can be slow for minutes."""
UNREAD_S = 120.0
"""After a gap in the commits: bells that rang during it may be unread until then."""


@value
class Seen:
    """One machine in a provider's listing, as the reconciler needs it."""

    name: str
    pool: str
    runs: bool
    """Whether its agent runs or it is still booting."""
    gone: bool
    """Whether it is confirmed deleted."""
    waits: str = ""
    """Why the provider keeps its request waiting, so that nothing exists yet; else empty."""
    prepares: str = ""
    """What its provider still does in it, such as pulling its image; its boot starts after that."""
    stuck: str = ""
    """Why its agent, which has never started, does not start; its boot can still become overdue."""
    odd: str = ""
    """What an admin has to fix; empty if there is nothing."""
    account: str = ""
    """The account or project that it is in; empty if its provider has none."""
    leaves_rest: bool = False
    """Whether it is gone but leaves something that must be deleted."""
    ended: str = ""
    """Why it ended if it is gone, in the provider's words; empty if the provider does not say."""


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
    given_up: Mapping[str, str]
    """Machines that will not be created -> why. Their jobs are placed elsewhere."""
    lifeless: frozenset[str]
    """The machines in `given_up` that were created but whose agents did not arrive."""
    stale: str = ""
    """Name of a machine that a commit newer than ours allocated, or empty. We no longer lead."""


def reconcile(
    machines: Mapping[str, Machine],
    pools: Mapping[str, Pool],
    listings: Mapping[str, tuple[Seen, ...]],
    in_use: Collection[str],
    now: float,
    *,
    seq: int,
    unmade: Mapping[str, str] | None = None,
    in_doubt: Collection[str] = (),
    mute: Collection[str] = (),
    deaf: Collection[str] = (),
    listed_since: Mapping[str, float] | None = None,
    steady_since: float = 0.0,
) -> Reconciled:
    """
    Return the machines to commit.

    Args:
        machines: The machines in root.
        pools: As configured. Their zones are those that may have capacity, the first one first; a
            pool without zones gets no machine.
        listings: By pool, only listings that no earlier call has received.
        in_use: The machines of every attempt that has not ended and drained.
        now: The store's time.
        seq: The number of the next commit; it goes into the names of new machines.
        unmade: Machines that their provider refused to create -> why.
        in_doubt: Machines that may exist even if a create of them was refused, because another one
            was carried out or had an unknown outcome.
        mute: Machines whose agents fail to ring; they are quarantined.
        deaf: Machines whose agents respond to nothing; they are deleted, even if in use.
        listed_since: Pool -> the time since which every listing of it has succeeded; a missing pool
            cannot be listed now. None: every listing has always succeeded.
        steady_since: The time since which commits have had no gap. Earlier bells may still be
            unread, so no host's permit counts from further back.
    """
    kept, in_time = dict[str, Machine](), dict[str, Machine]()
    shown = {pool: {seen.name: seen for seen in seens} for pool, seens in listings.items()}
    for name, machine in machines.items():
        since = 0.0 if listed_since is None else listed_since.get(machine.pool, now)
        with_idle = _update_idle(
            machine, pools.get(machine.pool), name in in_use, now, since, steady_since
        )
        if name in mute and with_idle.phase is MachinePhase.READY:
            with_idle = replace(with_idle, phase=MachinePhase.SILENT)
        if name in deaf:
            with_idle = replace(with_idle, phase=MachinePhase.DELETING)
        with_idle = in_time[name] = _may_appear(machine, with_idle, now)
        updated: Machine | None = _apply_silence(with_idle, now, steady_since)
        if updated is not None and machine.pool in shown:
            updated = _apply_listing(updated, shown[machine.pool].get(name), now)
        if updated is not None:
            kept[name] = updated
    lifeless = {**_ended_early(kept, shown), **(overdue := _overdue(machines, in_time, pools, now))}
    given_up = {**(unmade or {}), **_waiting_in_vain(kept, pools, now), **lifeless}
    given_up = {
        name: why
        for name, why in given_up.items()
        if name in overdue or _give_up(kept, name, pools, shown, is_doubted=name in in_doubt)
    }
    _end_slices(kept, in_use)
    _resize(kept, pools, now, seq)
    stale = next(_unknown(listings, machines, newer_than=seq - 1), "")
    return Reconciled(
        machines={n: _may_appear(machines.get(n, each), each, now) for n, each in kept.items()},
        given_up=given_up,
        lifeless=frozenset(lifeless.keys() & given_up.keys()),
        stale=stale,
    )


def left_zones(
    pools: Mapping[str, Pool], machines: Mapping[str, Machine]
) -> defaultdict[str, set[str]]:
    """Return the zones in which `pools` have machines but that they no longer name, by pool."""
    left: defaultdict[str, set[str]] = defaultdict(set)
    for machine in machines.values():
        pool = pools.get(machine.pool)
        if pool is not None and machine.zone and machine.zone not in pool.zones:
            left[machine.pool].add(machine.zone)
    return left


def machine_actions(
    machines: Mapping[str, Machine], listings: Mapping[str, tuple[Seen, ...]], *, seq: int
) -> tuple[MachineAction, ...]:
    """
    Return the creates and deletes that the committed `machines` require.

    `seq` is the commit's number. `listings` holds the newest listing of every pool.
    """
    shown = {seen.name: seen for seens in listings.values() for seen in seens}
    unfinished = {each.slice for each in machines.values() if each.slice and is_kept(each)}
    actions: list[MachineAction] = []
    for machine in machines.values():
        seen = shown.get(machine.name)
        if machine.phase is MachinePhase.DELETING:
            if machine.slice not in unfinished and (seen is None or not seen.gone):
                actions.append(Delete(machine=machine.name, pool=machine.pool))
        elif _wants_create(machine, seen):
            actions.append(Create(machine=machine.name))
    for seen in shown.values():
        named = parse_machine(seen.name, seen.pool)
        if named is None or str(replace(named, host=None)) in unfinished:
            continue  # its siblings are in use, and a provider deletes a slice whole
        is_there = seen.leaves_rest or not seen.gone
        if named.seq <= seq and seen.name not in machines and is_there:
            actions.append(Delete(machine=seen.name, pool=seen.pool))
    return tuple(actions)


def _wants_create(machine: Machine, seen: Seen | None) -> bool:
    """
    Whether `machine` is not created yet, or exists without its agent.

    A machine that existed and is no longer listed is never created again: its name is for one
    create.
    """
    if seen is None:
        return machine.phase is MachinePhase.CREATING and machine.made_at is None
    return not (seen.runs or seen.gone)


def _unknown(
    listings: Mapping[str, tuple[Seen, ...]], machines: Mapping[str, Machine], *, newer_than: int
) -> Iterator[str]:
    for seens in listings.values():
        for seen in seens:
            named = parse_machine(seen.name, seen.pool)
            if named and named.seq > newer_than and seen.name not in machines and not seen.gone:
                yield seen.name


def _update_idle(
    machine: Machine,
    pool: Pool | None,
    used: bool,
    now: float,
    listed_since: float,
    steady_since: float,
) -> Machine:
    if machine.phase is MachinePhase.DELETING:
        return machine
    is_overdue = pool is not None and _is_boot_overdue(machine, pool, now, listed_since)
    if is_overdue and now - steady_since > UNREAD_S:
        return replace(machine, phase=MachinePhase.DELETING)
    if used:
        return machine if machine.idle_since is None else replace(machine, idle_since=None)
    if machine.idle_since is None:
        return replace(machine, idle_since=now)
    return machine


def _apply_silence(machine: Machine, now: float, steady_since: float) -> Machine | None:
    """
    Quarantine a machine that is silent if no provider can report it as gone.

    Return None once its permit has certainly expired, so that none of our processes runs there. A
    permit counts from a bell that has arrived, so it expires no later than `permit_s` after the
    bastion saw the last one. A machine that its provider queues, or has just created, is not silent
    yet: one whose agent has not reported is given up once its boot is overdue.
    """
    began_at = max(machine.created_at, machine.made_at or 0.0, steady_since)
    silent_s = now - max(machine.heard_at, began_at)
    is_booting = machine.phase is MachinePhase.CREATING and not machine.life
    if not machine.permit_s or is_booting or silent_s <= SILENT_S:
        return machine
    if silent_s > machine.permit_s + PERMIT_SLACK_S:
        return None
    if machine.phase is MachinePhase.READY:
        return replace(machine, phase=MachinePhase.SILENT)
    return machine


def _apply_listing(machine: Machine, seen: Seen | None, now: float) -> Machine | None:
    if seen is None and machine.permit_s:
        return machine  # its host may only be unreachable
    absent = seen is None or seen.gone
    if seen is None and machine.made_at is None and _may_be_unlisted(machine, now):
        return machine
    if seen is not None and not absent:
        waits = seen.waits or seen.prepares
        is_made = not seen.waits and (machine.made_at is None or (machine.waits and not waits))
        shown = replace(
            machine,
            made_at=now if is_made else machine.made_at,
            account=seen.account or machine.account,
            waits=waits,
            stuck=seen.stuck,
            missing=0,
        )
        return machine if shown == machine else shown
    missing = machine.missing + 1
    return None if missing >= LISTINGS_TO_BE_GONE else replace(machine, missing=missing)


def _may_be_unlisted(machine: Machine, now: float) -> bool:
    """Whether `machine` may exist although no listing has shown it yet."""
    is_new = now - machine.created_at <= LISTING_LAG_S or now < machine.unlisted_until
    return machine.phase is MachinePhase.CREATING or is_new


def _may_appear(before: Machine, machine: Machine, now: float) -> Machine:
    """Return `machine`, which is looked for from now on if it is deleted before it was listed."""
    was_shown = machine.made_at is not None or before.waits
    if was_shown or before.phase is not MachinePhase.CREATING or is_kept(machine):
        return machine
    return replace(machine, unlisted_until=now + LISTING_LAG_S)


def _waiting_in_vain(
    machines: Mapping[str, Machine], pools: Mapping[str, Pool], now: float
) -> dict[str, str]:
    """Return machines that have waited in one zone for longer than their pool's patience."""
    found = {}
    for machine in machines.values():
        pool = pools.get(machine.pool) if machine.is_queued and is_kept(machine) else None
        waited_s = now - machine.created_at
        if pool is None or waited_s <= pool.patience_s:
            continue
        if any(zone != machine.zone for zone in pool.zones):
            waited = text_of_seconds(float(int(waited_s)))
            found[machine.name] = f"waited {waited} in zone {machine.zone}: {machine.waits}"
    return found


def _ended_early(
    machines: Mapping[str, Machine], shown: Mapping[str, Mapping[str, Seen]]
) -> dict[str, str]:
    """Return the machines that ended before their agents arrived, and why."""
    seen = ((machine, shown.get(machine.pool, {}).get(name)) for name, machine in machines.items())
    return {
        machine.name: f"{machine.name} ended before its agent reported: {each.ended}"
        for machine, each in seen
        if each is not None and each.gone and each.ended
    }


def _overdue(
    before: Mapping[str, Machine],
    machines: Mapping[str, Machine],
    pools: Mapping[str, Pool],
    now: float,
) -> dict[str, str]:
    """Return machines created elsewhere whose boots became overdue in this turn, and why."""
    found = {}
    for name, machine in machines.items():
        is_new = before[name].phase is MachinePhase.CREATING and not is_kept(machine)
        is_theirs = _is_made_elsewhere(machine, pools.get(machine.pool))
        if not is_new or not is_theirs or machine.life or machine.made_at is None:
            continue
        waited = text_of_seconds(float(int(now - machine.made_at)))
        why = f": {said}" if (said := machine.stuck or machine.unwell) else ""
        found[name] = f"the agent of {name} has not reported within {waited}{why}"
    return found


def _give_up(
    machines: dict[str, Machine],
    name: str,
    pools: Mapping[str, Pool],
    shown: Mapping[str, Mapping[str, Seen]],
    *,
    is_doubted: bool,
) -> bool:
    """
    Give up a machine that will not be created; return False if it exists after all.

    A machine that certainly does not exist is removed immediately. One that was shown, or may be
    shown later, is deleted like any other. With a permit, an agent that was started after all ends
    on its own. One whose agent has arrived is given up if its provider says that it is off: nothing
    will start it.
    """
    machine = machines.get(name)
    if machine is None or not is_kept(machine):
        return False
    has_come = machine.life or machine.phase is not MachinePhase.CREATING
    seen = shown.get(machine.pool, {}).get(name)
    if has_come and not (_is_off(seen) and _is_made_elsewhere(machine, pools.get(machine.pool))):
        return False
    is_unseen = not has_come and machine.made_at is None and not machine.waits
    if is_unseen and (machine.permit_s or not is_doubted):
        del machines[name]
    else:
        machines[name] = replace(machine, phase=MachinePhase.DELETING)
    return True


def _is_off(seen: Seen | None) -> bool:
    """Whether the provider says that nothing runs on its machine, such as a stopped one."""
    return seen is not None and not (seen.runs or seen.gone)


def _is_made_elsewhere(machine: Machine, pool: Pool | None) -> bool:
    """
    Whether a cloud or a cluster's scheduler created `machine`.

    One of your own hosts is the only machine of its zone, and the bastion's own host has neither
    zone nor permit. There, an agent that does not run proves nothing about the processes, and a
    retry uses the same host.
    """
    if pool is None or pool.machines_per_zone:
        return bool(machine.zone) and not machine.permit_s
    return bool(machine.zone) or machine.permit_s > 0


def _end_slices(machines: dict[str, Machine], in_use: Collection[str]) -> None:
    """Mark every unused host of a slice that is incomplete or has a host that is being deleted."""
    slices: dict[str, list[Machine]] = defaultdict(list)
    for machine in machines.values():
        if machine.slice:
            slices[machine.slice].append(machine)
    for hosts in slices.values():
        if len(hosts) >= hosts[0].hosts and all(map(is_kept, hosts)):
            continue
        for host in hosts:
            if host.name not in in_use:
                machines[host.name] = replace(host, phase=MachinePhase.DELETING)


def _resize(machines: dict[str, Machine], pools: Mapping[str, Pool], now: float, seq: int) -> None:
    """Mark the machines of each pool that are surplus, or add those that its minimum needs."""
    by_pool: dict[str, list[Machine]] = defaultdict(list)
    for machine in machines.values():
        by_pool[machine.pool].append(machine)
    for pool in pools.values():
        machines.update((new.name, new) for new in resized(pool, by_pool[pool.name], now, seq))


def _is_boot_overdue(machine: Machine, pool: Pool, now: float, listed_since: float) -> bool:
    """
    Whether `machine` was created so long ago that its boot must have failed.

    While its provider cannot be listed, a machine that no listing has shown may not even exist.
    """
    if machine.phase is not MachinePhase.CREATING or machine.waits:
        return False
    patience_s = max(LEAST_BOOT_S, BOOT_PATIENCE * pool.boot_s)
    asked_at = max(machine.created_at, listed_since)
    since = asked_at if machine.made_at is None else machine.made_at
    return now - since > patience_s
