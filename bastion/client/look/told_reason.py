"""
Why a job waits, once its reason is published, with times counted from now.

A view follows shortly after every commit. While nothing changes, the view stays the same, and a
later status says until when it is current: the times in its sentences are then too old.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from bastion.client.look.published import UNPUBLISHED
from bastion.client.look.views import JobView, Why
from bastion.clock import Clock
from bastion.errors import RecordError
from bastion.value import replace

if TYPE_CHECKING:
    from bastion.client.look.job_line import JobLine
    from bastion.client.status.status_view import StatusView

REASON_S = 1.0
"""Views are published within a second of a commit; if none comes, there may be no bastion."""
REASON_POLL_S = 0.1
_MANY = 1000
"""Different sentences of a list that are updated: about 50 ms."""

Row: TypeAlias = "JobView | JobLine"


def settled(look: Callable[[], JobView], clock: Clock) -> JobView:
    """Return what `look` returns once it has the reason of its job, or after a second."""
    until = clock.monotonic() + REASON_S
    while (job := look()).text == UNPUBLISHED and clock.monotonic() < until:
        clock.sleep(REASON_POLL_S)
    return job


def told_now(job: JobView, true_until: Callable[[], float]) -> JobView:
    """Return `job` with times in its reason updated to `true_until()`, if there are any."""
    if job.has_ended or not job.reason or " in " not in job.text:
        return job
    now = true_until()
    if now <= job.as_of:
        return job
    told = _text_at(now, job)
    return job if told is None else replace(job, text=told, as_of=now)


def rows_told_now(rows: Sequence[Row], true_until: Callable[[], float]) -> Sequence[Row]:
    """
    Return `rows` with the times in their reasons updated to `true_until()`.

    Each distinct sentence is updated once, and equal sentences stay equal. If there are very many
    distinct sentences, the last ones stay as they are.
    """
    from bastion.client.look.job_line import tells_time, with_text

    now, anew = true_until(), dict[str, str | None]()
    found: list[Row] = []
    for row in rows:
        if not tells_time(row) or now <= row.as_of:
            found.append(row)
            continue
        if row.text not in anew and len(anew) < _MANY:
            anew[row.text] = _text_at(now, row)
        told = anew.get(row.text)
        found.append(row if told is None else with_text(row, told, as_of=now))
    return found


def _text_at(now: float, row: Row) -> str | None:
    """Return the reason of `row` as text at `now`; None if its text is not that of its reason."""
    from bastion.records.coding.codec import decode
    from bastion.scheduler.reasons.reason import Reason, text

    kind = cast("Any", Reason)
    try:
        reason = decode(kind, json.dumps(dict(row.reason)).encode(), key="reason")
    except RecordError:  # of another version
        return None
    # The text may be about something else, such as a silent machine.
    return text(reason, now) if text(reason, row.as_of) == row.text else None


def why_of(job: JobView, status: StatusView | None) -> Why:
    """Return what a view of `job` says about its state; `status` is the bastion's, if any."""
    has_quota = status is None or status.has_quota
    soon = "the next cycle of the scheduler will say more"
    unsaid = soon if has_quota else "nothing starts while no quota file is in force"
    return Why(
        job=job.id,
        state=job.state,
        text=job.text or f"{job.state}; {unsaid}",
        reason=job.reason,
        estimated_at=job.estimated_at,
        confidence=job.confidence,
        samples=job.samples,
        margin_s=job.margin_s,
        confidence_text=job.confidence_text,
        as_of=job.as_of,
        quota_problem="" if status is None or job.has_ended else status.quota_problem,
        has_quota=has_quota,
    )
