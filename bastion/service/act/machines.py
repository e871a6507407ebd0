"""
The machines' side of a turn: providers, their listings, and what is made and deleted.

Each pool has its own provider and lane, so that a hung call of one delays no other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from bastion.clock import Clock
from bastion.errors import BastionError, NoCapacityError
from bastion.lane import Lane
from bastion.machine import Pool
from bastion.pool import Create, Seen, machine_actions, reconcile
from bastion.provider.port import Listed, Provider
from bastion.records.root import Root
from bastion.service.draft.root_draft import Draft
from bastion.service.journal import Journal
from bastion.value import value

CREATE_AGAIN_S = 10.0
"""A machine that was asked for is asked for again only when no listing showed it for so long."""
STOCKOUT_S = 60.0
"""A zone in which a provider had no machine is not asked for again for so long."""


@value
class OpenPool:
    """One pool's provider, and the lane its calls are made on."""

    pool: Pool
    provider: Provider
    lane: Lane


class Machines:
    """
    Every provider of this bastion.

    Args:
        open_pool: Makes the provider and lane of a pool that is new or was changed.
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
        self._asked: dict[str, float] = {}
        self._zones: dict[str, str] = {}
        """Of machines that were asked for."""
        self._sold_out: dict[tuple[str, str], float] = {}
        """(pool, zone) -> until when, in store's seconds, it is not asked for again."""

    def open_pools(self, pools: Mapping[str, Pool]) -> None:
        """Have a provider for each of `pools`; keep those of pools that are no more configured."""
        for name, pool in pools.items():
            opened = self._pools.get(name)
            if opened is None or opened.pool != pool:
                if opened is not None:
                    opened.lane.close()
                self._pools[name] = self._open_pool(pool)
                self._list_at[name] = 0.0

    def stockouts(self, now: float) -> Mapping[str, float]:
        """Pool -> until when (store's seconds) its provider is not asked again in any zone."""
        found = {}
        for name, opened in self._pools.items():
            until = min(self._sold_out.get((name, zone), 0.0) for zone in opened.pool.zones)
            if until > now:
                found[name] = until
        return found

    def offered(self, pools: Mapping[str, Pool], now: float) -> Mapping[str, Pool]:
        """`pools`, in each the zones first that are not sold out: there new machines are made."""
        sold_out = {key for key, until in self._sold_out.items() if until > now}
        return {name: _in_stock(pool, sold_out) for name, pool in pools.items()}

    def collect(self, now: float) -> dict[str, tuple[Seen, ...]]:
        """What providers answered since the last turn: the new listings, by pool."""
        fresh: dict[str, tuple[Seen, ...]] = {}
        for name, opened in self._pools.items():
            for done in opened.lane.collect():
                if isinstance(done.error, NoCapacityError):
                    zone = self._zones.get(done.key.removeprefix("create "), "")
                    self._sold_out[name, zone] = now + STOCKOUT_S
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
        Bring the machines of `draft` in line with pools, placements and what providers list.

        The name of a machine that only a newer commit than ours can have allocated, and then
        `draft` is what it was; else empty.
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
        """Ask providers for what the committed `root` wants, and for listings when it is time."""
        now = self._clock.monotonic()
        for action in machine_actions(root.machines, self._listings, seq=root.seq):
            machine = root.machines.get(action.machine)
            pool = machine.pool if machine is not None else getattr(action, "pool", "")
            opened = self._pools.get(pool)
            if opened is None:
                self._journal.problem(f"pool {pool}", _unknown_pool(action.machine))
                continue
            if now - self._asked.get(action.machine, -1e9) < CREATE_AGAIN_S:
                continue
            zone = machine.zone if machine is not None else ""
            if isinstance(action, Create) and self._sold_out.get((pool, zone), 0.0) > store_now:
                continue
            self._asked[action.machine] = now
            self._submit(opened, action, root)
        for name, opened in self._pools.items():
            if now >= self._list_at[name]:
                self._list_at[name] = now + self._listing_s
                opened.lane.submit("list", lambda opened=opened: _listing(opened))  # type: ignore[misc]
        self._asked = {name: at for name, at in self._asked.items() if now - at < CREATE_AGAIN_S}
        self._zones = {name: zone for name, zone in self._zones.items() if name in root.machines}

    def close(self) -> None:
        """Make no more calls."""
        for opened in self._pools.values():
            opened.lane.close()

    def _submit(self, opened: OpenPool, action: object, root: Root) -> None:
        if isinstance(action, Create):
            machine = root.machines[action.machine]
            self._zones[machine.name] = machine.zone
            opened.lane.submit(
                f"create {machine.name}", lambda: opened.provider.create(machine, opened.pool)
            )
        else:
            name = getattr(action, "machine", "")
            opened.lane.submit(f"delete {name}", lambda: opened.provider.delete(name))


def _in_stock(pool: Pool, sold_out: Collection[tuple[str, str]]) -> Pool:
    zones = sorted(pool.zones, key=lambda zone: (pool.name, zone) in sold_out)
    return pool if tuple(zones) == pool.zones else replace(pool, zones=tuple(zones))


def _unknown_pool(machine: str) -> BastionError:
    return BastionError(
        f"its machine {machine} cannot be looked after: the pool is not in config/bastion.toml",
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
        runs=listed.state in ("creating", "running", "deleting"),
        gone=listed.state == "gone",
    )
