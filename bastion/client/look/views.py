"""
What the client answers with: frozen views of what the bastion published.

A view says as of when it is true (`as_of`, the store's seconds). Fields a newer bastion adds are
ignored here: reading must go on while the bastion is being upgraded. Names are those of the JSON
that `-o json` prints.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Any, ClassVar

from bastion.client.look.display import moment, table
from bastion.records.request import Result
from bastion.spec.sweep import Setting
from bastion.spec.task import tasks_of_id
from bastion.value import value
from quota.amounts import NOTHING, Amounts

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
"""The states that no job leaves."""

_SILENT_S = 10.0
"""The least silence that is worth a word: a busy leader publishes less often."""
_SUFFIX = 11
"""A job's id is its name, a dash and ten characters."""


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
    """guaranteed or borrowed while admitted, else empty."""
    priority: int = 3
    units: Amounts = NOTHING
    """What all its replicas ask for together."""
    replicas: int = 1
    submitted_at: float = 0.0
    started_at: float | None = None
    ended_at: float | None = None
    attempt: int = 0
    preemptions: int = 0
    machines: tuple[str, ...] = ()
    placement: tuple[tuple[str, ...], ...] = ()
    """While it is admitted: the machine of each host, replica by replica."""
    after: tuple[str, ...] = ()
    """What it still waits for before it joins the queue, as `train-x7k2` or `train-x7k2:any`."""
    text: str = ""
    """The reason for its state, in words."""
    reason: Mapping[str, object] = field(default_factory=dict)
    """The same as numbers and names; `kind` says which."""
    estimated_at: float | None = None
    """When it will probably start."""
    sure: str = ""
    """How sure that is: `promised` at the latest, `planned` unless one within its share comes
    first. `limits` if running jobs use all of their `max_runtime`, `history` if they take as long
    as earlier runs; both if no job is queued ahead of it."""
    rests_on: int = 0
    """How many earlier runs `history` is."""
    off_by_s: float = 0.0
    """How far off the start may be, by those."""
    sure_text: str = ""
    """How sure the start is, in words."""
    outcome: str = ""
    """How it ended; known already while it is held because it failed for good."""
    report: Mapping[str, float] = field(default_factory=dict)
    """The numbers it reported last."""
    code: int | None = None
    """The exit code that decided its outcome; negative for a signal."""
    task: int | None = None
    """Its index, where it is a task of the array that is its launch."""
    parameters: Mapping[str, Setting] = field(default_factory=dict)
    """Of a task of a sweep: what the sweep gives it."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Of an array: how many of its tasks are in each state; empty for any other job."""
    ranges: Mapping[str, str] = field(default_factory=dict)
    """Of an array: which tasks wait, are held or have ended how, by state; the others are jobs."""
    at_once: int | None = None
    """Of an array: how many of its tasks may hold devices at once."""
    as_of: float = 0.0

    HEADS: ClassVar = ("job", "state", "project", "user", "asks", "why")

    def __repr__(self) -> str:
        why = f": {self.text}" if self.text else ""
        return f"<{self.id} {self.state}{why}>"

    def _repr_html_(self) -> str:
        return table(self.HEADS, [self.cells])

    @property
    def cells(self) -> tuple[str, ...]:
        """What a table shows of it, in the order of `HEADS`."""
        asks = " + ".join(f"{n} {kind}" for kind, n in self.units.items())
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
    def has_ended(self) -> bool:
        """Whether its state is final."""
        return self.state in ENDED

    @property
    def is_decided(self) -> bool:
        """Whether it is certain how it ends: it has ended, or is held because it failed."""
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
    jobs: tuple[str, ...] = ()
    cordoned: str = ""
    unwell: str = ""
    """Why it starts nothing now, or empty."""
    waits: str = ""
    """Why its provider keeps the request for it, in the provider's words; else empty."""
    tier: int = 0
    hostname: str = ""
    zone: str = ""
    """Where its provider made it; of hosts that are owned, the host."""
    address: str = ""
    """Where machines of its gang reach it."""
    heard_at: float = 0.0

    HEADS: ClassVar = ("machine", "pool", "phase", "has", "free", "jobs")

    def __repr__(self) -> str:
        return f"<{self.name} {self.phase}, free: {self.free}, jobs: {', '.join(self.jobs) or '-'}>"

    @property
    def cells(self) -> tuple[str, ...]:
        """What a table shows of it, in the order of `HEADS`."""
        jobs = ", ".join(self.jobs)
        return (self.name, self.pool, self.phase, str(self.resources), str(self.free), jobs)


@value
class ShortageView:
    """What one provider lacks or refuses now."""

    pool: str
    zone: str
    """Empty: all of the pool, or a pool without zones."""
    why: str
    """`sold out`, `limit` (of the account), `refused` (rights or settings) or `busy`."""
    said: str
    """The provider's own words."""
    until: float
    """When it is asked again."""


