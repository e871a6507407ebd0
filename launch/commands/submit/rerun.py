"""What code ran: rerun, and the part of show that tells it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from launch import exits
from launch.commands.submit.submitted import tell_next, tell_submitted
from launch.grammar.parser import Verbs, many, text
from launch.session import Session

if TYPE_CHECKING:
    pass


def register(verbs: Verbs) -> None:
    """Add the verb of this file."""
    parser = verbs.add(
        "rerun",
        rerun,
        prints=True,
        text="All jobs of a launch are submitted again; of an array all tasks, or those that are"
        " named.",
        example=(
            "bastion rerun trainer\nbastion rerun trainer --priority=1 --env=SEED=2\n"
            "bastion rerun sweep.4,17"
        ),
    )
    parser.add_argument("job", metavar="JOB", help="an id or a name")
    parser.add_argument(
        "--priority", type=int, metavar="N", help="in place of its own, 1 (highest) to 5"
    )
    many(parser, "--env", "a further variable, or another value of one", metavar="NAME=TEXT")
    text(parser, "--idempotency_key", "submitting again with the same key gives the same jobs")


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
