"""A provider and its faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.contracts.provider_place import Place


@dataclass(frozen=True, kw_only=True)
class Ground:
    """A provider and its faults; each switch applies until it is turned off."""

    place: Place
    lose: Callable[[bool], None]
    """Lose the answer of the next create; the argument says whether it is carried out."""
    keep_deleted: Callable[[bool], None]
    """Whether deletions are accepted and not carried out."""
    vanish: Callable[[str], None]
    """End the machine of this name without a request from the bastion."""
    come_back: Callable[[], None] = lambda: None
    """Let a host that disappeared come back, with nothing running."""
    stock: Callable[[int | None], None] | None = None
    """How many more machines there are in the first zone, or in total if there are no zones."""
    lag: Callable[[float], None] | None = None
    expire: Callable[[bool], None] | None = None
    pace: Callable[[bool], None] | None = None
    """Whether every call exceeds the rate limit; on your own hosts, whether none answers."""
