"""Files of other systems, as files of ours."""

from __future__ import annotations

import argparse

from launch import exits
from launch.grammar.parser import Verbs
from launch.screen.render import write_lines
from launch.session import Session
from launch.submission.foreign import add_code_flags, foreign_launch, is_foreign


def register(verbs: Verbs) -> None:
    """Add the verb of this file."""
    parser = verbs.add(
        "import",
        convert,
        prints=True,
        text="Of Slurm scripts (.sbatch .slurm .sh) and AXLearn job specs (.json). What cannot be"
        " mapped is refused with its line; bastion launch FILE submits at once.",
        example="bastion import job.sbatch > spec.toml\nbastion import job.sbatch -- --lr=0.1",
    )
    parser.behind = "ARGUMENTS..."
    parser.add_argument("source", nargs=1, metavar="FILE", help="the file")
    add_code_flags(parser)


def convert(args: argparse.Namespace) -> int:
    """`bastion import FILE`."""
    from bastion.client.submit.launch_file import launch_text
    from bastion.records.coding.codec import plain
    from launch.errors import UsageError

    session = Session(args)
    if not is_foreign(args.source[0]):
        raise UsageError(
            f"{args.source[0]!r} is neither a Slurm script nor an AXLearn job spec",
            hint="they are called .sbatch, .slurm, .sh or .bash, and .json;"
            " of others: bastion help come-from-another-system",
        )
    launch = foreign_launch(session)
    if session.out.format == "json":
        session.out.json({"launch": plain(launch)})
    else:
        write_lines([launch_text(launch).rstrip("\n")])
    return exits.OK
