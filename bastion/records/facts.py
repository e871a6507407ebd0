"""
What agents tell the bastion: facts, batched in bells, rung after the register that holds the truth.

A bell is only a faster way to learn what a register says; one that is lost is found by the leader's
sweep of registers. `Hello` is the exception: it is how a keeper life presents itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from bastion.job import Claim, End
from bastion.value import value
from quota.amounts import Amounts


@value
class Hello:
    """A keeper life began, or a restarted agent found its keeper alive."""

    kind: Literal["hello"] = "hello"
    resources: Amounts
    address: str
    hostname: str
    version: str
    """Of the Bastion it runs."""
    labels: Mapping[str, str] = field(default_factory=dict)


@value
class HostFact:
    """Which host of which attempt a fact is about."""

    project: str
    job: str
    attempt: int
    nonce: str
    replica: int
    host: int


@value
class Claimed:
    """The agent won the claim of this host."""

    kind: Literal["claimed"] = "claimed"
    of: HostFact
    claim: Claim


@value
class Preparing:
    """What this host does before its processes can start, and how far it is."""

    kind: Literal["preparing"] = "preparing"
    of: HostFact
    text: str


@value
class Started:
    """The processes of this host run."""

    kind: Literal["started"] = "started"
    of: HostFact


@value
class Checkpointed:
    """The job marked a checkpoint."""

    kind: Literal["checkpointed"] = "checkpointed"
    of: HostFact


@value
class Reported:
    """The job reported numbers."""

    kind: Literal["reported"] = "reported"
    of: HostFact
    numbers: Mapping[str, float]


@value
class Idle:
    """This host shows no sign of life, as `text` says, and goes on; empty: it shows one again."""

    kind: Literal["idle"] = "idle"
    of: HostFact
    text: str = ""


@value
class Held:
    """This host failed, as `end` says, and is kept to be looked at for `for_s` from now."""

    kind: Literal["held"] = "held"
    of: HostFact
    for_s: float
    folder: str
    end: End


@value
class Ended:
    """`end` of this host is written."""

    kind: Literal["ended"] = "ended"
    of: HostFact
    end: End


@value
class Drained:
    """Every log byte up to the sizes in `end` is in the bucket."""

    kind: Literal["drained"] = "drained"
    of: HostFact


@value
class Health:
    """What works here changed: devices that must not be used, and why; empty when all is well."""

    kind: Literal["health"] = "health"
    bad_devices: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    text: str = ""


@value
class Heartbeat:
    """Nothing changed; the machine is alive."""

    kind: Literal["heartbeat"] = "heartbeat"


Fact = (
    Hello
    | Claimed
    | Preparing
    | Started
    | Checkpointed
    | Reported
    | Idle
    | Held
    | Ended
    | Drained
    | Health
    | Heartbeat
)


@value
class Bell:
    """One object in `inbox/_bell/`: facts in the order in which they became true."""

    schema: Literal[1] = 1
    facts: tuple[Fact, ...]
