"""A provider, and what goes wrong there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.contracts.provider_place import Place


@dataclass(frozen=True, kw_only=True)
class Ground:
    """A provider, and what goes wrong there; each switch is in force until it is turned off."""

    place: Place
    lose: Callable[[bool], None]
    """Lose the answer of the next create; whether it is carried out."""
    keep_deleted: Callable[[bool], None]
    """Whether deletions are accepted and not done."""
    vanish: Callable[[str], None]
    """End the machine of this name, though the bastion did not ask for that."""
    come_back: Callable[[], None] = lambda: None
    """Let a host that vanished come back, with nothing running."""
    stock: Callable[[int | None], None] | None = None
    """How many more machines there are in the first zone, or at all where there are no zones."""
    lag: Callable[[float], None] | None = None
    expire: Callable[[bool], None] | None = None
    pace: Callable[[bool], None] | None = None
    """Whether every call is one too many; on hosts of one's own, whether none answers."""
