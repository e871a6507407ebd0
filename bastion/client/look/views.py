"""
The client's results: frozen views of what the bastion published.

A view has the time at which it was true: `as_of`, in Unix seconds by the store's clock. Fields that
a newer bastion adds are ignored, since reads must keep working during an upgrade of the bastion.
The names are those of the JSON that `-o json` prints.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from bastion.client.status.display import moment, moment_of, table, units_text
from bastion.errors import in_notebooks
from bastion.spec.arrays.task import tasks_of_id
from bastion.value import field, value
from quota.amounts import NOTHING, Amounts

if TYPE_CHECKING:
    from datetime import datetime

    from bastion.spec.arrays.sweep import Setting
    from bastion.utilisation import Utilisation

UNREADABLE = "unreadable"
"""The state of an ended job whose final record cannot be read."""
ENDED = frozenset(
    {
        UNREADABLE,
        "succeeded",
        "failed",
        "cancelled",
        "timed_out",
        "out_of_memory",
        "setup_failed",
        "lost",
    }
)
"""The final states of a job."""

_SUFFIX = 11
"""A job's id is its name, a dash and ten characters."""


def _told(job: str, state: str, text: str) -> str:
    """Return a job and the reason for its state, without repeating the state."""
    from bastion.phrases import after_phrase

    return f"<{job} {state}{after_phrase(state, text)}>"


