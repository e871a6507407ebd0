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
"""Missed heartbeats after which a machine is reported as silent."""


class MachinePhase(StrEnum):
    """The phase of a machine."""

    CREATING = "creating"
    READY = "ready"
    SILENT = "silent"
    """Without a heartbeat for too long: it is quarantined, and its devices count as used."""
    DELETING = "deleting"


Terms = Literal["reserved", "on_demand", "spot"]
"""How a machine is bought; the provider can reclaim a spot machine at any time."""


@value
class Pool:
    """
    Machines of one shape from one provider, as `config/bastion.toml` declares them.

    `resources` is what one machine has. `max_machines` limits how many can exist; a `local` pool
    with `count` declares that many machines, which always exist. `tier` indexes the quota's tiers.
    """

    name: str
    provider: str
    resources: Amounts
    max_machines: int
    min_machines: int = 0
    hosts: int = 1
    """Machines per slice; 1 for machines without a slice."""
    tier: int = 0
    zones: tuple[str, ...] = ("",)
    labels: Mapping[str, str] = field(default_factory=dict)
    idle_timeout_s: float = 600.0
    boot_s: float = 120.0
    """How long a new machine usually takes to be ready."""
    price_per_hour: float = 0.0
    """Cost of one machine per hour, in the admin's own currency; 0: unknown."""
    patience_s: float = 900.0
    """How long a provider can keep a request for machines before another zone is tried."""
    keep_work_s: float = 7 * 86400.0
    """How long its machines keep what an attempt left in its working directory."""
    permit_s: float = 0.0
    """
    How long jobs continue while their machine reaches no store; 0: without limit.

    It can be 0 only if the provider can report that a machine is gone. If it cannot, as for a host
    that does not answer, an expired permit proves that nothing runs there any longer.
    """
    machines_per_zone: int = 0
    """Maximum number of machines per zone, for example if each zone is a host; 0: any number."""
    run_as: str = ""
    """The user of its jobs' processes if agents run as root; empty for the agent's user."""
    instance_type: str = ""
    """The provider's name for the shape, such as `a3-highgpu-8g`; empty if it has none."""
    terms: Terms = "on_demand"
    reservation: str = ""
    """The provider's name for capacity that it promised; only with the terms `reserved`."""
    image: str = ""
    """What a new machine boots, in the provider's own words; empty for the provider's default."""
    disk_gib: int = 0
    """Size of a new machine's disk; 0 for the provider's default."""
    network: str = ""
    tags: tuple[str, ...] = ()
    identity: str = ""
    """The account that its machines act as: a service account or an instance profile."""
    setup: tuple[str, ...] = ()
    """Shell commands that a new machine runs as root, in order, before it takes jobs."""
    watches_devices: bool = False
    """Whether its machines compare their accelerators with `resources` and watch their health."""
    burn: str = ""
    """A command that puts load on a new machine's devices, and fails if one cannot withstand it."""
    respects_foreign: bool = False
    """Whether devices that are in use by other users' processes get no jobs."""
    orphan_timeout_s: float = 3600.0
    """How long a cloud machine lives without instructions and without its bucket."""
    idle_warning_s: float = 0.0
    """How long a job can leave its devices on a machine idle before a warning; 0: without limit."""
    stops_idle: bool = False
    """Whether such a job is then stopped and has failed."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Settings for its provider."""

    def free_zones(self, taken: Iterable[str]) -> tuple[str, ...]:
        """Return the zones that have room for one more machine besides those in zones `taken`."""
        most = self.machines_per_zone
        count = Counter(taken) if most else Counter[str]()
        return tuple(zone for zone in self.zones if not most or count[zone] < most)


@value
class Warm:
    """An admin's wish to keep some machines of a pool even though they are idle."""

    machines: int
    until: float
    """End of the wish, in the store's seconds."""
    by: str


@value
class Batch:
    """Instructions for one machine that one commit allocated; `number` names the object."""

    number: int
    life: int
    instructions: tuple[Instruction, ...] = ()
    """Can be empty: then the batch only fills its number, so that agents find no gap."""


