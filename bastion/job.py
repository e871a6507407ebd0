"""
The record of a job, which root holds while the job is active.

A record changes only in `bastion.lifecycle.step`. Times are seconds of the store's clock. A field
at its default is not stored, so a queued job takes a few hundred bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Literal

from bastion.bounds import (
    LATEST_S,
    MOST_NUMBER,
    check_count,
    check_whole,
    clipped,
    within,
)
from bastion.endings import OutcomeKind as OutcomeKind
from bastion.endings import StopReason as StopReason
from bastion.errors import SpecError
from bastion.spec.after import When
from bastion.spec.launch import MAX_PROCESSES
from bastion.spec.notify import Notify
from bastion.spec.request import Request
from bastion.spec.secret import Secret
from bastion.utilisation import Utilisation, merged
from bastion.value import field, value


class Phase(StrEnum):
    """The phase of a job; the table in `bastion.lifecycle.step` lists the moves between phases."""

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    DRAINING = "draining"
    DONE = "done"


ADMITTED = frozenset({Phase.STARTING, Phase.RUNNING, Phase.STOPPING})
"""The phases in which a job holds devices."""


class JobClass(StrEnum):
    """Whether an admitted gang uses its project's own share or a borrowed one."""

    GUARANTEED = "guaranteed"
    BORROWED = "borrowed"


_LOSSES = (StopReason.HOST_LOST, StopReason.LOST_CONTACT, StopReason.END_MISSING)


FAILURES = frozenset({OutcomeKind.FAILED, OutcomeKind.OUT_OF_MEMORY, OutcomeKind.SETUP_FAILED})
"""The outcomes that `retries` counts."""


@value
class Outcome:
    """How a job or an attempt ended: its kind, a sentence, and the details."""

    kind: OutcomeKind
    text: str
    code: int | None = None
    """Exit code of the process that decided the outcome; negative for a signal."""
    replica: int | None = None
    dropped_bytes: int = 0
    """Bytes that its processes wrote but that are in no log."""


@value
class HostPlace:
    """One host of one replica: its machine, and the indices of the devices it can use, by type."""

    machine: str
    devices: Mapping[str, tuple[int, ...]]


@value
class ReplicaPlace:
    """The placement of one replica: one host, or all hosts of a slice, in one tier."""

    hosts: tuple[HostPlace, ...]
    tier: int = 0


Placement = tuple[ReplicaPlace, ...]
"""By replica index."""


@value
class Claim:
    """The record of the agent that won the right to start one host of an attempt."""

    machine: str
    life: int
    address: str = ""
    port: int = 0

    def __post_init__(self) -> None:
        check_count("machine: characters", len(self.machine), most=MAX_NAME_CHARACTERS)
        check_count("address: characters", len(self.address), most=MAX_NAME_CHARACTERS)
        check_whole("life", self.life)
        check_whole("port", self.port, most=65535)


MAX_NAME_CHARACTERS = 255
"""Limit of a machine's name or address. Source: RFC 1035, section 2.3.4."""
_CODES = 1 << 31
"""Exit codes and signals have 32 bits."""
MAX_RAN_S = 100 * 365 * 86400.0
"""Longer than any machine lives."""
MAX_DETAIL_CHARACTERS = 4096
"""Limit of the last lines in an end, which is in root while its job is active."""


