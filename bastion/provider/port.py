"""
The port to a provider of machines: three operations and one fact.

Every adapter follows these rules:

* A name is created once and never reused. `create` and `delete` are idempotent by name, so a call
  whose outcome is unknown is simply repeated.
* `create` of a machine that exists but whose agent is dead restarts the agent, if the provider can
  reach it.
* A machine that `list` shows as `gone` is confirmed deleted: nothing of it is running.
* A list is complete or raises: a missing page is an error, not a shorter list. It may lag.
* What the provider created carries labels with the bucket, the pool and the machine, so that each
  machine of this bastion is found without its records, and no machine of another bastion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, runtime_checkable

from bastion.machine import Machine, Pool
from bastion.value import value

State = Literal["waiting", "creating", "running", "stopped", "deleting", "gone"]
"""
State of a machine.

`waiting`: the provider keeps the request until it has capacity, as with queued resources; nothing
exists yet. `stopped`: the machine exists, but its agent is not running.
"""


@value
class Listed:
    """One machine, as its provider lists it."""

    name: str
    pool: str
    state: State
    zone: str = ""
    text: str = ""
    """
    The provider's own words about the state, such as why it still waits; empty if it has none.
    """
    prepares: str = ""
    """
    What must still be done in it before it can boot, such as pulling its image; empty if nothing.
    """
    stuck: str = ""
    """Why its agent, which has never started, does not start, or why it does not end."""
    odd: str = ""
    """What an admin must fix, such as a manual copy of it; empty if there is nothing."""
    created_at: str = ""
    """When it was created, in ISO 8601, as the provider writes it; empty if not given."""
    account: str = ""
    """Its account or project, in the provider's words; empty if there is none."""
    leaves_rest: bool = False
    """Whether it is gone while a request or record of it uses up quota until it is deleted."""


class Provider(Protocol):
    """A provider of machines."""

    @property
    def vouches(self) -> bool:
        """
        Whether a machine that is missing from two complete lists in a row is gone.

        If not, such as with your own hosts, which may only be unreachable, the expired permit of
        the machine's keeper proves that nothing runs there.
        """
        ...

    def list(self) -> tuple[Listed, ...]:
        """
        Return every machine of this bastion in the provider's pool, including those being deleted.

        Raises:
            ProviderRefusedError: Permissions are missing, or a setting is wrong.
            ProviderUnavailableError: It cannot be reached now.
        """
        ...

    def create(self, machines: Sequence[Machine], pool: Pool) -> None:
        """
        Start to create `machines`, or ensure that they run; return before they are ready.

        `machines` are a batch: all machines of one gang, or of one slice, that one commit allocated
        in one zone, without those that are no longer wanted. All or none of a batch is created, if
        the provider can do that; existing machines are left alone.

        Raises:
            NoCapacityError: Nothing more of the batch will be created here now: the zone is sold
                out, or a limit of the account is reached.
            ProviderRefusedError: Nothing was created: permissions are missing, or a setting is
                wrong.
            ProviderUnavailableError: It cannot be reached now; the outcome is unknown.
        """
        ...

    def delete(self, name: str) -> None:
        """
        Start to delete the machine `name`; a missing machine is no error.

        A slice is deleted as a whole: the name of any of its hosts deletes them all.

        Raises:
            ProviderRefusedError: Permissions are missing.
            ProviderUnavailableError: It cannot be reached now; the outcome is unknown.
        """
        ...


@runtime_checkable
class TellsRights(Protocol):
    """A provider that reports, without creating anything, what the identity in use may not do."""

    def lacking(self) -> tuple[str, ...]:
        """
        Return why this identity cannot create or delete machines, in the provider's words.

        Raises:
            ProviderError: That cannot be found out now.
        """
        ...


@runtime_checkable
class TellsAccount(Protocol):
    """A provider whose list covers one account, so with another account a whole pool is missing."""

    def account(self) -> str:
        """
        Return the account or project in use, as in `Listed.account`; empty if it is unknown now.

        Raises:
            ProviderError: There are no credentials.
        """
        ...


@runtime_checkable
class TellsUnreached(Protocol):
    """A provider of several hosts, some of which may not answer while others do."""

    def unreached(self) -> Mapping[str, str]:
        """Return the hosts that the last list did not reach, with the reasons."""
        ...
