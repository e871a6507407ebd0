"""The list of jobs."""

from __future__ import annotations

import argparse

from launch import exits
from launch.grammar.parser import Verbs, many, number, switch
from launch.screen.job_table import id_of, job_columns
from launch.screen.notes import note
from launch.screen.render import (
    STATE_COLORS,
    counted,
    iso,
)
from launch.session import Session


def register(verbs: Verbs) -> None:
    """Add the verbs of this file."""
    jobs = verbs.add(
        "list",
        show_list,
        "list active jobs: running first, then the queue",
        aliases=("ls", "queue"),
        prints=True,
        text="Where --project_id or --user_id is given, only theirs.",
        example="bastion list --state=running\nbastion list -q | xargs bastion cancel",
    )
    many(jobs, "--state", "only in this state", metavar="STATE", words=list(STATE_COLORS))
    switch(jobs, "--mine", "only my own")
    switch(jobs, "-a --all", "finished jobs too")
    switch(jobs, "--tasks", "tasks of arrays too that were admitted, each on a line of its own")
    number(jobs, "--limit", "at most so many finished jobs", default=50)


def show_list(args: argparse.Namespace) -> int:
    """`bastion list`."""
    session = Session(args)
    client = session.client
    finished = args.limit if args.all else 0
    jobs = client.jobs(
        project=args.project_id,
        user=client.user if args.mine else args.user_id,
        states=args.state,
        finished=finished,
        tasks=args.tasks,
    )
    as_of = client.queue_as_of()
    session.out.show(
        "jobs", jobs, job_columns(session.out, as_of, jobs), name=id_of, more={"as_of": iso(as_of)}
    )
    if not session.is_quiet:
        note(f"{counted(len(jobs), 'job')} as of {session.out.time(as_of)}")
    session.note_absence()
    return exits.OK