@value
class JobView:
    """One job, active or finished."""

    id: str
    name: str
    project: str
    user: str
    launch: str
    state: str
    """One word: queued, held, preempted, starting, running, stopping, draining, or its outcome."""
    phase: str = "done"
    job_class: str = ""
    """`guaranteed` or `borrowed` while admitted, else empty."""
    priority: int = 3
    units: Amounts = NOTHING
    """What all its replicas ask for together."""
    replicas: int = 1
    """How many it has now; while it waits, the fewest that it starts with."""
    replica_range: tuple[int, int] | None = None
    """The fewest and the most replicas, if it can grow and shrink."""
    submitted_at: float = 0.0
    queued_at: float | None = None
    """When it last joined the queue; None once it has ended, or if an older bastion wrote it."""
    started_at: float | None = None
    """When its last attempt started."""
    first_started_at: float | None = None
    """When the first attempt of an ended job started; None if unknown, or if it never started."""
    ended_at: float | None = None
    attempt: int = 0
    preemptions: int = 0
    machines: tuple[str, ...] = ()
    placement: tuple[tuple[str, ...], ...] = ()
    """The machine of each host, replica by replica, while it is admitted."""
    after: tuple[str, ...] = ()
    """What it waits for before it joins the queue, such as `train-x7k2` or `train-x7k2:any`."""
    text: str = ""
    """The reason for its state, in words."""
    reason: Mapping[str, object] = field(default_factory=dict)
    """The reason as numbers and names; `kind` says which reason it is."""
    estimated_at: float | None = None
    """When it will probably start."""
    confidence: str = ""
    """
    What the estimate is based on. `promised`: it starts then at the latest. `planned`: it starts
    then unless a job within its share needs the devices first. `limits`: running jobs use all of
    their `max_runtime`. `history`: running jobs take as long as earlier runs did. `limits` and
    `history` also assume that no job is queued ahead of it.
    """
    samples: int = 0
    """How many earlier runs a `history` estimate uses."""
    margin_s: float = 0.0
    """The margin of error of the estimate, from those runs."""
    confidence_text: str = ""
    """The basis, the samples and the margin in words."""
    outcome: str = ""
    """How it ended; already known while it is held after its final failure."""
    report: Mapping[str, float] = field(default_factory=dict)
    """The numbers that it reported last."""
    utilisation: Utilisation | None = None
    """What the last attempt of an ended job used; None if it was not sampled."""
    code: int | None = None
    """The exit code that decided its outcome; negative for a signal."""
    task: int | None = None
    """Its index, if it is a task of the array that is its launch."""
    parameters: Mapping[str, Setting] = field(default_factory=dict)
    """The parameters that the sweep gives to this task, if it is one of a sweep."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """For an array: how many of its tasks are in each state; empty for any other job."""
    ranges: Mapping[str, str] = field(default_factory=dict)
    """
    For an array: which tasks wait, are held or have ended, by state; the others have jobs of their
    own.
    """
    at_once: int | None = None
    """For an array: how many of its tasks may hold devices at the same time."""
    as_of: float = 0.0

    HEADS: ClassVar = ("job", "state", "project", "user", "asks", "why")

    def __repr__(self) -> str:
        return _told(self.id, self.state, self.text)

    def _repr_html_(self) -> str:
        return table(self.HEADS, [self.cells])

    @property
    def waited(self) -> str:
        """
        How long it waited for its start, in words; empty while it has none.

        For a running job this counts from joining the queue. For an ended job, whose record does
        not keep that, it counts from submission to the first start.
        """
        from bastion.spec.values.quantity import text_of_seconds

        if self.first_started_at is not None:
            waited_s, first = self.first_started_at - self.submitted_at, self.attempt > 1
            since = f"from its submission to its {'first start' if first else 'start'}"
        elif self.phase == "running" and self.queued_at is not None and self.started_at is not None:
            waited_s, since = (
                self.started_at - self.queued_at,
                "from joining the queue to this start",
            )
        else:
            return ""
        return f"{text_of_seconds(max(0.0, waited_s))} {since}"

    @property
    def cells(self) -> tuple[str, ...]:
        """Its cells in a table, in the order of `HEADS`."""
        asks = units_text(self.units)
        return (self.id, self.state, self.project, self.user, asks, self.text)

    @property
    def submitted(self) -> datetime | None:
        """When it was submitted, in UTC."""
        return moment(self.submitted_at)

    @property
    def started(self) -> datetime | None:
        """When its last attempt started, in UTC."""
        return moment(self.started_at)

    @property
    def ended(self) -> datetime | None:
        """When it ended, in UTC."""
        return moment(self.ended_at)

    @property
    def starts_about(self) -> datetime | None:
        """When it will probably start, in UTC."""
        return moment(self.estimated_at)

    @property
    def replicas_text(self) -> str:
        """How many replicas it has: `4`, or `4 of 2-8` if they can grow and shrink."""
        if self.replica_range is None:
            return str(self.replicas)
        least, most = self.replica_range
        return f"{self.replicas} of {least}-{most}" if self.machines else f"{least}-{most}"

    @property
    def has_ended(self) -> bool:
        """Whether its state is final."""
        return self.state in ENDED

    @property
    def has_succeeded(self) -> bool:
        """Whether it has succeeded; for an array, whether every task has."""
        return self.state == "succeeded"

    @property
    def is_decided(self) -> bool:
        """Whether its outcome is certain: it has ended, or is held because it failed."""
        return self.has_ended or bool(self.outcome)

    @property
    def is_array(self) -> bool:
        """Whether it stands for all tasks of an array."""
        return bool(self.counts)


@value
class MachineView:
    """One machine."""

    name: str
    pool: str
    phase: str
    resources: Amounts = NOTHING
    used: Amounts = NOTHING
    free: Amounts = NOTHING
    """What new jobs can get; nothing if none may start."""
    jobs: tuple[str, ...] = ()
    cordoned: str = ""
    """Why no new job may start on it, or empty."""
    draining: bool = False
    drain_by: float | None = None
    """When jobs that still run on it are preempted; None if they may run to their end."""
    drained_at: float | None = None
    """When a drained machine became empty."""
    closed: str = ""
    """The maintenance that closes it now, or empty."""
    unwell: str = ""
    """Why its agent starts nothing now, or empty."""
    bad: str = ""
    """Which of its devices get no job, and why, or empty."""
    waits: str = ""
    """Why its provider has not fulfilled the request for it, in the provider's words; or empty."""
    stuck: str = ""
    """Why its agent has not started yet; empty if unknown."""
    tier: int = 0
    hostname: str = ""
    zone: str = ""
    """The zone in which its provider created it; for hosts of your own, the host."""
    address: str = ""
    """The address at which machines of its gang reach it."""
    heard_at: float = 0.0
    """When its agent was last heard from."""
    heartbeat_s: float = 0.0
    """Its agent reports at least this often; 0: only when there is news."""
    held: Mapping[str, Mapping[str, tuple[int, ...]]] = field(default_factory=dict)
    """The devices of each job on it, by type and index."""

    HEADS: ClassVar = ("machine", "pool", "phase", "has", "free", "jobs")

    def __repr__(self) -> str:
        return f"<{self.name} {self.phase}, free: {self.free}, jobs: {', '.join(self.jobs) or '-'}>"

    def silence_s(self, now: float) -> float:
        """Return how long its agent's report is overdue; 0 if it is not."""
        from bastion.machine import MISSED_BEATS

        silent_s = now - self.heard_at
        is_overdue = (
            self.heartbeat_s and self.heard_at and silent_s > MISSED_BEATS * self.heartbeat_s
        )
        return silent_s if is_overdue else 0.0

    @property
    def cells(self) -> tuple[str, ...]:
        """Its cells in a table, in the order of `HEADS`."""
        jobs = ", ".join(self.jobs)
        return (self.name, self.pool, self.phase, str(self.resources), str(self.free), jobs)


