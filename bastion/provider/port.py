"""
The port to where machines come from: four operations.

Rules every adapter keeps: `create` and `delete` are idempotent by name; a name is created once and
never re-used; `create` of a machine that stands but whose agent is dead starts the agent again.
A machine that `list` shows as `gone` is confirmed deleted: nothing of it runs any more.
"""

from __future__ import annotations

from typing import Literal, Protocol

from bastion.machine import Machine, Pool
from bastion.value import value

State = Literal["creating", "running", "stopped", "deleting", "gone"]
"""Where a machine is; `stopped`: it stands, but its agent does not run."""


@value
class Listed:
    """One machine, as its provider shows it."""

    name: str
    pool: str
    state: State
    zone: str = ""


class Provider(Protocol):
    """Where machines come from."""

    def list(self) -> tuple[Listed, ...]:
        """
        Every machine of this bastion, those being deleted included.

        Raises:
            ProviderUnavailableError: It cannot be asked now.
        """
        ...

    def create(self, machine: Machine, pool: Pool) -> None:
        """
        Begin to make `machine`, or see that it runs; returns before it is ready.

        Raises:
            NoCapacityError: There is none now.
            ProviderUnavailableError: It cannot be asked now; the outcome is unknown.
        """
        ...

    def delete(self, name: str) -> None:
        """
        Begin to delete the machine called `name`; it is no error when there is none.

        Raises:
            ProviderUnavailableError: It cannot be asked now; the outcome is unknown.
        """
        ...
