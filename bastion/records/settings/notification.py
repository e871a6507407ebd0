"""
Notifications: the message to a webhook when a job's state changes.

A notification stays in root until its webhook has accepted it, so it is sent at least once. Its id
is a function of the job, the attempt and the occasion, so a receiver can recognise a duplicate.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from bastion.job import JobRecord, Outcome, OutcomeKind, Phase, StopReason, state_of
from bastion.spec.notify import Notify, Occasion, WebhookKind
from bastion.spec.values.quantity import text_of_seconds
from bastion.value import value

MAX_TEXT_CHARACTERS = 500
"""Maximum length of an outcome's text: root holds it until it is delivered."""


@value
class Notification:
    """One message to one webhook."""

    id: str
    """The same on every delivery attempt."""
    to: str
    """Name or URL of the webhook."""
    kind: WebhookKind = ""
    occasion: Occasion
    state: str
    text: str = ""
    code: int | None = None
    job: str
    name: str = ""
    launch: str
    project: str
    user: str
    attempt: int = 0
    at: float
    """When it happened, in seconds of the store's clock, like the other times."""
    submitted_at: float
    started_at: float | None = None
    """When the attempt started running."""


def notifications_of(before: JobRecord, after: JobRecord, now: float) -> Iterator[Notification]:
    """Yield the notifications for the change from `before` to `after` at `now`."""
    occasion = _occasion(before, after)
    if occasion is None:
        return
    last = after.outcome or after.last
    idle = _idle(after) if occasion == "idle" else ""
    for number, notify in enumerate(after.notify):
        if not _is_wanted(notify, occasion, after.outcome):
            continue
        yield Notification(
            id=_id(after, occasion, number, now),
            to=notify.to,
            kind=notify.kind,
            occasion=occasion,
            state=state_of(after),
            text=(idle or (last.text if last is not None else ""))[:MAX_TEXT_CHARACTERS],
            code=last.code if last is not None and not idle else None,
            job=after.id,
            name=after.name,
            launch=after.launch,
            project=after.project,
            user=after.user,
            attempt=after.attempts,
            at=now,
            submitted_at=after.submitted_at,
            started_at=_started_at(after),
        )


def _id(job: JobRecord, occasion: Occasion, number: int, now: float) -> str:
    # An attempt can be idle several times; everything else happens to it once.
    when = f"-{int(now)}" if occasion == "idle" else ""
    return f"{job.id}.{job.attempts}.{occasion}{when}.{number}"


def _idle(job: JobRecord) -> str:
    """Return the missing sign of life of a job's first idle host; empty if none is idle."""
    hosts = job.attempt.each_host() if job.attempt is not None else ()
    return next((state.idle for _, _, _, state in hosts if state.idle and state.end is None), "")


def _occasion(before: JobRecord, after: JobRecord) -> Occasion | None:
    match before.phase, after.phase:
        case Phase.STARTING, Phase.RUNNING:
            return "started"
        case Phase.RUNNING, Phase.RUNNING if _idle(after) and not _idle(before):
            return "idle"
        case Phase.DRAINING, Phase.QUEUED if not _grows(before):
            was_preempted = after.last is not None and after.last.kind is OutcomeKind.PREEMPTED
            return "preempted" if was_preempted else "retried"
        case phase, Phase.DONE if phase is not Phase.DONE:
            return "ended"
    return None


def _grows(job: JobRecord) -> bool:
    """Whether an elastic job was stopped only to start again with more replicas."""
    stop = job.attempt.stop if job.attempt is not None else None
    was_stopped = job.last is not None and job.last.kind is OutcomeKind.STOPPED
    return was_stopped and stop is not None and stop.reason is StopReason.RESIZE


def _is_wanted(notify: Notify, occasion: Occasion, outcome: Outcome | None) -> bool:
    has_failed = outcome is not None and outcome.kind is not OutcomeKind.SUCCEEDED
    return occasion in notify.on or (has_failed and "failed" in notify.on)


def _started_at(job: JobRecord) -> float | None:
    if job.attempt is not None:
        return job.attempt.started_at
    return job.past[-1].started_at if job.past else None


def body_of(notification: Notification, kind: WebhookKind) -> bytes:
    """Return the body for a webhook of this kind; all kinds are JSON."""
    body = _slack(notification) if kind == "slack" else _json(notification)
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def _json(told: Notification) -> dict[str, Any]:
    return {
        "schema": 1,
        "id": told.id,
        "occasion": told.occasion,
        "state": told.state,
        "text": told.text,
        "code": told.code,
        "job": told.job,
        "name": told.name,
        "launch": told.launch,
        "project": told.project,
        "user": told.user,
        "attempt": told.attempt,
        "at": iso(told.at),
        "submitted_at": iso(told.submitted_at),
        "started_at": iso(told.started_at) if told.started_at is not None else None,
    }


def _slack(told: Notification) -> dict[str, str]:
    """
    Return the body of one Slack message.

    Source: Slack, "Formatting text for app surfaces": only `&`, `<` and `>` need escaping; `*`
    makes bold.
    """
    words = {
        "started": "is running",
        "idle": "is idle",
        "preempted": "was stopped for another job and waits to resume",
        "retried": "will be tried again",
        "ended": told.state.replace("_", " "),
        "failed": told.state.replace("_", " "),
    }
    line = f"*{_escaped(told.job)}* {words[told.occasion]}"
    if told.text and told.occasion != "started":
        line += f": {_escaped(told.text)}"
    about = [f"project {told.project}", told.user]
    about += [f"attempt {told.attempt}"] if told.attempt else []
    if told.started_at is not None and told.occasion != "started":
        about.append(f"ran {text_of_seconds(max(0.0, told.at - told.started_at))}")
    return {"text": f"{line}\n{_escaped(', '.join(about))}"}


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def iso(seconds: float) -> str:
    """Return `seconds` as ISO-8601 in UTC, with whole milliseconds."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
