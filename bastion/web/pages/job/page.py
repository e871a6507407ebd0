"""One job: its state and why, its attempts, what happened to it, and what code it ran."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from bastion.client.code.stored_code import CodeView
from bastion.client.look.views import EventView, JobView
from bastion.job import PastAttempt
from bastion.records.coding.codec import plain
from bastion.records.requests.launch_request import SpecRecord
from bastion.spec import BundleRef, CodeRef, GitRef, ImageRef, Job, Process
from bastion.value import value
from bastion.web.pages.job.array_tasks import FailedTasks, TaskGroup, failed_tasks, task_groups
from bastion.web.pages.job.spent import Spent, spent_now, spent_of, together
from bastion.web.reading.board import COUNTED, Board
from bastion.web.reading.trail import Happened

ATTEMPT_STATES = ("starting", "running", "stopping", "draining")
MOST_EVENTS = 500
MOST_HOLDERS = 12
_BEGUN = re.compile(r"attempt (\d{1,6})\b", re.ASCII)
_NOT_FOR_DEVICES = ("Held", "WaitsFor")
"""Reasons of a job that starts no earlier if others free devices."""


@value
class Tried:
    """One attempt."""

    number: int
    state: str
    started_at: float | None = None
    ended_at: float | None = None
    code: int | None = None
    machines: tuple[str, ...] = ()
    replicas: int | None = None
    """None: unknown."""
    spent: Spent | None = None
    failed: tuple[int, int] | None = None
    """The replica and the host that failed first, in a gang; None: none, or not known."""


@value
class Holders:
    """The jobs that hold what a queued job asks for."""

    kinds: tuple[str, ...]
    """The resources that it asks for."""
    jobs: tuple[JobView, ...]
    """Those that hold the most of it."""
    number: int
    """Of all of them."""


@value
class JobPage:
    """What the page of a job shows."""

    job: JobView
    attempts: tuple[Tried, ...]
    spent: Spent
    """All of them together; for an array, including its tasks."""
    tasks: tuple[TaskGroup, ...]
    """For an array."""
    failed: tuple[FailedTasks, ...]
    """The same."""
    holders: Holders | None
    """None: it does not wait for devices."""
    events: tuple[tuple[EventView, int], ...]
    """Each with the attempt that it is about; 0: none, or not known."""
    is_cut: bool
    """Whether events are omitted, and with them some of the cost."""
    spec: Job | None
    spec_text: str
    commands: tuple[str, ...]
    where: str
    """The filters of its launch; empty for none."""
    code: CodeView | None
    code_text: str
    submitted_by: str
    """The command to copy; empty if it is unknown."""
    rerun: str
    processes: int
    most_replicas: int
    """For any attempt."""


def job_page(
    job: JobView,
    past: Sequence[PastAttempt],
    happened: Happened,
    record: SpecRecord | None,
    code: CodeView | None,
    board: Board,
) -> JobPage:
    """Return the page of `job` from what is known about it."""
    spec = None if record is None else _spec_of(job, record)
    events = _told(job, tuple(_with_attempts(happened)))
    attempts = tuple(map(_tried, past)) or attempts_of(job, happened.events)
    now = spent_now(job, happened, board)
    return JobPage(
        job=job,
        attempts=tuple(_with_record(each, job, happened, now) for each in attempts),
        spent=together([spent_of(happened.ended), *([now] if now is not None else [])]),
        tasks=task_groups(job, board),
        failed=failed_tasks(job, happened.ended) if job.counts else (),
        holders=holders_of(job, board),
        events=events,
        is_cut=happened.is_cut or len(events) < len(happened.events),
        spec=spec,
        spec_text="" if spec is None else json.dumps(plain(spec), indent=2, ensure_ascii=False),
        commands=() if spec is None else tuple(map(_command, spec.processes)),
        where="" if record is None else record.launch.where.text,
        code=code,
        code_text="" if code is None else _reference(code.code),
        submitted_by=shlex.join(code.origin.argv) if code is not None and code.origin else "",
        rerun=shlex.join(["bastion", "rerun", job.id]),
        processes=max(1, len(spec.processes)) if spec else 1,
        most_replicas=job.replica_range[1] if job.replica_range else job.replicas,
    )


def _with_attempts(happened: Happened) -> Iterator[tuple[EventView, int]]:
    """Yield each event with its attempt, which is known if no start before it was left out."""
    numbers: dict[str, int] = {}
    for event in happened.events:
        begun = _BEGUN.match(event.text) if event.what == "starting" else None
        if begun is not None and not happened.is_cut:
            numbers[event.job] = int(begun[1])
        yield event, numbers.get(event.job, 0)


def _told(
    job: JobView, events: Sequence[tuple[EventView, int]]
) -> tuple[tuple[EventView, int], ...]:
    """Return the last events, preceded by the first ones of `job` itself, not of its tasks."""
    own = [each for each in events[:-MOST_EVENTS] if each[0].job == job.id]
    return (*own[:MOST_EVENTS], *events[-MOST_EVENTS:])


def holders_of(job: JobView, board: Board) -> Holders | None:
    """Return the jobs that hold what `job` waits for; None if it does not wait for devices."""
    row = board.by_id.get(job.id) or {}
    if row.get("phase") != "queued" and not row.get("waiting"):
        return None
    if (row.get("reason") or {}).get("kind") in _NOT_FOR_DEVICES:
        return None
    asked = {kind for kind, _ in job.units.items()}
    kinds = tuple(sorted(asked - COUNTED or asked))
    every = board.holders(kinds)
    shown = tuple(map(board.job, every[:MOST_HOLDERS]))
    return Holders(kinds=kinds, jobs=shown, number=len(every)) if every else None


def attempts_of(job: JobView, events: Sequence[EventView]) -> tuple[Tried, ...]:
    """Return the attempts of a job without a final record, from its events and its row."""
    found: list[Tried] = []
    begun: float | None = None
    machines: tuple[str, ...] = ()
    is_open = False
    for event in events:
        if event.job != job.id:
            continue
        if event.what == "starting" and not is_open:
            begun, is_open = None, True
            machines = tuple(filter(None, event.text.partition(" on ")[2].split(", ")))
        elif event.what == "running" and is_open:
            begun = event.at if begun is None else begun
        elif is_open and event.what not in ATTEMPT_STATES and event.what in _ENDS:
            number = len(found) + 1
            found.append(
                Tried(
                    number=number,
                    state=event.what,
                    started_at=begun,
                    ended_at=event.at,
                    machines=machines,
                )
            )
            is_open = False
    if job.phase in ATTEMPT_STATES:
        now = Tried(
            number=max(job.attempt, 1),
            state=job.state,
            started_at=job.started_at,
            machines=job.machines,
            replicas=job.replicas,
        )
        found.append(now)
    return tuple(found)


def _with_record(tried: Tried, job: JobView, happened: Happened, now: Spent | None) -> Tried:
    """Add what the record says about an ended attempt, which is more than its events do."""
    rows = [row for row in happened.ended if (row.job, row.attempt) == (job.id, tried.number)]
    if not rows:
        return replace(tried, spent=now if not tried.ended_at else None)
    row = rows[-1]
    replicas = row.replicas if tried.replicas is None else tried.replicas
    return replace(tried, state=row.outcome, replicas=replicas, spent=spent_of(rows))


_ENDS = ("preempted", "queued", "held", "lost", "failed", "succeeded", "cancelled", "timed_out")


def _tried(past: PastAttempt) -> Tried:
    machines = dict.fromkeys(name for replica in past.machines for name in replica)
    return Tried(
        number=past.number,
        state=past.kind.value,
        started_at=past.started_at,
        ended_at=past.ended_at,
        code=past.code,
        machines=tuple(machines),
        replicas=len(past.machines) or None,
        failed=_failed_host(past),
    )


def _failed_host(past: PastAttempt) -> tuple[int, int] | None:
    """Return the host of a gang that failed first; None if no other machine tells it apart."""
    hosts = [
        (replica, host)
        for replica, machines in enumerate(past.machines)
        for host, machine in enumerate(machines)
        if machine == past.failed_on
    ]
    return hosts[0] if len(hosts) == 1 and len(past.machines) > 1 else None


def _spec_of(job: JobView, record: SpecRecord) -> Job | None:
    jobs = record.launch.jobs
    return next((each for each in jobs if len(jobs) == 1 or each.name == job.name), None)


def _command(process: Process) -> str:
    return " ".join(process.command) if process.shell else shlex.join(process.command)


def _reference(code: CodeRef | None) -> str:
    match code:
        case BundleRef(digest=digest):
            return f"bundle {digest}"
        case GitRef(url=url, commit=commit, branch=branch):
            return f"commit {commit} of {url}{f', branch {branch}' if branch else ''}"
        case ImageRef(ref=image):
            return f"image {image}"
        case None:
            return "none was sent"


@value
class LogAddress:
    """Which process of which attempt, as the address of a log names it."""

    attempt: int
    replica: int
    host: int
    process: int
    query: Mapping[str, str]


def log_address(job: JobView, query: Mapping[str, str]) -> LogAddress:
    """Return the process that `query` names: by default the first one of the newest attempt."""

    def number(name: str, given: int) -> int:
        text = query.get(name, "")
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 7 else given

    attempt = number("attempt", max(job.attempt, 1))
    replica, host, process = (number(name, 0) for name in ("replica", "host", "process"))
    return LogAddress(
        attempt=attempt,
        replica=replica,
        host=host,
        process=process,
        query={
            "attempt": str(attempt),
            "replica": str(replica),
            "host": str(host),
            "process": str(process),
        },
    )
