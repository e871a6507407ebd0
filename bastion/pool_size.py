"""
The size of a pool: which idle machines are surplus, and which new ones its minimum needs. Pure.

An idle machine is kept for its pool's `idle_timeout_s`, and a request that waits at its provider
only shortly. A slice counts as a whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import count

from bastion.machine import Machine, MachinePhase, Pool
from bastion.machine_name import MachineName

UNWANTED_S = 10.0
"""
How long a request that waits at its provider is kept when nothing needs it: a retried job takes it
over. If kept longer, it may be granted and paid for in vain.
"""


def is_kept(machine: Machine) -> bool:
    """Whether `machine` is not being deleted."""
    return machine.phase is not MachinePhase.DELETING


def resized(pool: Pool, mine: Sequence[Machine], now: float, seq: int) -> list[Machine]:
    """Return the machines of `pool` to delete now, or the new machines up to its minimum."""
    alive = [m for m in mine if is_kept(m)]
    spare = len(alive) - pool.min_machines
    surplus = []
    for together in _idle_longest_first(alive, pool, now):
        if len(together) <= spare:
            spare -= len(together)
            surplus += [replace(m, phase=MachinePhase.DELETING) for m in together]
    if surplus:
        return surplus
    taken = {m.slice or m.name for m in mine}
    names = (str(MachineName(pool=pool.name, seq=seq, index=index)) for index in count())
    free = (name for name in names if name not in taken)
    zones = pool.zones
    usable = sum(not machine.cordoned for machine in alive)
    # A machine that was created costs money until it is gone, and a provider may never let it go.
    paid = sum(is_kept(machine) or machine.made_at is not None for machine in mine)
    room = max(pool.max_machines, pool.min_machines) - paid
    wanted = max(0, min(pool.min_machines - usable, room)) // pool.hosts
    if pool.machines_per_zone:
        zones = pool.free_zones(m.zone for m in mine)
        wanted = min(wanted, len(zones))
    spread = zones if pool.machines_per_zone else zones[:1] * wanted
    return [new for zone in spread[:wanted] for new in _new(pool, next(free), zone, now)]


def _idle_longest_first(machines: Sequence[Machine], pool: Pool, now: float) -> list[list[Machine]]:
    """Return the machines, and the whole slices, that have been idle for too long."""
    groups: dict[str, list[Machine]] = defaultdict(list)
    for machine in machines:
        groups[machine.slice or machine.name].append(machine)
    idle = [each for each in groups.values() if all(_is_surplus(m, pool, now) for m in each)]
    return sorted(idle, key=lambda each: (max(m.idle_since or 0.0 for m in each), each[0].name))


def _is_surplus(machine: Machine, pool: Pool, now: float) -> bool:
    patience_s = pool.idle_timeout_s if pool.max_machines else 0.0
    if machine.is_queued:
        patience_s = min(patience_s, UNWANTED_S)
    return machine.idle_since is not None and now - machine.idle_since >= patience_s


def _new(pool: Pool, name: str, zone: str, now: float) -> list[Machine]:
    """Return a new machine, or all hosts of a new slice."""
    machine = Machine(
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
    if pool.hosts == 1:
        return [machine]
    host_of = partial(replace, machine, slice=name, batch=name, hosts=pool.hosts)
    return [host_of(name=f"{name}-h{host}") for host in range(pool.hosts)]
