"""
The machines of a turn: providers, their listings, and the creates and deletes.

Each pool has its own provider and lane, so that a call that hangs delays no other pool.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from bastion.clock import Clock
from bastion.errors import BastionError, NoCapacityError, ProviderUnavailableError
from bastion.lane import Done, Lane
from bastion.machine import Machine, MachinePhase, Pool
from bastion.pool import Create, MachineAction, Seen, machine_actions, reconcile
from bastion.provider.port import Listed, Provider
from bastion.records.root import Root
from bastion.service.draft.root_draft import Draft
from bastion.service.journal import Journal
from bastion.value import value

RETRY_S = 10.0
"""The least time between two calls for one machine, so that a listing can show it first."""
STOCKOUT_S = 60.0
"""How long a zone without capacity is not tried again."""


@value
class OpenPool:
    """A pool with its provider, and the lane for calls of it."""

    pool: Pool
    provider: Provider
    lane: Lane
    before_create: Callable[[], None] = lambda: None
    """Called in the lane before each create: what a new machine needs is in its place then."""


class Machines:
    """
    The machines of every pool, and the providers that create and delete them.

    Args:
        open_pool: Opens the provider and lane of a pool that is new or was changed.
        listing_s: Seconds between two listings of a pool.
    """

    def __init__(
        self,
        clock: Clock,
        journal: Journal,
        open_pool: Callable[[Pool], OpenPool],
        *,
        listing_s: float,
    ) -> None:
        self._clock = clock
        self._journal = journal
        self._open_pool = open_pool
        self._listing_s = listing_s
        self._pools: dict[str, OpenPool] = {}
        self._listings: dict[str, tuple[Seen, ...]] = {}
        self._list_at: dict[str, float] = {}
        self._called_at: dict[str, float] = {}
        """Machine -> when its last create or delete was submitted, on our own clock."""
        self._zones: dict[str, str] = {}
        """Machine -> the zone of its create."""
        self._stockouts: dict[tuple[str, str], float] = {}
        """(pool, zone) -> until when it is not tried again, in the store's seconds."""

    def open_pools(self, pools: Mapping[str, Pool]) -> None:
        """
        Open each of `pools` that is new or was changed.

        A pool that left the configuration stays open.
        """
        for name, pool in pools.items():
            opened = self._pools.get(name)
            if opened is None or opened.pool != pool:
                if opened is not None:
                    opened.lane.close()
                self._pools[name] = self._open_pool(pool)
                self._list_at[name] = 0.0

    def stockouts(self, now: float) -> Mapping[str, float]:
        """Pools without capacity in every zone -> until when, in the store's seconds."""
        found = {}
        for name, opened in self._pools.items():
            until = min(self._stockouts.get((name, zone), 0.0) for zone in opened.pool.zones)
            if until > now:
                found[name] = until
        return found

    def offered(self, pools: Mapping[str, Pool], now: float) -> Mapping[str, Pool]:
        """`pools` with the zones that have capacity first: new machines go to the first zone."""
        sold_out = {key for key, until in self._stockouts.items() if until > now}
        return {name: _in_stock(pool, sold_out) for name, pool in pools.items()}

    def collect(self, now: float) -> dict[str, tuple[Seen, ...]]:
        """Collect the results of calls since the last turn; the new listings, by pool."""
        fresh: dict[str, tuple[Seen, ...]] = {}
        for name, opened in self._pools.items():
            for done in opened.lane.collect():
                if _has_no_capacity(done, opened.pool):
                    zone = self._zones.get(done.key.removeprefix("create "), "")
                    self._stockouts[name, zone] = now + STOCKOUT_S
                if done.error is not None:
                    self._journal.problem(f"pool {name}: {done.key}", done.error)
                elif isinstance(done.result, tuple):
                    fresh[name] = self._listings[name] = done.result
        return fresh

    def reconcile(
        self,
        draft: Draft,
        pools: Mapping[str, Pool],
        fresh: Mapping[str, tuple[Seen, ...]],
        in_use: Collection[str],
    ) -> str:
        """
        Reconcile the machines of `draft` with the pools, placements and listings.

        Returns:
            The name of a machine that only a newer commit than ours can have allocated; `draft` is
            then unchanged. Empty if there is none.
        """
        pools = self.offered(pools, draft.now)
        reconciled = reconcile(draft.machines, pools, fresh, in_use, draft.now, seq=draft.seq)
        if reconciled.stale:
            return reconciled.stale
        for name in [name for name in draft.machines if name not in reconciled.machines]:
            draft.drop_machine(name)
        for machine in reconciled.machines.values():
            draft.put_machine(machine)
        return ""

    def act(self, root: Root, store_now: float) -> None:
        """Submit the creates and deletes of the committed `root`, and listings when due."""
        now = self._clock.monotonic()
        for action in machine_actions(root.machines, self._listings, seq=root.seq):
            machine = root.machines.get(action.machine)
            pool = machine.pool if machine is not None else getattr(action, "pool", "")
            opened = self._pools.get(pool)
            if opened is None:
                self._journal.problem(f"pool {pool}", _unknown_pool(action.machine))
                continue
            if now - self._called_at.get(action.machine, -1e9) < RETRY_S:
                continue  # also where a call for its batch was just made
            zone = machine.zone if machine is not None else ""
            if isinstance(action, Create) and self._stockouts.get((pool, zone), 0.0) > store_now:
                continue
            self._called_at[action.machine] = now
            for each in _together(action, root):
                self._called_at[each.name] = now
                self._zones[each.name] = each.zone
            self._submit(opened, action, root)
        for name, opened in self._pools.items():
            if now >= self._list_at[name]:
                self._list_at[name] = now + self._listing_s
                opened.lane.submit("list", lambda opened=opened: _listing(opened))  # type: ignore[misc]
        self._called_at = {name: at for name, at in self._called_at.items() if now - at < RETRY_S}
        self._zones = {name: zone for name, zone in self._zones.items() if name in root.machines}

    def close(self) -> None:
        """Submit no more calls."""
        for opened in self._pools.values():
            opened.lane.close()

    def _submit(self, opened: OpenPool, action: MachineAction, root: Root) -> None:
        name = action.machine
        if isinstance(action, Create):
            batch = _together(action, root)
            opened.lane.submit(f"create {name}", lambda: _create(opened, batch))
        else:
            opened.lane.submit(f"delete {name}", lambda: opened.provider.delete(name))