@value
class End:
    """
    How one host of an attempt ended: its processes are dead and its devices are free.

    `exited`: the processes ran; `codes` are theirs, negative for signals. `setup_failed`: none ran,
    and `detail` says why. `lost`: no process of it is left, but how it ended is unknown. `revoked`:
    it never started, or its machine is permanently gone.
    """

    kind: Literal["exited", "setup_failed", "lost", "revoked"]
    codes: tuple[int, ...] = ()
    first_failed: int | None = None
    """Index of the process that failed first on its own, before any notice."""
    notice: str = ""
    """Reason of the notice delivered before the processes exited (a StopReason), or empty."""
    finished: bool = False
    """A process wrote the *finished* mark: its work is complete, even if its exit code is not 0."""
    checkpointed: bool = False
    out_of_memory: bool = False
    sizes: tuple[int, ...] = ()
    """Log bytes of each process."""
    ran_s: float = 0.0
    detail: str = ""
    """Last lines of the process that failed first, or the output of the set-up that failed."""
    on_end: str = ""
    """What failed in its clean-up, or empty."""
    by_machine: bool = False
    """Its machine could start neither it nor any other job: a full disk, no memory."""
    dropped_bytes: int = 0
    """Bytes that are in no log because the disk was full or a log reached its limit."""
    utilisation: Utilisation | None = None
    """Its use of the machine; None: it was too short, or nothing was sampled."""

    def __post_init__(self) -> None:
        if self.first_failed is not None and not 0 <= self.first_failed < len(self.codes):
            n = len(self.codes)
            raise SpecError(
                f"first_failed: {self.first_failed} is not a process; there are {n} codes"
            )
        check_count("codes", len(self.codes), most=MAX_PROCESSES)
        check_count("sizes", len(self.sizes), most=MAX_PROCESSES)
        for code in self.codes:
            check_whole("codes", code, least=-_CODES, most=_CODES)
        for size in self.sizes:
            check_whole("sizes", size, most=MOST_NUMBER)
        check_whole("dropped_bytes", self.dropped_bytes)
        object.__setattr__(self, "ran_s", within(self.ran_s, most=MAX_RAN_S))
        object.__setattr__(self, "notice", clipped(self.notice, MAX_NAME_CHARACTERS))
        object.__setattr__(self, "on_end", clipped(self.on_end, MAX_DETAIL_CHARACTERS))
        object.__setattr__(self, "detail", self.detail[-MAX_DETAIL_CHARACTERS:])


@value
class Hold:
    """A failed host that is held for inspection: its processes are dead, its devices in use."""

    until: float
    """When its agent ends it, in the store's time, set when the bastion learned of the hold."""
    folder: str
    """The working directory of its processes, on its machine."""
    end: End
    """The end that its agent will then write."""
    released_by: str = ""
    """The user who released it, or empty."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "until", within(self.until, most=LATEST_S))


@value
class HostState:
    """The state of one host of an attempt, as the bastion knows it."""

    instructed: int = 0
    """The keeper life of its last start instruction; 0 for none."""
    stop_instructed: int = 0
    """The keeper life of its last stop instruction; 0 for none."""
    claim: Claim | None = None
    preparing: str = ""
    """The last reported step of its set-up; empty while that is quick."""
    end: End | None = None
    drained: bool = False
    idle: str = ""
    """The sign of life that is missing, and for how long; empty while it shows one."""
    unkept: str = ""
    """Why the last attempt to keep its output failed; empty if it succeeded."""
    unsent: str = ""
    """Why its log was not sent at the last try; empty if unknown."""
    hold: Hold | None = None
    limit_s: float | None = None
    """The revised `max_runtime` of its last instruction; None while the spec's limit holds."""
    ended_at: float | None = None
    """When its end was applied, which freed its devices."""
    borrowed_s: float = 0.0
    """How long its attempt had been in the class `borrowed` by then."""
    over_at: float | None = None
    """When its machine reported that it is over although its end was not in the bucket."""


def initial_hosts(placement: Placement) -> tuple[tuple[HostState, ...], ...]:
    """Return the hosts of `placement` before any start instruction is allocated."""
    return tuple((UNTOUCHED,) * len(replica.hosts) for replica in placement)


UNTOUCHED = HostState()
"""A host that no agent can have heard of."""


@value
class Stop:
    """A committed stop: from here on, the attempt can only end."""

    reason: StopReason
    at: float
    deadline: float
    """When its processes are killed: the end of the grace period."""
    by: str = ""
    """The name of what caused it: a user, a job, a replica."""


