"""The list of jobs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from launch import exits
from launch.errors import UsageError
from launch.grammar.parser import Verbs, number, several, switch, text
from launch.grammar.states import own_state
from launch.screen.job_table import id_of, job_columns
from launch.screen.notes import note
from launch.screen.render import (
    STATE_COLORS,
    counted,
    iso,
)
from launch.session import Session

if TYPE_CHECKING:
    from bastion.client import JobView
    from bastion.client.look.job_line import JobLine

_WATCH_S = 1.0
"""The shortest time between two redraws; a slow store is polled less often."""
_CLEAR = "\x1b[H\x1b[2J"
"""Move to the first line and erase the screen (ECMA-48)."""


def register(verbs: Verbs) -> None:
    """Add the verbs of this file."""
    jobs = verbs.add(
        "list",
        show_list,
        aliases=("ls", "queue"),
        prints=True,
        text="--project_id and --user_id show only their jobs.",
        example="bastion list --state=running\nbastion list --all --since=1d\nbastion list --watch",
    )
    several(
        jobs,
        "--state",
        "show only jobs in this state",
        metavar="STATE",
        words=list(STATE_COLORS),
        read=own_state,
    )
    switch(jobs, "--mine", "show only your own jobs")
    switch(jobs, "-a --all", "also show jobs that have ended")
    text(
        jobs,
        "--since",
        "show only jobs submitted or ended in this last period, such as 90s or 2h",
        metavar="TIME",
    )
    switch(jobs, "--tasks", "also show the admitted tasks of arrays, one per line")
    number(jobs, "--limit", "show at most this many ended jobs", default=50)
    switch(jobs, "--watch", "refresh until Ctrl-C")


def show_list(args: argparse.Namespace) -> int:
    """`bastion list`."""
    session = Session(args)
    if args.limit < 0:
        raise UsageError(f"--limit: {args.limit} is not allowed; must be 0 or more")
    if not args.watch:
        _show(session)
        return exits.OK
    if not session.out.terminal or session.is_quiet:
        raise UsageError("--watch: needs a terminal", hint="for programs: bastion list --json")
    try:
        while True:
            sys.stdout.write(_CLEAR)
            _show(session)
            session.client.clock.sleep(max(_WATCH_S, session.client.poll_s))
            session = Session(args)
    except KeyboardInterrupt:
        return exits.OK


def _show(session: Session) -> None:
    from bastion.spec import seconds_of

    client, args = session.client, session.args
    read = client.jobs if session.out.format == "json" else client.job_lines
    jobs: Sequence[JobView | JobLine] = read(
        project=args.project_id,
        user=client.user if args.mine else args.user_id,
        states=args.state,
        finished=args.limit if args.all else 0,
        tasks=args.tasks,
    )
    as_of = client.queue_as_of()
    if args.since:
        oldest = as_of - seconds_of("--since", args.since)
        jobs = tuple(job for job in jobs if (job.ended_at or job.submitted_at) >= oldest)
    columns = job_columns(
        session.out,
        as_of,
        jobs,
        has_no_machines=not session.is_quiet and session.has_ended_machines,
    )
    session.out.show("jobs", jobs, columns, name=id_of, more={"as_of": iso(as_of)})
    if not session.is_quiet:
        note(f"{counted(len(jobs), 'job')} as of {session.out.time(as_of)}")
        if not jobs and not args.all:
            note("to see jobs that have ended: bastion list --all")
        if not jobs and args.project_id:
            _note_unknown_project(session)
    session.note_absence()


def _note_unknown_project(session: Session) -> None:
    """Note that the requested project does not exist, if the quota file is known."""
    from quota.choice import choose

    quota, name = session.client.quota_in_force(), session.args.project_id
    if quota is not None and name not in quota.projects:
        note(f"no project is named {name}; {choose(name, quota.projects)}")
