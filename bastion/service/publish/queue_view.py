"""
The view of the queue: a row for every active job, and one for every array.

Ten thousand rows take half a second, and most of them rarely change. So a row is kept, with its
bytes, until something in it has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bastion.job import JobRecord, Phase, state_of
from bastion.lifecycle import kept_outcome, remark, trouble
from bastion.phrases import stop_text
from bastion.records.coding.codec import plain
from bastion.records.root import Root
from bastion.scheduler.plan import Plan, Verdict
from bastion.scheduler.reasons.reason import text
from bastion.service.act.shortages import Shortage, unmade_machines
from bastion.service.publish.array_rows import Row, array_rows, plain_start, range_fields
from bastion.service.publish.view_json import view_bytes

_PHASE_ORDER = {"stopping": 0, "running": 1, "starting": 2, "draining": 3, "queued": 4, "done": 5}
_LATER_S = 1e9
"""A reason with the same text this much later depends on no time."""
_ROWS = ("jobs", "arrays")


def queue_view(
    root: Root,
    plan: Plan | None,
    shortages: tuple[Shortage, ...] = (),
    *,
    jobs: JobRows | None = None,
) -> dict[str, Any]:
    """
    Return every active job (admitted ones first, then in the order of the queue), and every array.

    An array is one row, with the ranges of its tasks that have no row of their own. `shortages` are
    what providers lack or refuse now; `jobs` keeps the rows of the last view.
    """
    rows = (jobs or JobRows()).rows(root, plan, shortages)
    # The array reports tasks that wait for other tasks: this view alone has its row.
    rows = [dict(row) if row["task"] is not None and not row["reason"] else row for row in rows]
    return {
        "schema": 1,
        "now": root.now,
        "seq": root.seq,
        "jobs": rows,
        "arrays": array_rows(root, plan, rows),
    }


def queue_lines(
    view: Mapping[str, Any], line: Callable[[Row], bytes] = view_bytes
) -> tuple[list[bytes], ...]:
    """Return the rows of a view of the queue, encoded by `line`: those of jobs, then of arrays."""
    return tuple([line(row) for row in view[name]] for name in _ROWS)


def queue_bytes(view: Mapping[str, Any], lines: tuple[list[bytes], ...] = ()) -> bytes:
    """
    Encode the view of the queue as `view_bytes` does, with each row on its own line.

    Readers find a job by its name in the bytes, and parse only its line. A JSON string has no line
    break, so every line that starts with a brace is a row. `lines` are those rows if they are
    already encoded.
    """
    head = view_bytes({name: item for name, item in view.items() if name not in _ROWS})
    parts = [head.removesuffix(b"}")]
    for name, rows in zip(_ROWS, lines or queue_lines(view), strict=True):
        parts.append(b',"%s":[\n' % name.encode())
        parts.append(b",\n".join(rows))
        parts.append(b"\n]")
    return b"".join((*parts, b"}"))


@dataclass(slots=True)
class _Kept:
    """A row, its inputs, and its bytes once they have been requested."""

    row: Row
    job: JobRecord
    verdict: Verdict | None
    problem: str
    words: str
    tells_time: bool
    line: bytes = b""

    def is_of(self, job: JobRecord, verdict: Verdict | None, problem: str) -> bool:
        """Whether the row is still what these inputs would give."""
        is_same = self.verdict is verdict or self.verdict == verdict
        return is_same and self.job is job and self.problem == problem


class JobRows:
    """
    The rows of jobs, each rebuilt only when something in it has changed.

    `tells_time` is whether any of the last rows contains a time, so that it soon becomes outdated
    although nothing changes.
    """

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}
        self.tells_time = False

    def rows(
        self, root: Root, plan: Plan | None, shortages: tuple[Shortage, ...] = ()
    ) -> list[Row]:
        """Return the row of each active job: admitted ones first, then in the queue's order."""
        unmade = unmade_machines(root.machines.values(), shortages, root.now)
        verdicts = plan.verdicts if plan is not None else {}
        kept = {
            job.id: self._of(job, verdicts.get(job.id), root, unmade)
            for job in sorted(root.jobs.values(), key=_queue_order)
        }
        self._kept = kept
        self.tells_time = any(each.tells_time for each in kept.values())
        return [each.row for each in kept.values()]

    def line(self, row: Row) -> bytes:
        """Return the bytes of `row`, which are made once for a row that is kept."""
        kept = self._kept.get(row["id"])
        if kept is None or kept.row is not row:
            return view_bytes(row)
        kept.line = kept.line or view_bytes(row)
        return kept.line

    def _of(
        self, job: JobRecord, verdict: Verdict | None, root: Root, unmade: Mapping[str, str]
    ) -> _Kept:
        problem = trouble(job, root.machines, root.now, unmade)
        known = self._kept.get(job.id)
        if known is not None and not known.is_of(job, verdict, problem):
            known = None
        if known is not None and not known.tells_time:
            return known
        words = _words(verdict, root.now)
        if known is not None and known.words == words:
            return known
        return _Kept(
            row=_row(job, verdict, problem, words),
            job=job,
            verdict=verdict,
            problem=problem,
            words=words,
            tells_time=words != _words(verdict, root.now + _LATER_S),
        )


