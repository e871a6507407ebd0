"""How far a long step has come, as a value that a caller may draw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """One look at a step that takes long."""

    step: Literal["read", "send", "fetch", "build", "push"]
    done: int
    """Bytes; lines of output for `build` and `push`."""
    total: int
    """In the same unit; 0 when it is not known."""


Report: TypeAlias = Callable[[Progress], None]
"""Is called from the thread that made the call, never from two at once."""


def unreported(progress: Progress) -> None:
    """Report nothing."""
