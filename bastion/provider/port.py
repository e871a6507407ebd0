"""
The port to a provider of machines: three operations.

Every adapter keeps these rules. `create` and `delete` are idempotent by name. A name is created
once and never reused. `create` of a machine that exists but whose agent is dead restarts the agent.
A machine that `list` shows as `gone` is confirmed deleted: nothing of it runs any more.
"""

from __future__ import annotations

from typing import Literal, Protocol

from bastion.machine import Machine, Pool
from bastion.value import value

State = Literal["creating", "running", "stopped", "deleting", "gone"]
"""State of a machine; `stopped`: it exists, but its agent does not run."""


@value
class Listed:
    """One machine, as its provider lists it."""

    name: str
    pool: str
    state: State
    zone: str = ""


class Provider(Protocol):
    """A provider of machines."""

    def list(self) -> tuple[Listed, ...]:
        """
        Return every machine of this bastion, those being deleted included.

        Raises:
            ProviderUnavailableError: It cannot be reached now.
        """
        ...

    def create(self, machine: Machine, pool: Pool) -> None:
        """
        Begin to create `machine`, or ensure that it runs; return before it is ready.

        Raises:
            NoCapacityError: There is no capacity now.
            ProviderUnavailableError: It cannot be reached now; the outcome is unknown.
        """
        ...

    def delete(self, name: str) -> None:
        """
        Begin to delete the machine called `name`; a missing machine is no error.

        Raises:
            ProviderUnavailableError: It cannot be reached now; the outcome is unknown.
        """
        ...
