"""
The records of machines and pools, and the instructions to machines.

A machine is one host. A slice is a set of machines that are created and deleted together. A machine
never leaves `DELETING`. A commit allocates each name, and it is used for exactly one create.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Literal

from bastion.value import field, value
from quota.amounts import NOTHING, Amounts

MISSED_BEATS = 4.0
"""Heartbeats that fail to come before a machine is told to be silent."""


class MachinePhase(StrEnum):
    """The phase of a machine."""

    CREATING = "creating"
    READY = "ready"
    SILENT = "silent"
    """Without a heartbeat for too long: it is quarantined, and its devices count as used."""
    DELETING = "deleting"


Terms = Literal["reserved", "on_demand", "spot"]
"""How a machine is bought; a spot machine may be taken back at any time."""


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
    """Machines of one slice; 1 for machines without a slice."""
    tier: int = 0
    zones: tuple[str, ...] = ("",)
    labels: Mapping[str, str] = field(default_factory=dict)
    idle_timeout_s: float = 600.0
    boot_s: float = 120.0
    """How long a new machine usually takes to be ready."""
    price_per_hour: float = 0.0
    """What one machine costs an hour, in the admin's own currency; 0: not known."""
    patience_s: float = 900.0
    """How long a provider may keep a request for machines before another zone is tried."""
    keep_work_s: float = 7 * 86400.0
    """How long its machines keep what an attempt left in its working directory."""
    permit_s: float = 0.0
    """
    How long jobs run on while their machine reaches no store; 0: for ever.

    Only where the provider can say that a machine is gone. Where it cannot, as of a host that does
    not answer, this is what proves after a time that nothing runs there any more.
    """
    machines_per_zone: int = 0
    """Most machines in one zone, as where each zone is a host; 0: any number."""
    run_as: str = ""
    """The user of its jobs' processes, where agents run as root; empty for the agent's user."""
    instance_type: str = ""
    """What the provider calls the shape, such as `a3-highgpu-8g`; empty where it has no name."""
    terms: Terms = "on_demand"
    reservation: str = ""
    """Capacity that the provider promised, by its name there; only with the terms `reserved`."""
    image: str = ""
    """What a new machine boots, in the provider's own words; empty for the provider's default."""
    disk_gib: int = 0
    """Size of a new machine's disk; 0 for the provider's default."""
    network: str = ""
    tags: tuple[str, ...] = ()
    identity: str = ""
    """The account that its machines act as: a service account, an instance profile."""
    setup: tuple[str, ...] = ()
    """Shell commands that a new machine runs as root, in order, before it takes jobs."""
    watches_devices: bool = False
    """Whether its machines compare their accelerators with `resources`, and watch their health."""
    burn: str = ""
    """A command that puts load on a new machine's devices, and fails where one does not bear it."""
    respects_foreign: bool = False
    """Whether devices that processes of others hold get no job."""
    orphan_timeout_s: float = 3600.0
    """How long a machine of a cloud lives without instructions and without its bucket."""
    idle_warning_s: float = 0.0
    """How long a job may leave its devices on a machine idle before that is told; 0: for ever."""
    stops_idle: bool = False
    """Whether such a job is stopped then, and has failed."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Settings for its provider."""

    def free_zones(self, taken: Iterable[str]) -> tuple[str, ...]:
        """Return the zones in which one machine more may be made, beside those in zones `taken`."""
        most = self.machines_per_zone
        count = Counter(taken) if most else Counter[str]()
        return tuple(zone for zone in self.zones if not most or count[zone] < most)


@value
class Warm:
    """A wish of an admin: some machines of a pool are kept although they are idle."""

    machines: int
    until: float
    """In the store's seconds."""
    by: str


@value
class Batch:
    """Instructions for one machine that one commit allocated; `number` names the object."""

    number: int
    life: int
    instructions: tuple[Instruction, ...] = ()
    """May be empty: then the batch only fills its number, so that agents find no gap."""


