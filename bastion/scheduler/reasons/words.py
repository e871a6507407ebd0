"""The words that reasons share."""

from __future__ import annotations

from bastion.spec.quantity import text_of_seconds

NAMED = 3
"""How many names a sentence lists before it counts the rest."""


def when(at: float, now: float) -> str:
    """A time, as told to somebody who asks at `now`."""
    return f"in {text_of_seconds(at - now)}" if at > now else "now"


def listed(names: tuple[str, ...]) -> str:
    """The first of `names`, and how many more there are."""
    rest = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {rest} more" if rest > 0 else "")


def counted(number: int, noun: str) -> str:
    """`1 machine`, `2 machines`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