@value
class ShortageView:
    """What one provider cannot supply or refuses now."""

    pool: str
    zone: str
    """Empty for the whole pool, or for a pool without zones."""
    why: str
    """`sold out`, `limit` (of the account), `refused` (rights or settings) or `busy`."""
    said: str
    """The provider's own words."""
    until: float
    """When the provider is asked again."""


@value
class WarmView:
    """How many machines of one pool an admin keeps ready."""

    machines: int
    until: float
    by: str


@value
class PoolsView:
    """Every machine, and the state of the pools."""

    as_of: float
    machines: tuple[MachineView, ...]
    pools: tuple[Mapping[str, object], ...] = ()
    shortages: tuple[ShortageView, ...] = ()
    warm: Mapping[str, WarmView] = field(default_factory=dict)
    """By pool."""
    maintenance: tuple[str, ...] = ()
    """What closes machines now or later, according to the quota file: which, when and why."""

    def __repr__(self) -> str:
        number = len(self.machines)
        return (
            f"<{number} machine{'' if number == 1 else 's'}: {', '.join(map(repr, self.machines))}>"
        )

    def _repr_html_(self) -> str:
        return table(MachineView.HEADS, (machine.cells for machine in self.machines))


@value
class EventView:
    """One event."""

    number: int
    at: float
    job: str
    project: str
    what: str
    text: str = ""

    HEADS: ClassVar = ("time", "job", "what", "more")

    def __repr__(self) -> str:
        return f"<{' '.join(filter(None, self.cells))}>"

    @property
    def cells(self) -> tuple[str, ...]:
        """Its cells in a table, in the order of `HEADS`."""
        return (f"{self.happened:%Y-%m-%d %H:%M:%S}", self.job, self.what, self.text)

    @property
    def happened(self) -> datetime:
        """When it happened, in UTC."""
        return moment_of(self.at)


@value
class Why:
    """Why a job is in its state, and what would change it."""

    job: str
    state: str
    text: str
    reason: Mapping[str, object]
    estimated_at: float | None
    as_of: float
    confidence: str = ""
    """What the estimate is based on, as in `JobView`; the same applies to the next three."""
    samples: int = 0
    margin_s: float = 0.0
    confidence_text: str = ""
    quota_problem: str = ""
    """Why the newest quota file is not in force; also empty once the job has ended."""
    has_quota: bool = True
    """Whether a quota file is in force, the newest or the last good one."""

    def __repr__(self) -> str:
        return _told(self.job, self.state, self.text)

    def _repr_html_(self) -> str:
        return table(("job", "state", "why"), [(self.job, self.state, self.text)])


@value
class LaunchStatus:
    """All jobs of one launch."""

    jobs: tuple[JobView, ...]

    def __repr__(self) -> str:
        return f"<{'; '.join(repr(job)[1:-1] for job in self.jobs)}>"

    def _repr_html_(self) -> str:
        return table(JobView.HEADS, (job.cells for job in self.jobs))

    @property
    def counts(self) -> dict[str, int]:
        """How many jobs are in each state; for an array, how many of its tasks."""
        made: Counter[str] = Counter()
        for job in self.jobs:
            made.update(job.counts or {job.state: 1})
        return dict(made)

    @property
    def has_ended(self) -> bool:
        """Whether every job of it has ended."""
        return all(job.has_ended for job in self.jobs)

    @property
    def has_succeeded(self) -> bool:
        """Whether every job of it has succeeded."""
        return all(job.has_succeeded for job in self.jobs)

    if not TYPE_CHECKING:  # a type checker finds unknown names itself

        def __getattr__(self, name: str) -> object:
            """Raise the error for an unknown name, with the intended one."""
            from bastion.client.other_names import no_attribute

            raise in_notebooks(no_attribute(self, name))


def name_of(job_id: str) -> str:
    """Return the name in a job's id; for a task, the name in its array's id."""
    tasks = tasks_of_id(job_id)
    job_id = job_id if tasks is None else tasks[0]
    return job_id[:-_SUFFIX] if len(job_id) > _SUFFIX else job_id


__all__ = [
    "ENDED",
    "EventView",
    "JobView",
    "LaunchStatus",
    "MachineView",
    "PoolsView",
    "Why",
]
