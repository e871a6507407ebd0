"""The contents of the write-once registers that fence everything outside root."""

from __future__ import annotations

from functools import partial
from typing import Literal

from bastion.bounds import clipped
from bastion.job import Claim, End
from bastion.value import value

MAX_LINES = 100
"""Maximum length of a text in the outcome of a check."""
MAX_LINE_CHARACTERS = 500


@value
class ClaimRegister:
    """CLAIMED by an agent, or REVOKED by the bastion; `write_id` shows which write won."""

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

    `addresses` are in the order of the placement: by replica, then by host. `port` is that of the
    first host.
    """

    schema: Literal[1] = 1
    write_id: str
    addresses: tuple[str, ...] = ()
    """Empty if revoked."""
    port: int = 0


@value
class CommandEnd:
    """The end of a command that a user ran next to a job's processes."""

    schema: Literal[1] = 1
    write_id: str
    code: int | None = None
    signal: int | None = None
    problem: str = ""
    """Why it did not run or was cut short; empty if it ended on its own."""
    size_bytes: int = 0
    """Size of its output; all of it is in the bucket."""


@value
class LongCommand:
    """The arguments of a command that are too long for its instruction."""

    schema: Literal[1] = 1
    argv: tuple[str, ...]


@value
class CheckOutcome:
    """What an agent found when an admin had its machine checked."""

    schema: Literal[1] = 1
    write_id: str
    by: Literal["hello", "burn"]
    lines: tuple[str, ...] = ()
    """What the machine has, and which load it withstood."""
    problem: str = ""
    """What is wrong with the machine; empty if nothing is."""
    undone: str = ""
    """Why nothing was checked, which says nothing about the machine."""

    def __post_init__(self) -> None:
        clip = partial(clipped, most=MAX_LINE_CHARACTERS)
        object.__setattr__(self, "lines", tuple(map(clip, self.lines[:MAX_LINES])))
        object.__setattr__(self, "problem", clip(self.problem))
        object.__setattr__(self, "undone", clip(self.undone))


@value
class LifeRegister:
    """One keeper life of a machine."""

    schema: Literal[1] = 1
    write_id: str
    boot_id: str
    """The boot id of the machine's kernel; it changes when the machine reboots."""