@value
class Machine:
    """One host."""

    name: str
    pool: str
    phase: MachinePhase = MachinePhase.CREATING
    resources: Amounts = NOTHING
    """Its capacity, as its agent declared it; until then the pool's."""
    slice: str = ""
    batch: str = ""
    """The machines that are made together, all or none, share it; empty for a machine alone."""
    hosts: int = 1
    """Machines of its slice; 1 for a machine without a slice."""
    tier: int = 0
    zone: str = ""
    created_at: float = 0.0
    """When the commit allocated it."""
    made_at: float | None = None
    """When a list first showed that it exists; None before."""
    account: str = ""
    """The account or project that a list showed it in; empty where its provider has none."""
    waits: str = ""
    """Why its provider keeps the request for it, in the provider's words; empty if it does not."""
    stuck: str = ""
    """Why its agent, which has never begun, does not begin; empty where that is not known."""
    life: int = 0
    """The keeper life that registered last; 0 before the first."""
    address: str = ""
    hostname: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    cordoned: str = ""
    """Why no new job may start here, or empty."""
    draining: bool = False
    """Whether it is told when the last job here has ended."""
    drain_by: float | None = None
    """When the jobs that still run here are preempted; None: they run to their end."""
    drained_at: float | None = None
    """When nothing ran here any more, of a machine that is drained."""
    bad_devices: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    bad_text: str = ""
    """Why those must not be used."""
    unwell: str = ""
    """What is wrong with the whole machine, so that no job starts here; empty if nothing is."""
    unwell_until: float | None = None
    """When a start is tried again; None: when its agent reports that it is well."""
    failed_starts: int = 0
    """How many hosts in a row it could not start."""
    batches: int = 0
    """How many batches of instructions were allocated to this life."""
    outgoing: tuple[Batch, ...] = ()
    """Batches not yet known to be written."""
    last_bell: int = -1
    """The newest bell of this life that was applied."""
    build: str = ""
    """The digest of the wheel that its agent runs; empty if it was started from a folder."""
    upgrade_asked_at: float | None = None
    """When its agent was last told to become one of another build."""
    heard_at: float = 0.0
    heartbeat_s: float = 0.0
    """Its agent rings at least so often; 0: only when there is news."""
    permit_s: float = 0.0
    """Its pool's; 0: its provider says when it is gone."""
    missing: int = 0
    """How many listings in a row lacked it."""
    idle_since: float | None = None

    def is_overdue(self, now: float) -> bool:
        """Whether its agent has not rung for `MISSED_BEATS` times as long as it rings."""
        silent_s = now - self.heard_at
        return bool(self.life and self.heartbeat_s) and silent_s > MISSED_BEATS * self.heartbeat_s

    @property
    def accepts(self) -> bool:
        """Whether a new job may be placed here."""
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
    """How many replicas of this attempt are on this machine before this one."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """The sources of the secrets that are granted to its job, by name."""
    task: int | None = None
    """Index of the task, if `launch` is an array."""
    max_runtime_s: float | None = None
    """Replaces the limit of its spec; None: the spec's limit holds."""
    hold_s: float = 0.0
    """How long it is held for inspection if it fails; 0: not at all."""
    idle_warning_s: float = 0.0
    """How long its devices may be idle before that is told; 0: for ever."""
    stops_idle: bool = False
    """Whether it is stopped then, and has failed."""


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
    """A user follows this job's logs: flush them at once for the next `for_s` seconds."""

    kind: Literal["follow"] = "follow"
    project: str
    job: str
    for_s: float = 60.0


@value
class Exec:
    """Run a command beside the processes of one host of an attempt, as one of them would run."""

    kind: Literal["exec"] = "exec"
    id: str
    """Of the request: it names the command's output, and no other command has it."""
    project: str
    job: str
    attempt: int
    nonce: str
    replica: int
    host: int
    process: int
    """Index of the process whose variables, folder and container it gets."""
    argv: tuple[str, ...] = ()
    argv_digest: str = ""
    """Of the object that holds the arguments, where they are too long for root; else empty."""
    max_runtime_s: float


@value
class Check:
    """Look at this machine and say what there is, or put a short load on its devices."""

    kind: Literal["check"] = "check"
    id: str
    """Of the request: it names the outcome, and no other check has it."""
    by: Literal["hello", "burn"]
    until: float
    """In the store's seconds; nothing is begun later."""
    command: str = ""
    """The pool's own load; empty: that of this program."""
    max_s: float = 60.0


@value
class Build:
    """A build of Bastion: its wheel in the bucket, and the sha256 of that."""

    wheel: str
    digest: str


@value
class Upgrade:
    """Run the agent of another build, once nothing runs here; a new keeper life begins then."""

    kind: Literal["upgrade"] = "upgrade"
    build: Build


@value
class Leave:
    """Start no new job, finish the running ones, and exit."""

    kind: Literal["leave"] = "leave"


Instruction = Start | StopHost | SetLimit | Follow | Exec | Check | Upgrade | Leave
