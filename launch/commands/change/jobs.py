"""Changes of jobs: cancel, hold, release, prioritize, update."""

from __future__ import annotations

import argparse

from launch import exits
from launch.commands.job_verb import add_job_verb
from launch.errors import UsageError
from launch.grammar.parser import Verbs, several, switch
from launch.grammar.states import own_state
from launch.screen.notes import note
from launch.screen.render import Column
from launch.session import Session
from launch.submission.foreign_flags import limit_of, minutes

ACTIVE = ("queued", "held", "starting", "running", "stopping", "draining", "preempted")
"""The states of jobs that have not ended."""


def register(verbs: Verbs) -> None:
    """Add the verbs of this file."""
    ended = add_job_verb(verbs, "cancel", cancel, count="*")
    switch(ended, "--mine", "cancel all of your active jobs")
    switch(ended, "--all", "cancel all active jobs of all users of the project that -p names")
    several(
        ended,
        "--state",
        "with --mine or --all: only jobs in this state",
        metavar="STATE",
        words=ACTIVE,
        read=own_state,
    )
    add_job_verb(verbs, "hold", hold, count="+")
    add_job_verb(verbs, "release", release, count="+")
    prioritize = add_job_verb(verbs, "prioritize", set_priority, count="+", flags=" --priority=1")
    prioritize.add_argument(
        "--priority", type=int, required=True, metavar="N", help="new priority, 1 (highest) to 5"
    )
    update = add_job_verb(verbs, "update", change, count="+", flags=" --max_runtime=8h")
    update.add_argument("--priority", type=int, metavar="N", help="new priority, 1 (highest) to 5")
    update.add_argument(
        "--max_runtime", metavar="TIME", help="new time limit of an attempt, such as 90s or 8h"
    )
    update.add_argument(*("-t", "--time"), dest="max_runtime", type=minutes, help=argparse.SUPPRESS)


def cancel(args: argparse.Namespace) -> int:
    """`bastion cancel JOB...`."""
    session = Session(args)
    names = _chosen(session) if args.mine or args.all or args.state else args.job
    if not names and not (args.mine or args.all or args.state):
        raise UsageError("no job given", hint="bastion cancel JOB..., or bastion cancel --mine")
    if not names:
        return _changed(session, (), "cancelled", why_none="no matching job is active")
    return _changed(session, session.client.cancel(*names, project=args.project_id), "cancelled")


def _chosen(session: Session) -> list[str]:
    """
    Return the ids of the active jobs that flags select.

    Raises:
        UsageError: They name no user or project, or jobs are named as well.
    """
    args, client = session.args, session.client
    if args.job:
        raise UsageError(
            f"{', '.join(args.job)}: jobs cannot be combined with --mine, --all or --state",
            hint="give either jobs or these flags",
        )
    if args.all and (args.mine or not session.args.project_id):
        raise UsageError("--all needs a project", hint="bastion cancel --all -p PROJECT")
    user = "" if args.all else client.user
    jobs = client.jobs(project=args.project_id, user=user, states=args.state)
    return [job.id for job in jobs if not job.has_ended]


def hold(args: argparse.Namespace) -> int:
    """`bastion hold JOB...`."""
    session = Session(args)
    return _changed(session, session.client.hold(*args.job, project=args.project_id), "held")


def release(args: argparse.Namespace) -> int:
    """`bastion release JOB...`."""
    session = Session(args)
    return _changed(session, session.client.release(*args.job, project=args.project_id), "released")


def set_priority(args: argparse.Namespace) -> int:
    """`bastion prioritize JOB... --priority=N`."""
    session = Session(args)
    jobs = session.client.prioritize(*args.job, priority=args.priority, project=args.project_id)
    return _changed(session, jobs, f"given priority {args.priority}")


def change(args: argparse.Namespace) -> int:
    """`bastion update JOB... --priority=N --max_runtime=TIME`."""
    if args.priority is None and args.max_runtime is None:
        raise UsageError(
            "nothing to change: give --priority or --max_runtime",
            hint=f"bastion update {args.job[0]} --max_runtime=8h",
        )
    session = Session(args)
    limit = limit_of("--max_runtime", args.max_runtime or "")
    jobs = session.client.update(
        *args.job, priority=args.priority, max_runtime=limit, project=args.project_id
    )
    return _changed(session, jobs, "updated")


def _changed(
    session: Session,
    jobs: tuple[str, ...],
    what: str,
    *,
    why_none: str = "the jobs have already ended",
) -> int:
    out = session.out
    if not jobs:
        note(f"nothing to do: {why_none}")
    columns: list[Column[str]] = [
        Column(title="JOB", text=str),
        Column(title="DONE", text=lambda _: what),
    ]
    if out.format == "json":
        out.json({"jobs": list(jobs), "done": what})
    elif jobs:
        out.show("jobs", jobs, columns, name=str)
        if ended := getattr(jobs, "ended", {}):
            note(f"already ended: {', '.join(ended)}")
    return exits.OK
