"""
The port to a provider of machines: three operations and one fact.

Every adapter keeps these rules:

* A name is created once and never reused. `create` and `delete` are idempotent by name, so a call
  whose outcome is unknown is simply made again.
* `create` of a machine that exists but whose agent is dead restarts the agent, where the provider
  can reach it.
* A machine that `list` shows as `gone` is confirmed deleted: nothing of it runs any more.
* A list is whole or raises: a missing page is an error, not a shorter list. It may lag.
* What the provider made carries labels that name the bucket, the pool and the machine, so that each
  machine of this bastion is found without its records, and none of another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, runtime_checkable

from bastion.machine import Machine, Pool
from bastion.value import value

State = Literal["waiting", "creating", "running", "stopped", "deleting", "gone"]
"""
State of a machine.

`waiting`: the provider keeps the request until it has capacity, as queued resources do; nothing
exists yet. `stopped`: the machine exists, but its agent does not run.
"""


@value
class Listed:
    """One machine, as its provider lists it."""

    name: str
    pool: str
    state: State
    zone: str = ""
    text: str = ""
    """The provider's own words about the state, as why it still waits; empty if it has none."""
    stuck: str = ""
    """Why its agent, which has never begun, does not begin; empty where that is not known."""
    odd: str = ""
    """What an admin has to mend, as a copy of it made by hand; empty if there is nothing."""
    created_at: str = ""
    """When it was made, in ISO 8601, as the provider writes it; empty where it does not tell."""
    account: str = ""
    """The account or project that it is in, in the provider's words; empty where there is none."""
    leaves_rest: bool = False
    """Whether it is gone, and a request or record of it still uses up quota until it is deleted."""


class Provider(Protocol):
    """A provider of machines."""

    @property
    def vouches(self) -> bool:
        """
        Whether a machine that two whole lists in a row lack is gone.

        Where it is not, as with hosts of one's own that may only be unreachable, the permit of the
        machine's keeper proves after a time that nothing runs there.
        """
        ...

    def list(self) -> tuple[Listed, ...]:
        """
        Return every machine of this bastion in the provider's pool, those being deleted included.

        Raises:
            ProviderRefusedError: Rights are missing, or a setting is wrong.
            ProviderUnavailableError: It cannot be reached now.
        """
        ...

    def create(self, machines: Sequence[Machine], pool: Pool) -> None:
        """
        Begin to create `machines`, or ensure that they run; return before they are ready.

        `machines` are a batch: all machines of one gang, or of one slice, that one commit allocated
        in one zone, without those that are no longer wanted. All or none of a batch is made, where
        the provider can do that; what exists already is left alone.

        Raises:
            NoCapacityError: Nothing more of the batch will be made here now: the zone is sold out,
                or a limit of the account is reached.
            ProviderRefusedError: Nothing was made: rights are missing, or a setting is wrong.
            ProviderUnavailableError: It cannot be reached now; the outcome is unknown.
        """
        ...

    def delete(self, name: str) -> None:
        """
        Begin to delete the machine called `name`; a missing machine is no error.

        A slice is deleted whole: the name of any of its hosts deletes them all.

        Raises:
            ProviderRefusedError: Rights are missing.
            ProviderUnavailableError: It cannot be reached now; the outcome is unknown.
        """
        ...


@runtime_checkable
class TellsRights(Protocol):
    """A provider that tells, and makes nothing for it, what the identity in use may not do."""

    def lacking(self) -> tuple[str, ...]:
        """
        Return what keeps this identity from making or deleting machines, in the provider's words.

        Raises:
            ProviderError: That cannot be found out now.
        """
        ...


@runtime_checkable
class TellsAccount(Protocol):
    """A provider whose list is of one account, so that in another one all of a pool is missing."""

    def account(self) -> str:
        """
        Return the account or project in use, as `Listed.account`; empty if that is not known now.

        Raises:
            ProviderError: There are no credentials.
        """
        ...


@runtime_checkable
class TellsUnreached(Protocol):
    """A provider of several hosts, some of which may not answer when others do."""

    def unreached(self) -> Mapping[str, str]:
        """Return the hosts that the last list did not reach -> why."""
        ...
