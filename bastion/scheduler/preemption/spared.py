"""
Spared: which of many gangs need not stop for a gang to fit, found with few questions.

This module must not know what stops, nor what fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def spared(
    some: Sequence[T], go: Callable[[Sequence[T], int], None], has_room: Callable[[], bool]
) -> Iterator[T]:
    """
    Keep, one after the other, each of `some` that the room does not depend on.

    The number tried together doubles after each success, and halves after each failure. Room only
    grows as more of them go, so the result is the same as trying each alone.

    Args:
        some: They are gone, and what is not returned is gone when this ends.
        go: Removes some of them (1), or puts them back (-1).
        has_room: Whether there is room now.
    """
    at, many = 0, 1
    while at < len(some):
        part = some[at : at + many]
        go(part, -1)
        if has_room():
            yield from part
            at, many = at + len(part), 2 * many
            continue
        go(part, 1)
        if len(part) == 1:
            at += 1
        many = max(1, len(part) // 2)
