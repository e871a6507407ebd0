"""
Rows of the published objects, read into views: each is a function of one row.

A field that a row does not have, because an older bastion wrote it, keeps its view's default.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from bastion.client.look.views import (
    EventView,
    JobView,
    MachineView,
    ShortageView,
    name_of,
)
from quota.amounts import Amounts

if TYPE_CHECKING:
    from bastion.records.requests.result import Result
    from bastion.spec.request import Request


def range_of(request: Request) -> tuple[int, int] | None:
    """Return the fewest and the most replicas of a job that can grow and shrink."""
    return (request.replicas, request.most) if request.is_elastic else None


def range_of_row(row: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return the same from a row."""
    written = row.get("replica_range")
    return (written[0], written[1]) if written else None


def _replicas_of(result: Result) -> int:
    """Return how many its last attempt had."""
    return len(result.past[-1].machines) if result.past else result.request.replicas


def job_of_row(row: Mapping[str, Any], *, as_of: float) -> JobView:
    """Return the view of a row of `view/queue.json`."""
    get = row.get
    return JobView(
        id=row["id"],
        name=get("name") or name_of(row["id"]),
        project=row["project"],
        user=get("user", ""),
        launch=get("launch", ""),
        state=row["state"],
        phase=get("phase", ""),
        job_class=get("class") or "",
        priority=get("priority", 3),
        units=amounts_of_row(row),
        replicas=get("replicas", 1),
        replica_range=range_of_row(row),
        submitted_at=get("submitted_at", 0.0),
        queued_at=get("queued_at") if get("ended_at") is None else None,
        started_at=get("started_at"),
        ended_at=get("ended_at"),
        code=get("code"),
        attempt=get("attempt", 0),
        preemptions=get("preemptions", 0),
        machines=tuple(get("machines") or ()),
        placement=tuple(map(tuple, get("placement") or ())),
        after=tuple(map(_awaited, get("after") or ())),
        text=get("text", ""),
        reason=get("reason") or {},
        estimated_at=get("estimated_at"),
        confidence=get("sure", ""),
        samples=get("rests_on", 0),
        margin_s=get("off_by_s", 0.0),
        confidence_text=get("sure_text", ""),
        outcome=get("outcome", ""),
        report=dict(get("report") or {}),
        task=get("task"),
        as_of=as_of,
    )


def amounts_of_row(row: Mapping[str, Any]) -> Amounts:
    """Return what a row asks for, or has."""
    return _amounts(tuple((row.get("units") or {}).items()))


@lru_cache(1024)
def _amounts(units: tuple[tuple[str, int], ...]) -> Amounts:
    """Cached, since thousands of rows ask for the same."""
    return Amounts(dict(units))


def _awaited(each: Mapping[str, Any]) -> str:
    on, when = each["on"], each.get("when")
    return str(on) if when in (None, "ok") else f"{on}:{when}"


def job_of_result(result: Result) -> JobView:
    """Return the view of a finished job from its final record."""
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
        first_started_at=next((each.started_at for each in result.past if each.started_at), None),
        ended_at=result.ended_at,
        attempt=result.attempts,
        preemptions=result.preemptions,
        priority=result.request.priority,
        units=_replicas_of(result) * result.request.per_replica,
        replicas=_replicas_of(result),
        replica_range=range_of(result.request),
        machines=tuple(machines),
        text=result.text,
        outcome=result.outcome,
        report=dict(result.report),
        utilisation=last.utilisation if last else None,
        code=result.code,
        task=result.task,
        counts={kind: len(over) for kind, over in result.tasks.items()},
        ranges={kind: str(over) for kind, over in result.tasks.items()},
        as_of=result.ended_at,
    )


def machine_of_row(row: Mapping[str, Any]) -> MachineView:
    """Return the view of a row of `view/pool.json`."""
    return MachineView(
        name=row["name"],
        pool=row.get("pool", ""),
        phase=row.get("phase", ""),
        resources=Amounts(row.get("resources") or {}),
        used=Amounts(row.get("used") or {}),
        free=Amounts(row.get("free") or {}),
        jobs=tuple(row.get("jobs") or ()),
        cordoned=row.get("cordoned") or "",
        closed=row.get("closed") or "",
        draining=bool(row.get("draining")),
        drain_by=row.get("drain_by"),
        drained_at=row.get("drained_at"),
        unwell=row.get("unwell") or "",
        bad=row.get("bad_text") or "",
        waits=row.get("waits") or "",
        stuck=row.get("stuck") or "",
        tier=row.get("tier", 0),
        hostname=row.get("hostname", ""),
        zone=row.get("zone", ""),
        address=row.get("address", ""),
        heard_at=row.get("heard_at", 0.0),
        heartbeat_s=row.get("heartbeat_s", 0.0),
        held={
            job: {kind: tuple(indices) for kind, indices in kinds.items()}
            for job, kinds in (row.get("held") or {}).items()
        },
    )


def shortage_of_row(row: Mapping[str, Any]) -> ShortageView:
    """Return the view of a shortage in `view/pool.json`."""
    return ShortageView(
        pool=row["pool"],
        zone=row.get("zone") or "",
        why=row.get("why") or "",
        said=row.get("said") or "",
        until=row.get("until") or 0.0,
    )


def event_of(line: Mapping[str, Any]) -> EventView:
    """Return the view of one line of the event log."""
    return EventView(
        number=line.get("n", 0),
        at=line.get("at", 0.0),
        job=line.get("job", ""),
        project=line.get("project", ""),
        what=line.get("what", ""),
        text=line.get("text", ""),
    )
