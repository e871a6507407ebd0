"""The contents of the write-once registers that fence everything outside root."""

from __future__ import annotations

from typing import Literal

from bastion.job import Claim, End
from bastion.value import value


@value
class ClaimRegister:
    """CLAIMED by an agent, or REVOKED by the bastion; `write_id` tells which write won."""

    schema: Literal[1] = 1
    write_id: str
    claim: Claim | None = None
    """None: revoked."""


@value
class EndRegister:
    """How a host ended; written by its agent, or by the bastion for a machine that is gone."""

    schema: Literal[1] = 1
    write_id: str
    end: End


@value
class GoRegister:
    """
    GO with the addresses of every host, or REVOKED.

    `addresses` are replica by replica, host by host, as in the placement; `port` is the first
    host's.
    """

    schema: Literal[1] = 1
    write_id: str
    addresses: tuple[str, ...] = ()
    """Empty: revoked."""
    port: int = 0


@value
class CommandEnd:
    """How a command ended that a user ran beside a job's processes."""

    schema: Literal[1] = 1
    write_id: str
    code: int | None = None
    signal: int | None = None
    problem: str = ""
    """Why it did not run, or did not run to its end; empty where it ended by itself."""
    size_bytes: int = 0
    """Of what it printed: all of that is in the bucket."""


@value
class LifeRegister:
    """One keeper life of a machine."""

    schema: Literal[1] = 1
    write_id: str
    boot_id: str
    """Of the machine's kernel: another one means that the machine was rebooted."""
