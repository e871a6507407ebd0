"""A verb about jobs, which the user names by id or name."""

from __future__ import annotations

from launch.grammar.parser import Parser, Run, Verbs

CHANGES = ("cancel", "hold", "release", "prioritize", "update")
"""Verbs that do not accept the beginning of an id."""
_NAMED = "a job id or name"


def add_job_verb(
    verbs: Verbs, name: str, run: Run, *, count: str | None = None, flags: str = ""
) -> Parser:
    """Add a verb about one job, or as many as `count` says."""
    example = f"bastion {name} trainer{flags}"
    parser = verbs.add(name, run, prints=True, example=example)
    meaning = _NAMED if name in CHANGES else f"{_NAMED}, or the beginning of an id"
    parser.add_argument("job", nargs=count, metavar="JOB", help=meaning)
    return parser
