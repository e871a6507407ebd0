"""Mutants of the life of machines in clouds: each lacks one safeguard."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from bastion.machine import MachinePhase, Pool
from bastion.monitor import Options
from bastion.pool import Delete, Seen
from bastion.records.root import Root
from bastion.service.act.machines import Machines
from bastion.service.draft.root_draft import Draft
from tests.simulation.processes import Parts


class NoOrphans(Machines):
    """Ignores machines without a record: it assumes that a refused create made nothing."""

    def act(self, root: Root, store_now: float) -> None:
        """See `Machines`."""
        self._listings = {
            pool: tuple(seen for seen in seens if seen.name in root.machines)
            for pool, seens in self._listings.items()
        }
        super().act(root, store_now)


class BelievesOldLists(Machines):
    """Assumes that a machine that greeted is gone when lists do not show it yet."""

    def reconcile(
        self,
        draft: Draft,
        pools: Mapping[str, Pool],
        fresh: Mapping[str, tuple[Seen, ...]],
        in_use: Collection[str],
        options: Options,
    ) -> str:
        """See `Machines`."""
        for machine in list(draft.machines.values()):
            if machine.life and machine.made_at is None:
                draft.put_machine(replace(machine, made_at=0.0))
        return super().reconcile(draft, pools, fresh, in_use, options)


class DeletesHosts(Machines):
    """Deletes one host of a slice on its own, without its siblings."""

    def act(self, root: Root, store_now: float) -> None:
        """See `Machines`."""
        for machine in root.machines.values():
            if machine.slice and machine.phase is MachinePhase.DELETING:
                delete = Delete(machine=machine.name, pool=machine.pool)
                self._submit(self._pools[machine.pool], delete, root)
        super().act(root, store_now)


class WaitsForEver(Machines):
    """Never gives up a request that a provider keeps, in favor of another zone."""

    def reconcile(
        self,
        draft: Draft,
        pools: Mapping[str, Pool],
        fresh: Mapping[str, tuple[Seen, ...]],
        in_use: Collection[str],
        options: Options,
    ) -> str:
        """See `Machines`."""
        patient = {name: replace(pool, patience_s=1e9) for name, pool in pools.items()}
        return super().reconcile(draft, patient, fresh, in_use, options)


CLOUD_MUTANTS: dict[str, Parts] = {
    "a machine that was refused is never looked for": Parts(machines=NoOrphans),
    "a list that lags is believed": Parts(machines=BelievesOldLists),
    "a host of a slice is deleted by itself": Parts(machines=DeletesHosts),
    "a request that is kept is waited for without end": Parts(machines=WaitsForEver),
}
