"""A provider under the contract: how its world moves on, and how it misbehaves on demand."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from bastion.machine import Machine, Pool
from bastion.provider.port import Provider
from quota.amounts import Amounts

POOL = Pool(name="here", provider="test", resources=Amounts({"cpu": 2}), max_machines=4)
MACHINE = Machine(name="here-7-0", pool="here")
DEADLINE_S = 30.0
STEP_S = 5.0
"""What passes in a place without a clock of this machine, at each step."""


@dataclass(frozen=True, kw_only=True)
class World:
    """
    What a provider with a will of its own does on demand.

    Each is in force until it is called with its default, and changes nothing that exists.
    """

    made: Callable[[], int]
    """How many machines, or slices, it has ever made."""
    stock: Callable[[int | None], None]
    """How many more it makes in the first zone; None: any number."""
    limit: Callable[[bool], None]
    """Whether the account may have no more."""
    refuse: Callable[[bool], None]
    """Whether the bastion may make nothing."""
    pace: Callable[[bool], None]
    """Whether every call is one too many."""
    cut: Callable[[bool], None]
    """Whether nothing answers."""
    lose: Callable[[bool], None]
    """Lose the answer of the next create; whether it is carried out."""
    keep_deleted: Callable[[bool], None]
    """Whether deletions are accepted and carried out by no one."""
    lag: Callable[[float], None]
    """For how many seconds lists do not show what was made."""
    expire: Callable[[bool], None]
    """Whether the bastion's credentials have expired."""
    vanish: Callable[[str], None]
    """End the machine of this name, though the bastion did not ask for that."""
    moved: Callable[[], Provider]
    """The provider of the pool in other zones, opened with those where its machines are behind."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """A provider without machines, and how its world moves on."""

    provider: Provider
    let_time_pass: Callable[[], None]
    kill_agent: Callable[[str], None]
    zones: tuple[str, str] = ("", "")
    pool: Pool = POOL
    world: World | None = None

    @property
    def machine(self) -> Machine:
        """One that can be made here."""
        return replace(MACHINE, zone=self.zones[0])

    @property
    def batch(self) -> list[Machine]:
        """Three that are made together."""
        return [
            replace(self.machine, name=f"here-7-{index}", batch="here-7-0") for index in range(3)
        ]

    def states(self) -> dict[str, str]:
        """Name -> state of every machine that is listed and not gone."""
        shown = {listed.name: listed.state for listed in self.provider.list()}
        return {name: state for name, state in shown.items() if state != "gone"}

    def create(self, *machines: Machine) -> None:
        """Ask for machines of this place's pool."""
        self.provider.create(machines, self.pool)

    def until(self, name: str, state: str) -> None:
        """Wait until a machine is in a state; one that is gone may be listed no more."""
        deadline = time.monotonic() + DEADLINE_S
        while self.states().get(name, "gone") != state:
            assert time.monotonic() < deadline, self.states()
            self.let_time_pass()

    def until_empty(self) -> None:
        """Wait until nothing is left."""
        for name in self.states():
            self.until(name, "gone")