def _words(verdict: Verdict | None, now: float) -> str:
    return "" if verdict is None else text(verdict.reason, now)


def _queue_order(job: JobRecord) -> tuple[int, int, float, str]:
    return _PHASE_ORDER[job.phase.value], job.request.priority, job.queued_at, job.id


def _row(job: JobRecord, verdict: Verdict | None, problem: str, words: str) -> Row:
    attempt = job.attempt
    row: Row = {
        "id": job.id,
        "name": job.name,
        "project": job.project,
        "user": job.user,
        "launch": job.launch,
        "state": state_of(job),
        "phase": job.phase.value,
        "class": attempt.job_class.value if attempt else None,
        "priority": job.request.priority,
        "units": dict((job.replicas * job.request.per_replica).items()),
        "replicas": job.replicas,
        "submitted_at": job.submitted_at,
        "queued_at": job.queued_at,
        "started_at": attempt.started_at if attempt else None,
        "task": job.task,
        "attempt": job.attempts,
        "preemptions": job.preemptions,
        "machines": _machines_of(job),
        "placement": _placement_of(job),
        "reason": plain(verdict.reason) if verdict is not None else None,
        "text": problem or remark(job) or words,
    }
    row |= plain_start(verdict)
    row |= range_fields(job.request)
    if job.report:
        row["report"] = dict(job.report)
    if job.after:
        row["after"] = [plain(each) for each in job.after]
    kept = kept_outcome(job)
    if kept is not None:
        row |= {"outcome": kept.kind.value, "code": kept.code}
    if job.phase is Phase.STOPPING and attempt is not None and attempt.stop is not None:
        stop = attempt.stop
        row["text"] = f"stopping: {stop_text(stop.reason, stop.by)}"
        row["text"] += f"; it {problem}" if problem else ""
    if job.outcome is not None:
        # Its final record is written after this commit, so a waiting user may see this row first.
        row["text"], row["code"] = job.outcome.text, job.outcome.code
        row["outcome"] = job.outcome.kind.value
        row["started_at"] = job.past[-1].started_at if job.past else None
        row["machines"] = _machines_of_last(job)
        row["ended_at"] = job.ended_at
    return row


def _machines_of(job: JobRecord) -> list[str]:
    if job.attempt is None:
        return []
    return sorted({place.machine for _, _, place, _ in job.attempt.each_host()})


def _machines_of_last(job: JobRecord) -> list[str]:
    """Return the machines of the last attempt of a job that has ended."""
    replicas = job.past[-1].machines if job.past else ()
    return sorted({name for hosts in replicas for name in hosts})


def _placement_of(job: JobRecord) -> list[list[str]]:
    """Return the machine of each host, replica by replica; empty while it has none."""
    if job.attempt is None:
        return []
    return [[host.machine for host in replica.hosts] for replica in job.attempt.placement]
