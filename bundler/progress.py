"""The progress of a long step, as a value that a caller may draw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a long step at one moment."""

    step: Literal["read", "send", "fetch", "build", "push"]
    done: int
    """Bytes; lines of output for `build` and `push`."""
    total: int
    """In the same unit; 0 if unknown."""


Report: TypeAlias = Callable[[Progress], None]
"""Called on the caller's thread, never concurrently."""


def unreported(progress: Progress) -> None:
    """Report nothing."""