@value
class Attempt:
    """The k-th start of a job."""

    number: int
    nonce: str
    admitted_at: float
    placement: Placement
    job_class: JobClass = JobClass.GUARANTEED
    go: Literal["unneeded", "awaited", "wanted", "given", "revoked"] = "unneeded"
    """The start barrier; `unneeded` if there is only one host."""
    started_at: float | None = None
    checkpoint_at: float | None = None
    hosts: tuple[tuple[HostState, ...], ...]
    """Replica by replica, host by host, as in `placement`."""
    stop: Stop | None = None
    first_failure: tuple[int, int] | None = None
    """Replica and host of the first failure that was seen."""
    borrowed_s: float = 0.0
    """How long it was in the class `borrowed`, up to `classed_at`."""
    classed_at: float | None = None
    """When its class last changed; None: never."""

    def borrowed_until(self, now: float) -> float:
        """Return for how many seconds up to `now` it was in the class `borrowed`."""
        if self.job_class is not JobClass.BORROWED:
            return self.borrowed_s
        since = self.admitted_at if self.classed_at is None else self.classed_at
        return self.borrowed_s + max(0.0, now - since)

    @property
    def utilisation(self) -> Utilisation | None:
        """The combined use of its ended hosts; None: nothing was sampled."""
        ends = (host.end for replica in self.hosts for host in replica if host.end is not None)
        return merged(end.utilisation for end in ends if end.utilisation is not None)

    @property
    def alive(self) -> Placement:
        """The replicas that have not ended on every host."""
        pairs = zip(self.placement, self.hosts)
        return tuple(place for place, hosts in pairs if not all(host.end for host in hosts))

    def each_host(self) -> Iterator[tuple[int, int, HostPlace, HostState]]:
        """Yield (replica, host, place, state) of every host, in order."""
        for r, replica in enumerate(self.placement):
            for h, place in enumerate(replica.hosts):
                yield r, h, place, self.hosts[r][h]


MAX_PAST = 50
"""Maximum number of past attempts in a record; older ones are in the events and the logs."""


@value
class PastAttempt:
    """The record of an ended attempt."""

    number: int
    nonce: str
    admitted_at: float
    started_at: float | None
    ended_at: float
    kind: OutcomeKind
    code: int | None = None
    machines: tuple[tuple[str, ...], ...] = ()
    """Replica by replica, host by host."""
    failed_on: str = ""
    """The machine of the host that failed first; empty if none failed on its own."""
    utilisation: Utilisation | None = None
    """The combined use of all its hosts; None: nothing was sampled."""


@value
class Dependency:
    """A condition for a job to join the queue: what must end, and how. It is removed when met."""

    on: str
    """Id of a job, or of a launch to mean all of its jobs."""
    when: When = "ok"
    failed: str = ""
    """The first job of a launch that did not succeed, while other jobs of it have not ended."""


