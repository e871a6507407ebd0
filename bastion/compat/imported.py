"""What became of a file of another system."""

from __future__ import annotations

from bastion.spec import Launch
from bastion.value import value


@value
class Imported:
    """A launch, and what its author should know about it."""

    launch: Launch
    notes: tuple[str, ...] = ()
    """What is so here anyway, or otherwise; one line each, for people."""