def _create(opened: OpenPool, batch: tuple[Machine, ...]) -> None:
    opened.before_create()
    opened.provider.create(batch, opened.pool)


def _together(action: MachineAction, root: Root) -> tuple[Machine, ...]:
    """The machines that one call is about: the whole batch where one is created."""
    first = root.machines.get(action.machine)
    if first is None or not isinstance(action, Create) or not first.batch:
        return (first,) if first is not None else ()
    return tuple(
        machine
        for machine in root.machines.values()
        if (machine.pool, machine.zone, machine.batch) == (first.pool, first.zone, first.batch)
        and machine.phase is not MachinePhase.DELETING
    )


def _has_no_capacity(done: Done, pool: Pool) -> bool:
    """Whether a create failed for want of a machine; a host that does not answer is none."""
    if not done.key.startswith("create "):
        return False
    is_away = isinstance(done.error, ProviderUnavailableError) and pool.machines_per_zone > 0
    return is_away or isinstance(done.error, NoCapacityError)


def _in_stock(pool: Pool, sold_out: Collection[tuple[str, str]]) -> Pool:
    zones = sorted(pool.zones, key=lambda zone: (pool.name, zone) in sold_out)
    if pool.machines_per_zone:
        zones = [zone for zone in zones if (pool.name, zone) not in sold_out]
    return pool if tuple(zones) == pool.zones else replace(pool, zones=tuple(zones))


def _unknown_pool(machine: str) -> BastionError:
    return BastionError(
        f"its machine {machine} cannot be managed: the pool is not in config/bastion.toml",
        hint="put the pool back, with max_machines = 0 to have its machines deleted",
    )


def _listing(opened: OpenPool) -> tuple[Seen, ...]:
    return tuple(
        _seen(listed) for listed in opened.provider.list() if listed.pool == opened.pool.name
    )


def _seen(listed: Listed) -> Seen:
    return Seen(
        name=listed.name,
        pool=listed.pool,
        runs=listed.state in ("waiting", "creating", "running", "deleting"),
        gone=listed.state == "gone",
    )
