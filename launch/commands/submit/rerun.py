"""Submit the launch of a job again: rerun."""

from __future__ import annotations

import argparse

from launch import exits
from launch.commands.submit.submitted import tell_next, tell_submitted
from launch.grammar.parser import Verbs, many, text
from launch.session import Session


def register(verbs: Verbs) -> None:
    """Add the verb of this file."""
    parser = verbs.add(
        "rerun",
        rerun,
        prints=True,
        text="Submits all jobs of the launch again. For an array, submits all tasks, or only the"
        " named ones.",
        example=(
            "bastion rerun trainer\nbastion rerun trainer --priority=1 --env=SEED=2\n"
            "bastion rerun sweep.4,17"
        ),
    )
    parser.add_argument("job", metavar="JOB", help="a job id or name")
    parser.add_argument("--priority", type=int, metavar="N", help="new priority, 1 (highest) to 5")
    many(parser, "--env", "add or change an environment variable", metavar="NAME=TEXT")
    text(parser, "--idempotency_key", "submitting again with the same key returns the same jobs")


def rerun(args: argparse.Namespace) -> int:
    """`bastion rerun JOB`."""
    from launch.submission.flags import pairs

    session = Session(args)
    handle = session.client.rerun(
        args.job,
        priority=args.priority,
        env=pairs("--env", args.env),
        idempotency_key=args.idempotency_key,
        project=args.project_id,
    )
    tell_submitted(session, handle, following=False)
    tell_next(session, handle)
    return exits.OK
