"""A verb about jobs: each is named as a user names it."""

from __future__ import annotations

from launch.grammar.parser import Parser, Run, Verbs

CHANGES = ("cancel", "hold", "release", "prioritize", "update")
"""Verbs that take no beginning of an id."""
_NAMED = "an id or a name"


def add_job_verb(
    verbs: Verbs, name: str, run: Run, *, count: str | None = None, flags: str = ""
) -> Parser:
    """A verb about one job, or as many as `count` says."""
    example = f"bastion {name} trainer{flags}"
    parser = verbs.add(name, run, prints=True, example=example)
    meaning = _NAMED if name in CHANGES else f"{_NAMED}, or the beginning of an id"
    parser.add_argument("job", nargs=count, metavar="JOB", help=meaning)
    return parser
