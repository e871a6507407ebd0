"""A provider under the contract: how its world advances, and how it misbehaves on demand."""

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
"""The time that passes at each step in a place that does not use this machine's clock."""


@dataclass(frozen=True, kw_only=True)
class World:
    """
    What an unreliable provider does on demand.

    Each applies until it is called with its default, and changes nothing that exists.
    """

    made: Callable[[], int]
    """How many machines, or slices, it has ever created."""
    stock: Callable[[int | None], None]
    """How many more it creates in the first zone; None: any number."""
    limit: Callable[[bool], None]
    """Whether the account is at its limit."""
    refuse: Callable[[bool], None]
    """Whether the bastion may create nothing."""
    pace: Callable[[bool], None]
    """Whether every call exceeds the rate limit."""
    cut: Callable[[bool], None]
    """Whether nothing answers."""
    lose: Callable[[bool], None]
    """Lose the answer of the next create; the argument says whether it is carried out."""
    keep_deleted: Callable[[bool], None]
    """Whether deletions are accepted but not carried out."""
    lag: Callable[[float], None]
    """For how many seconds lists do not show what was created."""
    expire: Callable[[bool], None]
    """Whether the bastion's credentials have expired."""
    vanish: Callable[[str], None]
    """End the machine of this name without a request from the bastion."""
    moved: Callable[[], Provider]
    """The provider of the pool in other zones, opened with the zones that have earlier machines."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """A provider without machines, and how its world advances."""

    provider: Provider
    let_time_pass: Callable[[], None]
    kill_agent: Callable[[str], None]
    zones: tuple[str, str] = ("", "")
    pool: Pool = POOL
    world: World | None = None

    @property
    def machine(self) -> Machine:
        """Return a machine that can be created here."""
        return replace(MACHINE, zone=self.zones[0])

    @property
    def batch(self) -> list[Machine]:
        """Return three machines that are created together."""
        return [
            replace(self.machine, name=f"here-7-{index}", batch="here-7-0") for index in range(3)
        ]

    def states(self) -> dict[str, str]:
        """Return name -> state of every machine that is listed and not gone."""
        shown = {listed.name: listed.state for listed in self.provider.list()}
        return {name: state for name, state in shown.items() if state != "gone"}

    def create(self, *machines: Machine) -> None:
        """Request machines of this place's pool."""
        self.provider.create(machines, self.pool)

    def until(self, name: str, state: str) -> None:
        """Wait until a machine is in a state; one that is gone may no longer be listed."""
        deadline = time.monotonic() + DEADLINE_S
        while self.states().get(name, "gone") != state:
            assert time.monotonic() < deadline, self.states()
            self.let_time_pass()

    def until_empty(self) -> None:
        """Wait until nothing is left."""
        for name in self.states():
            self.until(name, "gone")
