"""
What agents tell the bastion: facts, batched in bells, rung after the register that holds the truth.

A bell is only a faster way to learn what a register says; one that is lost is found by the leader's
sweep of registers. `Hello` is the exception: it is how a keeper life presents itself.

A job can ring as its machine's agent, so every number here is finite and within bounds, and every
text of some length: a record that is not so cannot be made, however it was read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from math import isfinite
from typing import Literal

from bastion.bounds import check_count, check_seconds, check_whole, clipped
from bastion.errors import SpecError
from bastion.job import MAX_NAME_CHARACTERS, Claim, End
from bastion.spec.launch import MAX_HOLD_S
from bastion.spec.resources import MAX_TYPE_CHARACTERS, MAX_TYPES, MAX_UNITS
from bastion.value import value
from quota.amounts import Amounts

MAX_TEXT_CHARACTERS = 1_000
"""Of what a host does or lacks, and of what is wrong with devices: some lines; it lies in root."""
MAX_LABELS = 100
"""Of one machine."""
MAX_DEVICES = 1_024
"""Of one type on one machine: the largest there are have 64."""
MAX_REPORTED = 32
"""Numbers of one report: they lie in root while the job is active."""
MAX_REPORTED_CHARACTERS = 64
"""Of the name of such a number."""
MAX_STEPS = 16
"""Of a new machine, from its start to its greeting."""
MAX_STEP_S = 7 * 86400.0
"""Longest step, and longest notice of an interruption."""
MAX_PATH_CHARACTERS = 4_096
"""Of a folder. Source: PATH_MAX of Linux."""


@value
class BootStep:
    """One step of a new machine, as `installed`, and how long it took."""

    name: str
    seconds: float

    def __post_init__(self) -> None:
        check_count("steps: characters", len(self.name), most=MAX_NAME_CHARACTERS)
        check_seconds("steps.seconds", self.seconds, most=MAX_STEP_S)


@value
class Hello:
    """A keeper life began, or a restarted agent found its keeper alive."""

    kind: Literal["hello"] = "hello"
    resources: Amounts
    address: str
    hostname: str
    version: str
    """Of the Bastion it runs."""
    build: str = ""
    """The digest of the wheel that it runs; empty where it was started from a folder."""
    labels: Mapping[str, str] = field(default_factory=dict)
    steps: tuple[BootStep, ...] = ()
    """What was done since the machine started; only in the first greeting after a start."""

    def __post_init__(self) -> None:
        check_count("steps", len(self.steps), most=MAX_STEPS)
        check_count("resources", len(self.resources), most=MAX_TYPES)
        for kind, units in self.resources.items():
            check_count("resources: characters", len(kind), most=MAX_TYPE_CHARACTERS)
            check_whole(f"resources.{kind}", units, most=MAX_UNITS)
        check_count("labels", len(self.labels), most=MAX_LABELS)
        named = (self.address, self.hostname, self.version, self.build)
        for text in (*named, *self.labels, *self.labels.values()):
            check_count("characters of a name", len(text), most=MAX_NAME_CHARACTERS)


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

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", clipped(self.text, MAX_TEXT_CHARACTERS))


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

    def __post_init__(self) -> None:
        check_count("numbers", len(self.numbers), most=MAX_REPORTED)
        for name, number in self.numbers.items():
            check_count("numbers: characters", len(name), most=MAX_REPORTED_CHARACTERS)
            if not isfinite(number):
                raise SpecError(f"numbers.{name}: {number!r} is not finite")


@value
class Idle:
    """This host shows no sign of life, as `text` says, and goes on; empty: it shows one again."""

    kind: Literal["idle"] = "idle"
    of: HostFact
    text: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", clipped(self.text, MAX_TEXT_CHARACTERS))


@value
class Held:
    """This host failed, as `end` says, and is kept to be looked at for `for_s` from now."""

    kind: Literal["held"] = "held"
    of: HostFact
    for_s: float
    folder: str
    end: End

    def __post_init__(self) -> None:
        check_seconds("for_s", self.for_s, most=MAX_HOLD_S)
        check_count("folder: characters", len(self.folder), most=MAX_PATH_CHARACTERS)


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
    """
    What works here changed: devices that must not be used, and why; empty when all is well.

    `unwell` is why the machine as a whole can start nothing: a full disk, no memory.
    """

    kind: Literal["health"] = "health"
    bad_devices: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    text: str = ""
    unwell: str = ""

    def __post_init__(self) -> None:
        check_count("bad_devices", len(self.bad_devices), most=MAX_TYPES)
        for kind, indices in self.bad_devices.items():
            check_count(f"bad_devices.{clipped(kind, 40)}", len(indices), most=MAX_DEVICES)
            for index in indices:
                check_whole("bad_devices", index, most=MAX_DEVICES - 1)
        object.__setattr__(self, "text", clipped(self.text, MAX_TEXT_CHARACTERS))


@value
class Interruption:
    """
    The cloud announced that it takes this machine, as it does with spot machines.

    The hosts that run here have been given their preemption notice with the same deadline.
    """

    kind: Literal["interruption"] = "interruption"
    in_s: float
    """How long from now the machine still runs; of a warning, as good as a guess."""
    is_certain: bool = True
    """False: it is only likely, as a rebalance recommendation says, and hosts here run on."""
    text: str = ""

    def __post_init__(self) -> None:
        check_seconds("in_s", self.in_s, most=MAX_STEP_S)
        object.__setattr__(self, "text", clipped(self.text, MAX_TEXT_CHARACTERS))


@value
class BootFailed:
    """This machine cannot be begun: `step` failed, as `text`, the end of its output, tells."""

    kind: Literal["boot_failed"] = "boot_failed"
    step: str
    text: str

    def __post_init__(self) -> None:
        check_count("step: characters", len(self.step), most=MAX_NAME_CHARACTERS)
        object.__setattr__(self, "text", clipped(self.text, MAX_TEXT_CHARACTERS))


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
    | Interruption
    | BootFailed
    | Heartbeat
)


@value
class Bell:
    """One object in `inbox/_bell/`: facts in the order in which they became true."""

    schema: Literal[1] = 1
    facts: tuple[Fact, ...]
