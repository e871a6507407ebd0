"""What the scheduler committed itself to: promises for gangs within their share, planned starts."""

from __future__ import annotations

from bastion.job import Placement
from bastion.value import value


@value
class Promise:
    """
    Devices kept for a gang by a deadline, within a share or for its priority alone.

    `placements` are closed to every other gang, except to a borrower whose time limit ends before
    the deadline. `victims` are being stopped for it, or will be at their stop time.
    """

    gang: tuple[str, ...]
    """Ids of its jobs; the first names it."""
    placements: tuple[Placement, ...]
    """Job by job, as in `gang`."""
    deadline: float
    """Store's seconds: the last victim's stop time plus its grace."""
    victims: tuple[tuple[str, float], ...] = ()
    """(job, stop time) of each victim."""
    made_at: float = 0.0
    within_share: bool = True
    """
    Whether its gang is within its project's share once the victims are gone.

    Otherwise it rests on priority alone, and a gang within its share may break it.
    """


@value
class PlannedStart:
    """A start in the future for an aged gang; backfill goes on around it."""

    gang: tuple[str, ...]
    placements: tuple[Placement, ...]
    at: float | None
    """Store's seconds; None while it drains what jobs without a limit of its project hold."""