@value
class JobRecord:
    """One active job."""

    id: str
    project: str
    user: str
    launch: str
    index: int = 0
    """Index of the job in its launch."""
    task: int | None = None
    """Index of the task if its launch is an array."""
    ulid: str
    """The ULID of its launch request."""
    submitted_at: float
    request: Request
    name: str = ""
    gang: tuple[str, ...] = ()
    """Ids of all jobs of its launch if several are admitted together."""
    stops_others: bool = False
    first_decides: bool = False
    """Whether it has succeeded once its first replica has."""
    launch_scope: bool = False
    retries: int = 0
    retry_backoff_s: float = 30.0
    resume: bool = True
    """Whether it is requeued after a preemption or the loss of its machine."""
    hold_on_failure_s: float = 0.0
    revised_limit_s: float | None = None
    """The `max_runtime` set by a user or the quota file in place of the spec's, or None."""
    fail_when_busy: bool = False
    phase: Phase = Phase.QUEUED
    queued_at: float = 0.0
    """
    When it last joined the queue: its submission, requeue or release, or the end of the last job
    that it waited for.
    """
    after: tuple[Dependency, ...] = ()
    """The conditions that are not met yet; it joins the queue when none is left."""
    notify: tuple[Notify, ...] = ()
    """The webhooks that get its notifications."""
    held: str = ""
    """The user who holds it, or empty."""
    secrets: tuple[Secret, ...] = ()
    """The secrets that it asks for; every start checks whether they are granted."""
    cancelled_by: str = ""
    attempts: int = 0
    """How many attempts have been admitted so far."""
    attempt: Attempt | None = None
    failures: int = 0
    preemptions: int = 0
    preempted_at: float | None = None
    losses_in_row: int = 0
    unstarted_in_row: int = 0
    """Consecutive attempts that their machines could not start."""
    not_before: float = 0.0
    """The end of its backoff after a failure or a loss."""
    past: tuple[PastAttempt, ...] = ()
    """Its ended attempts, oldest first; the latest `MAX_PAST` of them."""
    last: Outcome | None = None
    """How its latest attempt ended."""
    report: Mapping[str, float] = field(default_factory=dict)
    """The numbers that it last reported."""
    drain_deadline: float = 0.0
    outcome: Outcome | None = None
    ended_at: float | None = None

    @property
    def sort_name(self) -> str:
        """Its id in a form that sorts tasks by number: the last tie-breaker in the queue."""
        return self.id if self.task is None else f"{self.launch}.{self.task:06d}"

    @property
    def is_admitted(self) -> bool:
        """Whether it holds devices."""
        return self.phase in ADMITTED

    @property
    def has_failed(self) -> bool:
        """Whether it has failed with no retry left. Only then can a host be held for inspection."""
        if self.phase is Phase.DRAINING:
            return self.last is not None and self._is_final(self.last)
        is_decided_by_any = self.stops_others or not self.first_decides
        if any(is_decided_by_any or replica == 0 for replica, _, _ in self.kept):
            return True
        return self.outcome is not None and self.outcome.kind in FAILURES

    def _is_final(self, last: Outcome) -> bool:
        return last.kind in FAILURES and self.is_last_try and not self.cancelled_by

    @property
    def is_failing(self) -> bool:
        """Whether a host of its attempt has failed or was lost, even if the job is retried."""
        attempt = self.attempt
        if attempt is None:
            return False
        if attempt.first_failure is not None:
            return True
        if attempt.stop is not None:
            return attempt.stop.reason in _LOSSES
        # Its last host may be reported lost in the turn that learns of the loss: no stop then.
        last = self.last if self.phase is Phase.DRAINING else None
        return last is not None and last.kind is OutcomeKind.LOST

    @property
    def is_last_try(self) -> bool:
        """Whether a failure now would be final."""
        return self.failures >= self.retries

    @property
    def kept(self) -> tuple[tuple[int, HostPlace, Hold], ...]:
        """(replica, place, hold) of every host that is held for inspection."""
        attempt = self.attempt
        if attempt is None or not any(state.hold for hosts in attempt.hosts for state in hosts):
            return ()
        return tuple(
            (r, place, state.hold)
            for r, _, place, state in attempt.each_host()
            if state.hold is not None and state.end is None
        )

    @property
    def is_kept(self) -> bool:
        """Whether every host of its attempt has ended or is held, and at least one is held."""
        if self.phase is not Phase.RUNNING or self.attempt is None:
            return False
        kept = self.kept
        if not kept:
            return False
        return len(kept) == sum(state.end is None for *_, state in self.attempt.each_host())

    @property
    def replicas(self) -> int:
        """How many it has now; before it has any, the fewest that it starts with."""
        return self.request.replicas if self.attempt is None else len(self.attempt.placement)

    @property
    def alive(self) -> Placement:
        """The replicas that hold their devices: those that have not ended on every host."""
        return self.attempt.alive if self.attempt is not None and self.is_admitted else ()


def state_of(job: JobRecord) -> str:
    """
    Return the state of `job` that users see: its phase, unless another word says more.

    `held` while it is held in the queue or a failed host is held for inspection, `preempted` while
    it is requeued after a preemption, and its outcome once there is one.
    """
    if job.outcome is not None:
        return job.outcome.kind.value
    if job.is_kept:
        return "held"
    if job.phase is not Phase.QUEUED:
        return job.phase.value
    if job.held:
        return "held"
    if job.last is not None and job.last.kind is OutcomeKind.PREEMPTED:
        return "preempted"
    return "queued"
