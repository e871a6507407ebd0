"""`JOB[/REPLICA]`: the argument that names a replica of a job."""

from __future__ import annotations

from launch.errors import UsageError
from launch.grammar.parser import Parser, number


def add_place(parser: Parser) -> None:
    """Add the arguments that name a host of a job."""
    parser.add_argument(
        "job", metavar="JOB[/REPLICA]", help="a job id or name, and the replica (default: 0)"
    )
    number(parser, "--host", "host of the replica, if it is a slice of several hosts (default: 0)")


def place_of(written: str) -> tuple[str, int]:
    """
    Parse the job and the replica in `written`.

    Raises:
        UsageError: The part after the slash is not a number.
    """
    name, _, replica = written.partition("/")
    if replica and not replica.isdecimal():
        raise UsageError(f"{replica!r} is not a replica; must be a number from 0, such as {name}/0")
    return name, int(replica or 0)
