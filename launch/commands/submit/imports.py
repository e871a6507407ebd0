"""Convert job files of other systems to launch files."""

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
        text="Converts Slurm scripts (.sbatch, .slurm, .sh) and AXLearn job specs (.json). An"
        " option that cannot be converted is an error that names its line. bastion launch FILE"
        " submits such a file directly.",
        example="bastion import job.sbatch > spec.toml\nbastion import job.sbatch -- --lr=0.1",
    )
    parser.behind = "ARGUMENTS..."
    parser.add_argument("source", nargs=1, metavar="FILE", help="the file to convert")
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
            hint="Slurm scripts end in .sbatch, .slurm, .sh or .bash, job specs in .json;"
            " for other systems: bastion help come-from-another-system",
        )
    launch = foreign_launch(session)
    if session.out.format == "json":
        session.out.json({"launch": plain(launch)})
    else:
        write_lines([launch_text(launch).rstrip("\n")])
    return exits.OK
