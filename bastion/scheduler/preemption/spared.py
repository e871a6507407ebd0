"""
Spared: which of many need not go for a gang to fit, found in few questions.

It must not know what goes, nor what fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def spared(
    some: Sequence[T], go: Callable[[Sequence[T], int], None], has_room: Callable[[], bool]
) -> Iterator[T]:
    """
    Keep, one after the other, each of `some` without which there is room all the same.

    Twice as many are tried at once after each success, and half as many where that fails: room only
    grows as more of them go, so that the outcome is that of trying each alone.

    Args:
        some: They have gone, and what is not returned has gone when this ends.
        go: Lets some of them go (1), or puts them back (-1).
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
