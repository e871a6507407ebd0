"""Download the output files that jobs keep."""

from __future__ import annotations

import argparse

from launch import exits
from launch.grammar.parser import Verbs, number
from launch.screen.notes import note
from launch.screen.progress import bar
from launch.screen.render import counted, iso, plain
from launch.session import Session


def register(verbs: Verbs) -> None:
    """Add the verb of this file."""
    parser = verbs.add(
        "fetch",
        fetch,
        prints=True,
        text="Works while the job runs and after it has ended. Run again, it downloads only files"
        " that are missing or have changed. Each replica has its own folder: r0, r1, and so on."
        " Each task of an array has a folder with those, named by its index.",
        example="bastion fetch trainer\nbastion fetch trainer results/ --attempt=1\n"
        "bastion fetch sweep.0-9 results/",
    )
    parser.add_argument("job", metavar="JOB", help="a job id or name, or the beginning of an id")
    parser.add_argument(
        "folder",
        nargs="?",
        default="",
        metavar="FOLDER",
        help="target folder (default: ./ID of the job)",
    )
    number(parser, "--attempt", "attempt to download (default: the newest that kept files)")
    number(parser, "--replica", "only this replica")


def fetch(args: argparse.Namespace) -> int:
    """`bastion fetch JOB [FOLDER]`."""
    from bastion.spec import text_of_bytes

    session = Session(args)
    with bar(shown=not session.is_quiet, is_bytes=True) as draw:
        found = session.client.fetch(
            args.job,
            args.folder,
            attempt=args.attempt,
            replica=args.replica,
            project=args.project_id,
            report=lambda now: draw(now.step, now.done, now.total),
        )
    if session.out.format == "json":
        session.out.json({"fetched": plain(found)})
        return exits.OK
    print(found.folder, flush=True)
    if not session.is_quiet:
        size, read = text_of_bytes(found.size_bytes), text_of_bytes(found.fetched_bytes)
        of = f" of {counted(found.tasks, 'task')}" if found.tasks else ""
        note(f"{counted(found.files, 'file')}{of}, {size}; {read} downloaded now")
        note(f"kept by attempt {', '.join(map(str, found.attempts))}, {iso(found.kept_at)}")
    return exits.OK
