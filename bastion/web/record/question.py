"""What pages ask the record: the sums over a period, or the jobs that ended in it."""

from __future__ import annotations

from bastion.value import value


@value
class Listed:
    """Which ended jobs are listed; empty texts do not restrict them."""

    number: int = 1
    """The part of the list, counted from 1; beyond the last one, that one."""
    project: str = ""
    user: str = ""
    state: str = ""
    search: str = ""
    """A part of any text of theirs, ignoring case."""
    has_tasks: bool = False
    """Whether the tasks of arrays are listed; an array has a row of its own."""


@value
class Period:
    """What is asked about."""

    since: float
    until: float
    parts: int
    listed: Listed | None = None
    """None: the sums are wanted."""
