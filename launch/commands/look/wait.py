"""Wait until jobs have ended."""

from __future__ import annotations

import argparse

from launch import exits
from launch.commands.job_verb import add_job_verb
from launch.grammar.parser import Verbs, text
from launch.screen.followed import tell_ended
from launch.screen.job_table import id_of, job_columns
from launch.screen.notes import note
from launch.screen.progress import bar
from launch.session import Session


def register(verbs: Verbs) -> None:
    """Add the verbs of this file."""
    wait = add_job_verb(verbs, "wait", wait_for, count="+")
    text(
        wait,
        "--timeout",
        "stop waiting after this time, such as 90s or 2h, and exit with 124",
        metavar="TIME",
    )


def wait_for(args: argparse.Namespace) -> int:
    """`bastion wait JOB...`."""
    from bastion.spec import seconds_of

    session = Session(args)
    timeout_s = None if not args.timeout else seconds_of("--timeout", args.timeout)
    try:
        with bar(shown=not session.is_quiet) as draw:
            jobs = session.client.wait(
                args.job,
                timeout_s=timeout_s,
                project=args.project_id,
                report=lambda done, total: draw("waiting", done, total),
            )
    except KeyboardInterrupt:
        note("stopped waiting; the jobs continue")
        return exits.DETACHED
    out = session.out
    out.show("jobs", jobs, job_columns(out, out.now, jobs), name=id_of)
    for job in jobs:
        if not job.has_ended and not session.is_quiet:
            tell_ended(out, job)
    return exits.of_jobs(jobs)
