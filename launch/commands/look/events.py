"""What happened: to some jobs, or to all."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from launch import exits
from launch.errors import UsageError
from launch.grammar.parser import Verbs, number, switch, text
from launch.screen.notes import note
from launch.screen.render import Column, counted, iso, local, plain, span, write_lines
from launch.session import Session

if TYPE_CHECKING:
    from bastion.client import EventView

_TAIL = 50
"""How many events a terminal shows by default: the newest, about one screen."""
_LONG_S = 60.0
"""The shortest wait in the queue that is reported."""
_JOINS = ("submitted", "ready", "queued", "preempted")
"""What happens to a job that joins the queue."""


class _Wait(NamedTuple):
    """One time in the queue."""

    length_s: float
    job: str
    since: float
    until: float | None
    """None: it is still waiting."""


def register(verbs: Verbs) -> None:
    """Add the verb of this file."""
    events = verbs.add(
        "events",
        show_events,
        prints=True,
        text=f"Without a job, shows the events of all jobs; a terminal then shows the last {_TAIL}."
        " -q prints the id of each job that has an event, once.",
        example="bastion events trainer\nbastion events --since=2h --tail=100\nbastion events -f",
    )
    events.add_argument(
        "job", nargs="*", metavar="JOB", help="a job id or name, or the beginning of an id"
    )
    number(events, "-n --tail", "show only the last N events")
    text(
        events, "--since", "show only events of this last period, such as 90s or 2h", metavar="TIME"
    )
    switch(events, "-f --follow", "keep printing new events until the jobs end, or until Ctrl-C")


def show_events(args: argparse.Namespace) -> int:
    """`bastion events [JOB...]`."""
    session = Session(args)
    if args.tail is not None and args.tail < 0:
        raise UsageError(f"--tail: {args.tail} is not allowed; must be 0 or more")
    since = _since(session)
    if args.follow:
        return _follow(session, since)
    events, shown = _known(session, since)
    out = session.out
    if out.format == "name":
        write_lines(list(dict.fromkeys(event.job for event in shown if event.job)))
    else:
        out.show("events", shown, _columns(session), name=lambda event: event.job)
    if len(shown) < len(events) and not session.is_quiet:
        newest = counted(len(shown), "event")
        note(f"the last {newest}; use --tail=N or --since=TIME to see more")
    if args.job and out.format in ("table", "wide"):
        _tell_wait(session, events)
    session.note_absence()
    return exits.OK


def _tell_wait(session: Session, events: Sequence[EventView]) -> None:
    """Note the longest wait in the queue, and the command that shows who used the devices then."""
    found = max(_waits(events, now=session.client.queue_as_of()), default=None)
    if found is None or found.length_s < _LONG_S:
        return
    moment = session.out.time
    told = "has waited" if found.until is None else "waited"
    until = "" if found.until is None else f" until {moment(found.until)}"
    asks = f"bastion usage --by=project,user --since={iso(found.since)}"
    asks += "" if found.until is None else f" --until={iso(found.until)}"
    length, since = span(found.length_s), moment(found.since)
    note(f"{found.job} {told} {length} in the queue, since {since}{until}")
    note(f"what used the devices in that time: {asks}")


def _waits(events: Iterable[EventView], *, now: float) -> list[_Wait]:
    """
    Return every wait in the queue that ended with a start, or has not ended.

    The tasks of an array join the queue with it. The array waits until one of its tasks has
    started; no event says how long the other tasks wait after that.
    """
    from bastion.client.look.views import ENDED
    from bastion.spec import tasks_of_id

    found: list[_Wait] = []
    joined: dict[str, float] = {}
    begun: set[str] = set()
    arrays: set[str] = set()
    """Of which a task has begun."""
    for event in events:
        if event.what in _JOINS:
            joined[event.job] = event.at
        elif event.what in ("starting", "held", *ENDED):
            task = tasks_of_id(event.job)
            since = joined.pop(event.job, None)
            if task is not None and event.what == "starting" and event.job not in begun:
                since = joined.get(task[0]) if since is None else since
                begun.add(event.job)
                arrays.add(task[0])
            if since is not None and event.what == "starting":
                found.append(_Wait(event.at - since, event.job, since, event.at))
    left = ((job, since) for job, since in joined.items() if job not in arrays)
    return found + [_Wait(now - since, job, since, None) for job, since in left]


def _follow(session: Session, since: float) -> int:
    """Print past events, then new ones as they happen."""
    args, client, out = session.args, session.client, session.out
    known, shown = _known(session, since)
    first = shown[0].number if shown else known[-1].number + 1 if known else 0
    since = shown[0].at if shown else since
    columns = _columns(session)
    named: set[str] = {""}
    try:
        for event in client.follow_events(*args.job, project=args.project_id, since=since):
            if event.number < first:
                continue
            if out.format == "json":
                out.json({"event": plain(event)})
            elif out.format == "name":
                write_lines([event.job] if event.job not in named else [])
                named.add(event.job)
            else:
                write_lines(["  ".join(filter(None, (each.text(event) for each in columns)))])
    except KeyboardInterrupt:
        return exits.DETACHED
    return exits.OK


def _since(session: Session) -> float:
    from bastion.spec import seconds_of

    if not session.args.since:
        return 0.0
    return session.client.queue_as_of() - seconds_of("--since", session.args.since)


def _known(session: Session, since: float) -> tuple[Sequence[EventView], Sequence[EventView]]:
    """Return past events, and those of them to show; of all jobs, one more than is shown."""
    args, out = session.args, session.out
    tail = args.tail
    if tail is None and not args.job and not args.since and out.terminal and not out.is_quiet:
        tail = _TAIL
    last = None if tail is None or args.job else tail + 1
    known = session.client.events(*args.job, project=args.project_id, since=since, last=last)
    return known, known if tail is None else known[max(0, len(known) - tail) :]


def _columns(session: Session) -> list[Column[EventView]]:
    return [
        Column(title="AT", text=lambda event: (local if session.out.terminal else iso)(event.at)),
        Column(title="JOB", text=lambda event: event.job),
        Column(title="WHAT", text=lambda event: event.what),
        Column(title="TEXT", text=lambda event: event.text),
    ]
