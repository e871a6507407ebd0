"""
Machines and the pools they belong to: what is true of them now.

A machine is one host. A slice is a set of machines made and deleted together. `DELETING` never
goes back. Names are allocated by a commit and used for exactly one create.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Literal

from bastion.value import value
from quota.amounts import NOTHING, Amounts


class MachinePhase(StrEnum):
    """Where a machine is."""

    CREATING = "creating"
    READY = "ready"
    SILENT = "silent"
    """Not heard of for too long: quarantined, its devices count as used."""
    DELETING = "deleting"


@value
class Pool:
    """
    Machines of one shape from one provider, as `config/bastion.toml` declares them.

    `resources` is what one machine has. `max_machines` bounds how many may exist; a `local` pool
    with `count` declares that many machines that always exist. `tier` indexes the quota's tiers.
    """

    name: str
    provider: str
    resources: Amounts
    max_machines: int
    min_machines: int = 0
    hosts: int = 1
    """Machines of one slice; 1 when machines stand alone."""
    tier: int = 0
    zones: tuple[str, ...] = ("",)
    labels: Mapping[str, str] = field(default_factory=dict)
    idle_timeout_s: float = 600.0
    boot_s: float = 120.0
    """How long a new machine usually takes to be ready; only estimates use it."""
    keep_work_s: float = 7 * 86400.0
    """How long its machines keep what an attempt left in its working directory."""
    run_as: str = ""
    """The user that jobs run as on its machines, whose agents are root's; empty: the agent's."""
    options: Mapping[str, str] = field(default_factory=dict)
    """What only its provider understands."""


@value
class Batch:
    """Instructions for one machine that one commit allocated; `number` names the object."""

    number: int
    life: int
    instructions: tuple[Instruction, ...] = ()
    """Empty for a number that was overtaken: it is written all the same."""


@value
class Machine:
    """One host."""

    name: str
    pool: str
    phase: MachinePhase = MachinePhase.CREATING
    resources: Amounts = NOTHING
    """What it has, as its agent declared; what the pool says until then."""
    slice: str = ""
    tier: int = 0
    zone: str = ""
    created_at: float = 0.0
    life: int = 0
    """The keeper life that greeted last; 0 before the first."""
    address: str = ""
    hostname: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    cordoned: str = ""
    """Why nothing new may start here, or empty."""
    draining: bool = False
    bad_devices: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    unwell: str = ""
    """What is wrong with it as a whole, so that it starts nothing now; empty: nothing."""
    unwell_until: float | None = None
    """When a start is tried again; None: when its agent says that it is well."""
    failed_starts: int = 0
    """How many hosts in a row it could not start."""
    batches: int = 0
    """How many batches of instructions were allocated to this life."""
    outgoing: tuple[Batch, ...] = ()
    """Batches not yet known to be written."""
    last_bell: int = -1
    """The newest bell of this life that was applied."""
    heard_at: float = 0.0
    missing: int = 0
    """How many listings in a row did not show it."""
    idle_since: float | None = None

    @property
    def accepts(self) -> bool:
        """Whether something new may be placed here."""
        return (
            self.phase in (MachinePhase.CREATING, MachinePhase.READY)
            and not self.cordoned
            and not self.draining
            and not self.unwell
        )


@value
class Start:
    """Start one host of an attempt, once its claim is won."""

    kind: Literal["start"] = "start"
    project: str
    job: str
    launch: str
    index: int
    attempt: int
    nonce: str
    replica: int
    host: int
    devices: Mapping[str, tuple[int, ...]]
    replicas: int = 1
    hosts: int = 1
    """Hosts of each replica."""
    barrier: bool = False
    """Wait for `go` after the claim."""
    tier: int = 0
    grace_s: float = 30.0
    ulid: str = ""
    replicas_here: int = 0
    """How many replicas of this attempt stand on this machine before this one."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Where the secrets lie that its job may have, by name."""
    task: int | None = None
    """Which task of the array that `launch` is."""
    max_runtime_s: float | None = None
    """In place of what its spec says; None: as that says."""
    hold_s: float = 0.0
    """How long it is kept to be looked at if it fails; 0: not at all."""


@value
class StopHost:
    """Stop one host of an attempt: notice and TERM, then KILL after `grace_s`."""

    kind: Literal["stop"] = "stop"
    project: str
    job: str
    attempt: int
    nonce: str
    replica: int
    host: int
    reason: str
    by: str = ""
    grace_s: float = 30.0


@value
class SetLimit:
    """One host of an attempt may run `max_runtime_s` from its start."""

    kind: Literal["limit"] = "limit"
    project: str
    job: str
    attempt: int
    nonce: str
    replica: int
    host: int
    max_runtime_s: float


@value
class Follow:
    """Someone follows this job's logs: flush them at once for the next `for_s` seconds."""

    kind: Literal["follow"] = "follow"
    project: str
    job: str
    for_s: float = 60.0


@value
class Leave:
    """Take nothing new, finish what runs, exit."""

    kind: Literal["leave"] = "leave"


Instruction = Start | StopHost | SetLimit | Follow | Leave