@value
class Machine:
    """One host."""

    name: str
    pool: str
    phase: MachinePhase = MachinePhase.CREATING
    resources: Amounts = NOTHING
    """Its capacity, as its agent declared it; until then its pool's."""
    slice: str = ""
    batch: str = ""
    """Shared by machines that are created together, all or none; empty for a single machine."""
    hosts: int = 1
    """Machines of its slice; 1 for a machine without a slice."""
    tier: int = 0
    zone: str = ""
    created_at: float = 0.0
    """When the commit allocated it."""
    made_at: float | None = None
    """When a list first showed that it exists, or that its boot starts; None before."""
    unlisted_until: float = 0.0
    """Until then lists may miss it, because its create may have been carried out shortly before."""
    account: str = ""
    """The account or project in which a listing showed it; empty if its provider has none."""
    waits: str = ""
    """
    Why its provider keeps the request for it or, once it is created, what must still be done before
    it boots. In the provider's words; empty if it waits for nothing.
    """
    stuck: str = ""
    """Why its agent, which has never started, does not start; empty if unknown."""
    life: int = 0
    """The keeper life that registered last; 0 before the first."""
    address: str = ""
    hostname: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    cordoned: str = ""
    """Why no new job can start here, or empty."""
    draining: bool = False
    """Whether to report when the last job here has ended."""
    drain_by: float | None = None
    """When the jobs that are still running here are preempted; None: they run to their end."""
    drained_at: float | None = None
    """When a drained machine became empty."""
    bad_devices: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    bad_text: str = ""
    """Why those must not be used."""
    unwell: str = ""
    """What is wrong with the whole machine, so that no job starts here; empty if nothing is."""
    unwell_until: float | None = None
    """When a start is tried again; None: when its agent reports that the machine is well."""
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
    """When its agent was last told to switch to another build."""
    heard_at: float = 0.0
    heartbeat_s: float = 0.0
    """Its agent rings at least this often; 0: only when there is news."""
    permit_s: float = 0.0
    """Its pool's permit; 0: its provider reports when it is gone."""
    missing: int = 0
    """How many consecutive listings did not show it."""
    idle_since: float | None = None

    @property
    def is_queued(self) -> bool:
        """Whether its provider keeps the request for it, so that nothing exists yet."""
        return bool(self.waits) and self.made_at is None

    def is_overdue(self, now: float) -> bool:
        """Whether its agent has not rung for `MISSED_BEATS` times its heartbeat interval."""
        silent_s = now - self.heard_at
        return bool(self.life and self.heartbeat_s) and silent_s > MISSED_BEATS * self.heartbeat_s

    @property
    def accepts(self) -> bool:
        """Whether a new job can be placed here."""
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
    """Number of hosts of each replica."""
    barrier: bool = False
    """Wait for `go` after the claim."""
    tier: int = 0
    grace_s: float = 30.0
    ulid: str = ""
    replicas_here: int = 0
    """How many hosts of this attempt are on this machine before this one."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """The sources of the secrets that are granted to its job, by name."""
    task: int | None = None
    """Index of the task if `launch` is an array."""
    max_runtime_s: float | None = None
    """Replaces the limit of its spec; None: the spec's limit holds."""
    hold_s: float = 0.0
    """How long it is held for inspection if it fails; 0: not at all."""
    idle_warning_s: float = 0.0
    """How long its devices can be idle before a warning; 0: without limit."""
    stops_idle: bool = False
    """Whether it is then stopped and has failed."""


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
    """Let one host of an attempt run for `max_runtime_s` from its start."""

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
    """Flush this job's logs immediately for the next `for_s` seconds: a user follows them."""

    kind: Literal["follow"] = "follow"
    project: str
    job: str
    for_s: float = 60.0


@value
class Exec:
    """Run a command next to the processes of one host of an attempt, as one of them would."""

    kind: Literal["exec"] = "exec"
    id: str
    """Id of the request: it names the command's output, and no other command has it."""
    project: str
    job: str
    attempt: int
    nonce: str
    replica: int
    host: int
    process: int
    """Index of the process whose variables, folder and container the command gets."""
    argv: tuple[str, ...] = ()
    argv_digest: str = ""
    """Key of the object with the arguments if they are too long for root; else empty."""
    max_runtime_s: float


@value
class Check:
    """Inspect this machine and report what it has, or put a short load on its devices."""

    kind: Literal["check"] = "check"
    id: str
    """Id of the request: it names the outcome, and no other check has it."""
    by: Literal["hello", "burn"]
    until: float
    """In the store's seconds; nothing starts later."""
    command: str = ""
    """The pool's own load command; empty: this program's."""
    max_s: float = 60.0


@value
class Build:
    """A build of Bastion: its wheel in the bucket, and the wheel's sha256."""

    wheel: str
    digest: str


@value
class Upgrade:
    """Run the agent of another build once nothing runs here; a new keeper life then starts."""

    kind: Literal["upgrade"] = "upgrade"
    build: Build


@value
class Leave:
    """Start no new job, finish the running ones, and exit."""

    kind: Literal["leave"] = "leave"


Instruction = Start | StopHost | SetLimit | Follow | Exec | Check | Upgrade | Leave
