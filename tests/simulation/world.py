"""A small world: one bucket, one provider, bastions, users, and the invariants that check them."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from functools import partial

from bastion.agent.keeper.port import AttemptStart
from bastion.records.keys import layout
from bastion.store import ObjectStore
from bastion.store.memory import MemoryStore
from quota.amounts import Amounts
from tests.simulation.baton import Baton, SimClock
from tests.simulation.fates import Calm, Fates, Spoiling, Storm
from tests.simulation.invariants import ENDS, RIGHTS, Invariants
from tests.simulation.machines import SimMachine, SimProvider
from tests.simulation.processes import SOUND, Bastion, Parts, Wish, run_agent, run_user
from tests.simulation.rights import Rights
from tests.simulation.store import SimStore
from tests.simulation.webhooks import SimWebhooks

PER_MACHINE = Amounts({"h100": 8})
CALM_AT_S = 400.0
"""Faults are over by then; the rest must end without interference."""
LIMIT_S = 2500.0
"""Virtual time within which everything ends, or never will."""


class World:
    """
    The world of one run.

    Args:
        seed: Determines everything that is random.
        quota: The text of the quota file.
        config: The text of `config/bastion.toml`.
        wishes: What users submit.
        fates: The faults; None: nothing goes wrong.
        bastions: How many bastions want to lead.
        has_lease: Without it, they take the lead from each other whenever root does not change.
        parts: What bastions and agents are made of.
        machines: How many machines the provider has.
        per_machine: What each of them has.
        edits: When admins replace the quota file, and with which text.
        through: Wraps the bucket for everything that uses it.
        strangers: Names of actors that may ask for what they are not allowed.
        store_skew_s: How far the date of the store is off.
        provider: The source of machines.
    """

    def __init__(
        self,
        baton: Baton,
        *,
        quota: str,
        config: str,
        wishes: list[Wish],
        fates: Fates | None = None,
        bastions: int = 1,
        has_lease: bool = True,
        parts: Parts = SOUND,
        machines: int = 2,
        per_machine: Amounts = PER_MACHINE,
        edits: tuple[tuple[float, str], ...] = (),
        through: Callable[[ObjectStore], ObjectStore] = lambda store: store,
        strangers: tuple[str, ...] = (),
        store_skew_s: float = 0.0,
        provider: type[SimProvider] = SimProvider,
    ) -> None:
        self.baton = baton
        self.checks: list[Callable[[], None]] = []
        """Checks of one world, made when everything is over."""
        self.limit_s = LIMIT_S
        self.wishes = wishes
        self._parts = parts
        self._per_machine = per_machine
        self.fates = fates or Calm()
        self.bucket = MemoryStore(lambda: SimClock.EPOCH + baton.now + store_skew_s)
        self.bucket.create(layout.QUOTA, quota.encode())
        self.bucket.create(layout.CONFIG, config.encode())
        self.rights = Rights(
            baton,
            agents=parts.agent_rights,
            strangers=strangers,
            fail=partial(baton.fail, RIGHTS),
        )
        self.store = SimStore(through(self.bucket), baton, self.fates, self._wrote, self.rights)
        self.webhooks = SimWebhooks(baton, self.fates)
        self.provider = provider(
            baton,
            self.fates,
            capacity=machines,
            boot=self._boot,
            on_start=self._started,
            on_delete=self._deletes,
            root=lambda: self.invariants.root,
            clock=parts.machine_clock,
        )
        self.provider.is_calm = not isinstance(fates, (Storm, Spoiling))
        self.invariants = Invariants(
            self.bucket,
            self.provider,
            wishes,
            self.webhooks,
            fail=baton.fail,
        )
        baton.endless, baton.left = ENDS, self.invariants.left
        self.bastions = [
            Bastion(
                name,
                baton=baton,
                store=self.store,
                provider=self.provider,
                webhooks=self.webhooks,
                has_lease=has_lease,
                parts=parts,
            )
            for name in ("north", "south", "east")[:bastions]
        ]

        for at_s, text in edits:
            baton.later(at_s, partial(self._edit, text))

    def run(self) -> None:
        """
        Run everything until nothing is left to do.

        Raises:
            SimulationError: An invariant broke.
        """
        for n, bastion in enumerate(self.bastions):
            self.baton.spawn(bastion.name, bastion.run, after_s=10.0 * n)
        for user in dict.fromkeys(wish.user for wish in self.wishes):
            mine = [wish for wish in self.wishes if wish.user == user]
            self.baton.spawn(user, partial(run_user, mine, baton=self.baton, store=self.store))
        self.baton.later(CALM_AT_S, self._calm)
        self.baton.run(until=self._is_over, limit_s=self.limit_s)

    def _edit(self, quota: str) -> None:
        self.baton.note("edits", layout.QUOTA)
        found = self.bucket.read(layout.QUOTA)
        assert found is not None
        self.bucket.swap(layout.QUOTA, quota.encode(), if_version=found.version)

    def _is_over(self) -> bool:
        # Cheapest first: this is evaluated whenever all sleep.
        over = self.invariants.is_quiet() and self._has_asked() and self._has_answers()
        if over:
            self.invariants.at_end()
            for check in self.checks:
                check()
        return over

    def _has_asked(self) -> bool:
        return all(wish.at_s < self.baton.now for wish in self.wishes)

    def _has_answers(self) -> bool:
        return all(wish.answer is not None or wish.asked is None for wish in self.wishes)

    def _calm(self) -> None:
        self.baton.note("calm", "")
        self.provider.is_calm = True
        self.fates.end()

    def _wrote(self, operation: str, key: str, data: bytes) -> None:
        self._check(self.invariants.wrote, operation, key, data)

    def _started(self, machine: SimMachine, attempt: AttemptStart) -> None:
        self._check(self.invariants.started, machine, attempt)

    def _deletes(self, name: str) -> None:
        self._check(self.invariants.deletes, name)

    def _check(self, check: Callable[..., None], *seen: object) -> None:
        """Run a check so that its error is not mistaken for one of the call that it examines."""
        try:
            check(*seen)
        except Exception:  # noqa: BLE001 - the actor would take it for the store's, and go on
            self.baton.fail("every check can be made", traceback.format_exc())

    def _boot(self, machine: SimMachine) -> None:
        self.baton.spawn(
            machine.actor,
            lambda: run_agent(
                machine,
                baton=self.baton,
                store=self._parts.agent_store(self.store),
                resources=self._per_machine,
            ),
        )
