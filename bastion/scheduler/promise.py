"""The scheduler's commitments: promises for gangs within their share, and planned starts."""

from __future__ import annotations

from bastion.job import Placement
from bastion.value import value


@value
class Promise:
    """
    Devices kept for a gang by a deadline, within a share or for its priority alone.

    `placements` are closed to every other gang, except a borrower whose time limit ends before the
    deadline. `victims` are being stopped for the promise, or will be at their stop time.
    """

    gang: tuple[str, ...]
    """Ids of its jobs; the first one names the promise."""
    placements: tuple[Placement, ...]
    """One per job, in the order of `gang`."""
    deadline: float
    """In seconds of the store's clock: the last victim's stop time plus its grace period."""
    victims: tuple[tuple[str, float], ...] = ()
    """(job, stop time) of each victim."""
    made_at: float = 0.0
    within_share: bool = True
    """
    Whether the gang is within its project's share once the victims are gone.

    Otherwise the promise rests on priority alone, and a gang within its share may break it.
    """


@value
class PlannedStart:
    """A future start for an aged gang; backfill continues around it."""

    gang: tuple[str, ...]
    placements: tuple[Placement, ...]
    at: float | None
    """In seconds of the store's clock; None while it drains endless jobs of its project."""