@value
class PoolsView:
    """Every machine, and what the pools say of themselves."""

    as_of: float
    machines: tuple[MachineView, ...]
    pools: tuple[Mapping[str, object], ...] = ()
    shortages: tuple[ShortageView, ...] = ()

    def __repr__(self) -> str:
        return f"<{len(self.machines)} machines: {', '.join(map(repr, self.machines))}>"

    def _repr_html_(self) -> str:
        return table(MachineView.HEADS, (machine.cells for machine in self.machines))


@value
class ProjectView:
    """What one project may hold and holds."""

    name: str
    nominal: Amounts = NOTHING
    usage: Amounts = NOTHING
    borrowed: Amounts = NOTHING
    lent: Amounts = NOTHING
    queued: int = 0


@value
class StatusView:
    """The bastion itself."""

    as_of: float
    leader: str = ""
    host: str = ""
    pid: int = 0
    ttl_s: float = 0.0
    """How long the leader's lease lasts; it is renewed every third of it."""
    epoch: int = 0
    seq: int = 0
    bucket: str = ""
    """The bucket's own name, which its machines carry at their providers."""
    since: float = 0.0
    version: str = ""
    poll_s: float = 0.0
    counts: Mapping[str, int] = field(default_factory=dict)
    """Jobs by state."""
    projects: tuple[ProjectView, ...] = ()
    quota_version: str = ""
    quota_problem: str = ""
    """Why the newest quota file is not in force, or empty."""
    config_problem: str = ""
    problems: tuple[str, ...] = ()
    silent_s: float = 0.0
    """For how long nothing was published, by this machine's clock; never below 0."""

    @property
    def is_given_up(self) -> bool:
        """Whether the last leader stopped in good order, and nothing leads since."""
        return not self.leader

    @property
    def is_silent(self) -> bool:
        """Whether a leader stands, but has published nothing for longer than it may."""
        return bool(self.leader) and self.silent_s > max(2 * self.ttl_s, _SILENT_S)

    @property
    def absence(self) -> str:
        """Why nothing leads here, as far as readers can know; empty while a bastion leads."""
        if self.is_given_up:
            return f"no bastion leads: the last one stopped {_span(self.silent_s)} ago"
        if self.is_silent:
            return (
                f"no bastion answers: {self.leader} on {self.host} published nothing for"
                f" {_span(self.silent_s)}"
            )
        return ""


@value
class EventView:
    """One thing that happened."""

    number: int
    at: float
    job: str
    project: str
    what: str
    text: str = ""


@value
class Why:
    """Why a job is in its state, and what would change it."""

    job: str
    state: str
    text: str
    reason: Mapping[str, object]
    estimated_at: float | None
    as_of: float
    sure: str = ""
    """How sure the estimate is, as in `JobView`; so are the next three."""
    rests_on: int = 0
    off_by_s: float = 0.0
    sure_text: str = ""
    quota_problem: str = ""
    """Why the newest quota file is not in force; empty too once the job has ended."""

    def __repr__(self) -> str:
        return f"<{self.job} {self.state}: {self.text}>"

    def _repr_html_(self) -> str:
        return table(("job", "state", "why"), [(self.job, self.state, self.text)])


@value
class LaunchStatus:
    """All jobs of one launch."""

    jobs: tuple[JobView, ...]

    def __repr__(self) -> str:
        return f"<{', '.join(map(repr, self.jobs))}>"

    def _repr_html_(self) -> str:
        return table(JobView.HEADS, (job.cells for job in self.jobs))

    @property
    def counts(self) -> dict[str, int]:
        """How many jobs are in each state; of an array, how many of its tasks."""
        made: Counter[str] = Counter()
        for job in self.jobs:
            made.update(job.counts or {job.state: 1})
        return dict(made)

    @property
    def has_ended(self) -> bool:
        """Whether every job of it has ended."""
        return all(job.has_ended for job in self.jobs)


def _span(seconds: float) -> str:
    from bastion.spec.quantity import text_of_seconds

    return text_of_seconds(float(int(seconds)))


def name_of(job_id: str) -> str:
    """The name in a job's id; in a task's that of its array."""
    tasks = tasks_of_id(job_id)
    job_id = job_id if tasks is None else tasks[0]
    return job_id[:-_SUFFIX] if len(job_id) > _SUFFIX else job_id


