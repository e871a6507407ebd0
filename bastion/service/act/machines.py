"""
The machines of a turn: providers, their listings, and the creates and deletes.

Each pool has its own provider and lane, so a call that hangs delays no other pool. A zone that has
no machines gives up its planned machines, and the same turn places them in the next zone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain

from bastion.clock import Clock
from bastion.errors import BastionError, NoCapacityError, ProviderRefusedError
from bastion.lane import Done, Lane
from bastion.machine import Build, Machine, MachinePhase, Pool
from bastion.monitor import Options
from bastion.pool import Create, MachineAction, Seen, left_zones, machine_actions, reconcile
from bastion.provider.port import Provider
from bastion.records.root import Root
from bastion.scheduler.reasons.reason import ProviderStockout
from bastion.service.act.listing import Listing, listing_of, unreached_hosts
from bastion.service.act.shortages import Shortage, Shortages
from bastion.service.draft.machines.deaf import DEAF_S, deaf_machines, mute_machines
from bastion.service.draft.root_draft import Draft
from bastion.service.draft.withdrawn_attempts import withdraw_attempts
from bastion.service.journal import Journal
from bastion.spec.values.quantity import text_of_seconds
from bastion.value import value

RETRY_S = 10.0
"""The least time between two calls for one machine, so that a listing can show it first."""
LONGEST_GAP_S = 60.0
"""
Between a commit and the next turn. After a longer gap, such as an outage, no ringing agent was
heard, or its bells are still unread: all get their time again.
"""
_CREATE = "create "
_LIST = "list"


@value
class OpenPool:
    """A pool with its provider, and the lane for calls to it."""

    pool: Pool
    provider: Provider
    lane: Lane
    before_create: Callable[[], Build | None] = lambda: None
    """
    Called in the lane before each create, so that everything a new machine needs is in place.
    Returns the build that new machines install, if they install one.
    """


class Machines:
    """
    The machines of every pool, and the providers that create and delete them.

    What it remembers about providers is only hints: a restarted bastion asks again.

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
        self._left_zones: dict[str, set[str]] = {}
        """Pool -> the zones besides its own in which its provider looks."""
        self.builds: dict[str, Build] = {}
        """Pool -> the build that its new machines install, once it is in the bucket."""
        self._listings: dict[str, tuple[Seen, ...]] = {}
        self._problems: dict[str, Mapping[str, str]] = {}
        """Pool -> the problems of its newest listing: what does not answer or is odd -> why."""
        self._gone: dict[str, frozenset[str]] = {}
        """Pool -> the machines that its newest listing shows as gone."""
        self._list_at: dict[str, float] = {}
        self._left_out: set[str] = set()
        """Pools that have machines but are not in the configuration."""
        self._was_listed: set[str] = set()
        """Pools that were listed since they were opened, so with current settings and rights."""
        self._called_at: dict[str, float] = {}
        """Machine -> when its last create or delete was submitted, on our own clock."""
        self._batches: dict[str, tuple[Machine, ...]] = {}
        """Machine -> the machines of the last create that was submitted in its name."""
        self._asked: set[str] = set()
        """Machines for which a create was submitted."""
        self._in_doubt: set[str] = set()
        """Machines that may exist, because a create of them was not refused, or is not known."""
        self._unmade: dict[str, str] = {}
        """Machines that their provider refused to create -> why."""
        self._listed_since: dict[str, float] = {}
        """Pool -> the time since which all listings succeeded; without those that failed last."""
        self.strangers = 0
        """Machines that providers list but the committed root does not have."""
        self._shortages = Shortages()
        self._steady_since = float("-inf")
        """The time, in the store's seconds, since which commits have had no gap."""

    def open_pools(self, pools: Mapping[str, Pool], machines: Mapping[str, Machine]) -> None:
        """
        Open each of `pools` that is new or was changed.

        A pool that was removed from the configuration stays open, and the bastion reports that it
        still has machines. A provider also looks in the zones of `machines`: otherwise those of a
        pool that changed zones would leak.
        """
        self._tell_left_out(pools, machines)
        left = left_zones(pools, machines)
        for name, pool in pools.items():
            opened = self._pools.get(name)
            is_same = opened is not None and opened.pool == pool
            if is_same and left[name] <= self._left_zones[name]:
                continue
            if opened is not None:
                opened.lane.close()
                self._in_doubt |= {m.name for m in machines.values() if m.pool == name}
            self._left_zones[name] = left[name]
            everywhere = replace(pool, zones=(*pool.zones, *sorted(left[name])))
            self._pools[name] = replace(self._open_pool(everywhere), pool=pool)
            self._list_at[name] = 0.0
            self._was_listed.discard(name)
            if not is_same:
                self._shortages.forget(name)

    def _tell_left_out(self, pools: Mapping[str, Pool], machines: Mapping[str, Machine]) -> None:
        left_out = Counter(m.pool for m in machines.values() if m.pool not in pools)
        for name in self._left_out - left_out.keys():
            self._journal.solved(f"pool {name}")
        for name, count in left_out.items():
            self._journal.problem(f"pool {name}", _unknown_pool(count))
        self._left_out = set(left_out)

    def stockouts(self, now: float) -> Mapping[str, ProviderStockout]:
        """Pools whose providers create no machine now, or not on some hosts -> why, until when."""
        reasons = ((name, self._shortages.reason(o.pool, now)) for name, o in self._pools.items())
        return {name: reason for name, reason in reasons if reason is not None}

    def shortages(self, now: float) -> tuple[Shortage, ...]:
        """Return what providers lack or refuse now, by pool and zone."""
        return self._shortages.of_zones(now)

    def offered(self, pools: Mapping[str, Pool], now: float) -> Mapping[str, Pool]:
        """Return `pools` with zones that have capacity first: new machines go to the first zone."""
        return {name: self._in_stock(pool, now) for name, pool in pools.items()}

    def collect(self, now: float) -> dict[str, tuple[Seen, ...]]:
        """Collect the results of calls since the last turn; return the new listings, by pool."""
        fresh: dict[str, tuple[Seen, ...]] = {}
        for name, opened in self._pools.items():
            for done in opened.lane.collect():
                self._learn(opened.pool, done, now)
                if done.error is not None:
                    self._journal.problem(f"pool {name}: {done.key}", done.error)
                    if done.key == _LIST:
                        self._listed_since.pop(name, None)
                    continue
                self._journal.solved(f"pool {name}: {done.key}")
                if isinstance(done.result, Build):
                    self.builds[name] = done.result
                elif isinstance(done.result, Listing):
                    self._was_listed.add(name)
                    fresh[name] = self._listed(name, done.result, now)
        return fresh

    def first_listings(self, now: float) -> dict[str, tuple[Seen, ...]]:
        """
        List pools on this same machine that no listing has shown yet, which needs no network.

        `bastion down` ends their machines, and the turn that opens them already places jobs.
        """
        first: dict[str, tuple[Seen, ...]] = {}
        for name, opened in self._pools.items():
            if opened.pool.provider != "local" or name in self._listings:
                continue
            try:
                first[name] = self._listed(
                    name, listing_of(opened.provider, name, frozenset()), now
                )
            except BastionError as error:
                self._journal.problem(f"pool {name}: {_LIST}", error)
        return first

    def gone(self) -> frozenset[str]:
        """Return machines that their provider shows as gone; root keeps each for one more list."""
        return frozenset().union(*self._gone.values())

    def reconcile(
        self,
        draft: Draft,
        pools: Mapping[str, Pool],
        fresh: Mapping[str, tuple[Seen, ...]],
        in_use: Collection[str],
        options: Options,
    ) -> str:
        """
        Reconcile the machines of `draft` with the pools, placements and listings.

        Attempts on machines that will not be created are withdrawn.

        Returns:
            The name of a machine that only a newer commit than ours can have allocated; `draft` is
            then unchanged. Empty if there is none.
        """
        now = draft.now
        self._forget_refused_starts(draft.machines, fresh)
        self._note_gap(draft)
        deaf = self._deaf(draft)
        mute, silent = mute_machines(
            draft.working_jobs(), draft.machines, now, steady_since=self._steady_since
        )
        stocked = {name: self._only_in_stock(pool, now) for name, pool in pools.items()}
        reconciled = reconcile(
            draft.machines,
            stocked,
            fresh,
            in_use,
            now,
            seq=draft.seq,
            unmade=dict(self._refused(draft.machines, now)),
            in_doubt=self._in_doubt,
            mute=mute,
            deaf=deaf | silent,
            listed_since=self._listed_since,
            steady_since=self._steady_since,
        )
        if reconciled.stale:
            return reconciled.stale
        for name, why in reconciled.given_up.items():
            machine = draft.machines[name]
            if name in reconciled.lifeless:
                self._shortages.never_came(machine.pool, machine.zone, why, now)
                draft.tell(what="machine failed", text=why)
            elif machine.life:
                text = f"{name} was stopped, and is not started again: {why}"
                draft.tell(what="machine failed", text=text)
            elif machine.waits:
                self._shortages.waited_in_vain(machine.pool, machine.zone, why, now)
        self._shortages.came(reconciled.machines.values())
        for name in sorted(deaf):
            silence = text_of_seconds(DEAF_S)
            draft.tell(what="machine deaf", text=f"{name}: has not answered for {silence}")
        for name in sorted(silent - deaf):
            ago = text_of_seconds(float(int(now - draft.machines[name].heard_at)))
            draft.tell(what="machine deaf", text=f"{name}: its agent was last heard from {ago} ago")
        withdraw_attempts(draft, reconciled.given_up, options)
        for name in [name for name in draft.machines if name not in reconciled.machines]:
            is_unmade = name not in reconciled.lifeless
            draft.drop_machine(name, reconciled.given_up.get(name, "") if is_unmade else "")
        for name, machine in reconciled.machines.items():
            # A new machine in a zone that was just given up is created elsewhere, in the next turn.
            if name in draft.machines or not self._is_dry(machine, now):
                draft.put_machine(machine)
        return ""

    def act(self, root: Root, store_now: float) -> None:
        """Submit the creates and deletes of the committed `root`, and listings when due."""
        now = self._clock.monotonic()
        gone = self.gone()
        self.strangers = 0
        for action in machine_actions(root.machines, self._listings, seq=root.seq):
            machine = root.machines.get(action.machine)
            self.strangers += machine is None and action.machine not in gone
            pool = machine.pool if machine is not None else getattr(action, "pool", "")
            opened = self._pools.get(pool)
            if opened is None:
                continue  # reported as missing from the configuration
            if now - self._called_at.get(action.machine, -1e9) < RETRY_S:
                continue  # also if a call for its batch was just made
            if self._is_put_off(action, root, store_now) or self._shortages.is_paused(
                pool, store_now
            ):
                continue
            self._called_at[action.machine] = now
            self._submit(opened, action, root)
        for name, opened in self._pools.items():
            if now >= self._list_at[name] and not self._shortages.is_paused(name, store_now):
                self._list_at[name] = now + self._listing_s
                accounts = _accounts(root, name)
                opened.lane.submit(_LIST, partial(listing_of, opened.provider, name, accounts))
        for pool in {each.pool for each in root.machines.values() if each.build}:
            if pool in self._pools and pool not in self.builds:
                self._pools[pool].lane.submit("build", self._pools[pool].before_create)
        self._called_at = {name: at for name, at in self._called_at.items() if now - at < RETRY_S}
        self._batches = {n: each for n, each in self._batches.items() if n in root.machines}
        self._asked &= root.machines.keys()
        self._in_doubt &= root.machines.keys()
        self._unmade = {n: why for n, why in self._unmade.items() if n in root.machines}

    def is_refused(self) -> bool:
        """Whether a provider has refused something since the last turn, or did not answer."""
        return any(opened.lane.has_failed() for opened in self._pools.values())

    def close(self) -> None:
        """Submit no more calls."""
        for opened in self._pools.values():
            opened.lane.close()

    def _listed(self, pool: str, listing: Listing, now: float) -> tuple[Seen, ...]:
        """Keep the newest listing of a pool, report its oddities, and return what was seen."""
        self._listings[pool] = listing.seen
        self._gone[pool] = frozenset(seen.name for seen in listing.seen if seen.gone)
        self._listed_since.setdefault(pool, now)
        problems = dict(unreached_hosts(pool, listing.unreached))
        problems |= {
            f"pool {pool}: machine {seen.name}": seen.odd for seen in listing.seen if seen.odd
        }
        for what in self._problems.get(pool, {}).keys() - problems.keys():
            self._journal.solved(what)
        for what, why in problems.items():
            self._journal.problem(what, BastionError(why))
        self._problems[pool] = problems
        return listing.seen

    def _note_gap(self, draft: Draft) -> None:
        """Note a gap in the commits; another bastion may have requested what the first turn has."""
        is_first = self._steady_since < 0
        if is_first:
            self._in_doubt |= draft.root.machines.keys()
        if is_first or draft.now - draft.root.now > LONGEST_GAP_S:
            self._steady_since = draft.now

    def _deaf(self, draft: Draft) -> frozenset[str]:
        """Return machines whose agents answer nothing although commits have had no gap."""
        if draft.now - self._steady_since <= DEAF_S:
            return frozenset()
        jobs = draft.working_jobs()
        return deaf_machines(jobs, draft.machines, draft.now, steady_since=self._steady_since)

    def _learn(self, pool: Pool, done: Done, now: float) -> None:
        """Record what the end of one call says about its provider."""
        name = done.key.removeprefix(_CREATE)
        batch = self._batches.get(name, ()) if done.key.startswith(_CREATE) else ()
        zone = batch[0].zone if batch else None
        if done.error is None:
            self._shortages.made(pool.name, zone, now)
            for machine in batch:
                self._unmade.pop(machine.name, None)
                self._in_doubt.add(machine.name)
            return
        if isinstance(done.error, ProviderRefusedError) and not batch and done.key != _LIST:
            return  # reported as a problem; without a listing, a machine would be created unseen
        self._shortages.refused(pool, zone, done.error, now)
        if isinstance(done.error, NoCapacityError | ProviderRefusedError):
            self._unmade.update((machine.name, str(done.error)) for machine in batch)
        else:
            self._in_doubt.update(machine.name for machine in batch)

    def _forget_refused_starts(
        self, machines: Mapping[str, Machine], fresh: Mapping[str, tuple[Seen, ...]]
    ) -> None:
        """Forget that a machine's start was refused once it runs: the next start may be granted."""
        for seen in chain.from_iterable(fresh.values()):
            if seen.runs and seen.name in machines and machines[seen.name].life:
                self._unmade.pop(seen.name, None)

    def _refused(self, machines: Mapping[str, Machine], now: float) -> Iterator[tuple[str, str]]:
        """Yield machines that are not created or started (refused, or none in their zone): why."""
        dry = {(each.pool, each.zone): each.said for each in self._shortages.of_zones(now)}
        for machine in machines.values():
            if machine.name in self._unmade:
                yield machine.name, self._unmade[machine.name]
                continue
            if machine.phase is not MachinePhase.CREATING or machine.life:
                continue
            if machine.name not in self._asked and self._is_dry(machine, now):
                said = dry.get((machine.pool, machine.zone)) or dry.get((machine.pool, None), "")
                yield machine.name, said

    def _is_dry(self, machine: Machine, now: float) -> bool:
        return self._shortages.is_dry(machine.pool, machine.zone, now)

    def _is_put_off(self, action: MachineAction, root: Root, now: float) -> bool:
        """
        Whether it is a create in a zone that has no machines now, and is not in doubt.

        Also a create that may be in another account than its pool, until a listing shows it.
        """
        machine = root.machines.get(action.machine)
        if not isinstance(action, Create) or machine is None:
            return False
        if machine.pool not in self._was_listed and _accounts(root, machine.pool):
            return True
        opened = self._pools[machine.pool]
        is_new = action.machine not in self._asked
        return self._is_dry(machine, now) and (is_new or opened.pool.machines_per_zone > 0)

    def _in_stock(self, pool: Pool, now: float) -> Pool:
        if pool.machines_per_zone:
            return pool  # the stock-out names the hosts that have none
        dry = {zone for zone in pool.zones if self._shortages.is_dry(pool.name, zone, now)}
        zones = tuple(sorted(pool.zones, key=dry.__contains__))
        return pool if zones == pool.zones else replace(pool, zones=zones)

    def _only_in_stock(self, pool: Pool, now: float) -> Pool:
        zones = tuple(z for z in pool.zones if not self._shortages.is_dry(pool.name, z, now))
        return pool if zones == pool.zones else replace(pool, zones=zones)

    def _submit(self, opened: OpenPool, action: MachineAction, root: Root) -> None:
        name = action.machine
        if isinstance(action, Create):
            batch = _together(action, root)
            self._batches[name] = batch
            for each in batch:
                self._called_at[each.name] = self._called_at[name]
                self._asked.add(each.name)
            opened.lane.submit(f"{_CREATE}{name}", lambda: _create(opened, batch))
        else:
            opened.lane.submit(f"delete {name}", lambda: opened.provider.delete(name))


def _create(opened: OpenPool, batch: tuple[Machine, ...]) -> None:
    opened.before_create()
    opened.provider.create(batch, opened.pool)


def _together(action: MachineAction, root: Root) -> tuple[Machine, ...]:
    """Return the machines that one call is about: a create covers the whole batch."""
    first = root.machines.get(action.machine)
    if first is None or not isinstance(action, Create) or not first.batch:
        return (first,) if first is not None else ()
    return tuple(
        machine
        for machine in root.machines.values()
        if (machine.pool, machine.zone, machine.batch) == (first.pool, first.zone, first.batch)
        and machine.phase is not MachinePhase.DELETING
    )


def _unknown_pool(count: int) -> BastionError:
    machines = "its machine is" if count == 1 else f"its {count} machines are"
    return BastionError(
        f"{machines} kept, idle or not: the pool is not in config/bastion.toml; put it back, with"
        " max_machines = 0 to have them deleted"
    )


def _accounts(root: Root, pool: str) -> frozenset[str]:
    """Return the accounts or projects in which a pool's machines were listed: one, or none."""
    return frozenset(m.account for m in root.machines.values() if m.pool == pool and m.account)
