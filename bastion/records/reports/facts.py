"""
Facts that agents report to the bastion, batched in bells.

An agent writes the register first and rings the bell afterwards. So a bell is only a faster way to
learn what a register says, and the leader's sweep of registers finds what a lost bell would have
reported. `Hello` is the exception: it announces a keeper life.

A job can ring as its machine's agent. So every number here is finite and bounded, and every text
has a maximum length: a record beyond these bounds cannot be created.
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
"""Maximum per text about a host or its devices: a few lines. Root holds it."""
MAX_LABELS = 100
"""Maximum number of labels of a machine."""
MAX_DEVICES = 1_024
"""Maximum devices per type and machine: the largest machines have 64."""
MAX_REPORTED = 32
"""Maximum numbers per report: root holds them while the job is active."""
MAX_REPORTED_CHARACTERS = 64
"""Maximum length of a reported number's name."""
MAX_STEPS = 16
"""Maximum boot steps of a new machine, from its start to its first hello."""
MAX_STEP_S = 7 * 86400.0
"""Longest step, and longest notice of an interruption."""
MAX_PATH_CHARACTERS = 4_096
"""Maximum length of a folder's path. Source: PATH_MAX of Linux."""


@value
class BootStep:
    """One boot step of a new machine, for example `installed`, and its duration."""

    name: str
    seconds: float

    def __post_init__(self) -> None:
        check_count("steps: characters", len(self.name), most=MAX_NAME_CHARACTERS)
        check_seconds("steps.seconds", self.seconds, most=MAX_STEP_S)


@value
class Hello:
    """A keeper life started, or a restarted agent found its keeper alive."""

    kind: Literal["hello"] = "hello"
    resources: Amounts
    address: str
    hostname: str
    version: str
    """The version of Bastion that it runs."""
    build: str = ""
    """The digest of the wheel that it runs; empty if it was started from a folder."""
    labels: Mapping[str, str] = field(default_factory=dict)
    heartbeat_s: float = 0.0
    """It rings at least this often; 0: only when there is news."""
    steps: tuple[BootStep, ...] = ()
    """Steps since the machine started; only in the first hello after a start."""

    def __post_init__(self) -> None:
        check_count("steps", len(self.steps), most=MAX_STEPS)
        check_count("resources", len(self.resources), most=MAX_TYPES)
        for kind, units in self.resources.items():
            check_count("resources: characters", len(kind), most=MAX_TYPE_CHARACTERS)
            check_whole(f"resources.{kind}", units, most=MAX_UNITS)
        check_count("labels", len(self.labels), most=MAX_LABELS)
        named = (self.address, self.hostname, self.version, self.build)
        check_seconds("heartbeat_s", self.heartbeat_s, most=MAX_STEP_S)
        for text in (*named, *self.labels, *self.labels.values()):
            check_count("characters of a name", len(text), most=MAX_NAME_CHARACTERS)


@value
class HostFact:
    """The host and attempt that a fact is about."""

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
    """What this host is doing before its processes start, and its progress."""

    kind: Literal["preparing"] = "preparing"
    of: HostFact
    text: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", clipped(self.text, MAX_TEXT_CHARACTERS))


@value
class Started:
    """The processes of this host are running."""

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
    """This host shows no sign of life, as `text` says, and continues; empty: it shows one again."""

    kind: Literal["idle"] = "idle"
    of: HostFact
    text: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", clipped(self.text, MAX_TEXT_CHARACTERS))


@value
class Unkept:
    """The output of this host was not kept, as `text` says; empty: its current output is kept."""

    kind: Literal["unkept"] = "unkept"
    of: HostFact
    text: str = ""
    is_log: bool = False
    """Whether it is about its log, which is not completely in the bucket."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", clipped(self.text, MAX_TEXT_CHARACTERS))


@value
class Held:
    """This host failed with `end`, and is kept for inspection for `for_s` from now."""

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
    """The `end` register of this host is written."""

    kind: Literal["ended"] = "ended"
    of: HostFact
    end: End


@value
class Drained:
    """All log bytes up to the sizes in `end` are in the bucket."""

    kind: Literal["drained"] = "drained"
    of: HostFact


@value
class Health:
    """
    The health of this machine changed: the devices that must not be used, and why.

    `unwell` says why the whole machine can start nothing: a full disk, no memory. Both are empty on
    a healthy machine.
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
    The cloud announced that it will reclaim this machine, as it does with spot machines.

    The hosts that are running here have got their preemption notice with the same deadline.
    """

    kind: Literal["interruption"] = "interruption"
    in_s: float
    """Seconds from now until the machine stops; an estimate if the notice is not certain."""
    is_certain: bool = True
    """False: a reclaim is only likely, as in a rebalance recommendation; hosts continue."""
    text: str = ""

    def __post_init__(self) -> None:
        check_seconds("in_s", self.in_s, most=MAX_STEP_S)
        object.__setattr__(self, "text", clipped(self.text, MAX_TEXT_CHARACTERS))


def reclaimed_by(machine: str) -> str:
    """Return the cause of the stop on `machine`, the same from the bastion and the agent."""
    return f"the provider, which takes back machine {machine}"


@value
class Checked:
    """The check that an admin asked for is over; its outcome is in the bucket."""

    kind: Literal["checked"] = "checked"
    id: str
    by: Literal["hello", "burn"]
    problem: str = ""
    """What is wrong with the machine; empty if nothing is."""
    undone: str = ""
    """Why nothing was checked."""

    def __post_init__(self) -> None:
        check_count("id: characters", len(self.id), most=MAX_NAME_CHARACTERS)
        object.__setattr__(self, "problem", clipped(self.problem, MAX_TEXT_CHARACTERS))
        object.__setattr__(self, "undone", clipped(self.undone, MAX_TEXT_CHARACTERS))


@value
class BootFailed:
    """This machine failed to boot at `step`; `text` is the end of the step's output."""

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
    | Unkept
    | Held
    | Ended
    | Drained
    | Health
    | Interruption
    | BootFailed
    | Checked
    | Heartbeat
)


@value
class Bell:
    """One object in `inbox/_bell/`: facts in the order in which they became true."""

    schema: Literal[1] = 1
    facts: tuple[Fact, ...]