def job_of_row(row: Mapping[str, Any], *, as_of: float) -> JobView:
    """A row of `view/queue.json`."""
    return JobView(
        id=row["id"],
        name=row.get("name") or name_of(row["id"]),
        project=row["project"],
        user=row.get("user", ""),
        launch=row.get("launch", ""),
        state=row["state"],
        phase=row.get("phase", ""),
        job_class=row.get("class") or "",
        priority=row.get("priority", 3),
        units=Amounts(row.get("units") or {}),
        replicas=row.get("replicas", 1),
        submitted_at=row.get("submitted_at", 0.0),
        started_at=row.get("started_at"),
        ended_at=row.get("ended_at"),
        code=row.get("code"),
        attempt=row.get("attempt", 0),
        preemptions=row.get("preemptions", 0),
        machines=tuple(row.get("machines") or ()),
        placement=tuple(tuple(hosts) for hosts in row.get("placement") or ()),
        after=tuple(_awaited(each["on"], each.get("when")) for each in row.get("after") or ()),
        text=row.get("text", ""),
        reason=row.get("reason") or {},
        estimated_at=row.get("estimated_at"),
        sure=row.get("sure", ""),
        rests_on=row.get("rests_on", 0),
        off_by_s=row.get("off_by_s", 0.0),
        sure_text=row.get("sure_text", ""),
        outcome=row.get("outcome", ""),
        report=dict(row.get("report") or {}),
        task=row.get("task"),
        as_of=as_of,
    )


def _awaited(on: str, when: str | None) -> str:
    return on if when in (None, "ok") else f"{on}:{when}"


def job_of_result(result: Result) -> JobView:
    """A finished job, from its final record."""
    last = result.past[-1] if result.past else None
    machines = dict.fromkeys(name for replica in last.machines for name in replica) if last else ()
    return JobView(
        id=result.id,
        name=result.name or name_of(result.id),
        project=result.project,
        user=result.user,
        launch=result.launch,
        state=result.outcome,
        submitted_at=result.submitted_at,
        started_at=last.started_at if last else None,
        ended_at=result.ended_at,
        attempt=result.attempts,
        preemptions=result.preemptions,
        priority=result.request.priority,
        units=result.request.units,
        replicas=result.request.replicas,
        machines=tuple(machines),
        text=result.text,
        outcome=result.outcome,
        report=dict(result.report),
        code=result.code,
        task=result.task,
        counts={kind: len(over) for kind, over in result.tasks.items()},
        ranges={kind: str(over) for kind, over in result.tasks.items()},
        as_of=result.ended_at,
    )


def machine_of_row(row: Mapping[str, Any]) -> MachineView:
    """A row of `view/pool.json`."""
    return MachineView(
        name=row["name"],
        pool=row.get("pool", ""),
        phase=row.get("phase", ""),
        resources=Amounts(row.get("resources") or {}),
        used=Amounts(row.get("used") or {}),
        free=Amounts(row.get("free") or {}),
        jobs=tuple(row.get("jobs") or ()),
        cordoned=row.get("cordoned") or "",
        unwell=row.get("unwell") or "",
        waits=row.get("waits") or "",
        tier=row.get("tier", 0),
        hostname=row.get("hostname", ""),
        zone=row.get("zone", ""),
        address=row.get("address", ""),
        heard_at=row.get("heard_at", 0.0),
    )


def shortage_of_row(row: Mapping[str, Any]) -> ShortageView:
    """A shortage of `view/pool.json`."""
    return ShortageView(
        pool=row["pool"],
        zone=row.get("zone") or "",
        why=row.get("why") or "",
        said=row.get("said") or "",
        until=row.get("until") or 0.0,
    )


def status_of(view: Mapping[str, Any], *, wall: float) -> StatusView:
    """`view/status.json`."""
    quota, config = view.get("quota") or {}, view.get("config") or {}
    return StatusView(
        as_of=view["now"],
        leader=str(view.get("leader") or ""),
        host=view.get("host") or "",
        pid=view.get("pid") or 0,
        ttl_s=view.get("ttl_s") or 0.0,
        epoch=view.get("epoch", 0),
        seq=view.get("seq", 0),
        bucket=str(view.get("bucket") or ""),
        since=view.get("since") or 0.0,
        version=view.get("version", ""),
        poll_s=view.get("poll_s", 0.0),
        counts=dict(view.get("counts") or {}),
        projects=tuple(
            _project_of(name, row) for name, row in sorted((view.get("projects") or {}).items())
        ),
        quota_version=quota.get("version") or "",
        quota_problem=quota.get("problem") or "",
        config_problem=config.get("problem") or "",
        problems=tuple(view.get("problems") or ()),
        silent_s=max(0.0, wall - view["now"]),
    )


def event_of(line: Mapping[str, Any]) -> EventView:
    """One line of the event log."""
    return EventView(
        number=line.get("n", 0),
        at=line.get("at", 0.0),
        job=line.get("job", ""),
        project=line.get("project", ""),
        what=line.get("what", ""),
        text=line.get("text", ""),
    )


def _project_of(name: str, row: Mapping[str, Any]) -> ProjectView:
    return ProjectView(
        name=name,
        nominal=Amounts(row.get("nominal") or {}),
        usage=Amounts(row.get("usage") or {}),
        borrowed=Amounts(row.get("borrowed") or {}),
        lent=Amounts(row.get("lent") or {}),
        queued=row.get("queued", 0),
    )


__all__ = [
    "ENDED",
    "EventView",
    "JobView",
    "LaunchStatus",
    "MachineView",
    "PoolsView",
    "ProjectView",
    "StatusView",
    "Why",
]
