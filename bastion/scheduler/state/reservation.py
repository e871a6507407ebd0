"""
What is closed for one waiting gang until a time: a promise, or a planned start.

It must not know how it was found.
"""

from __future__ import annotations

from collections.abc import Sequence

from bastion.scheduler.placement.capacity import Hold
from bastion.scheduler.placement.place import Placed
from bastion.scheduler.queue.order import Gang
from bastion.scheduler.queue.shape import Shape
from bastion.scheduler.state.footprint import Footprint, pairs_of
from bastion.scheduler.state.running import Running
from quota.amounts import Amounts


class Reserved:
    """Devices closed for one waiting gang until a time."""

    def __init__(
        self,
        *,
        gang: Gang,
        shape: Shape,
        placed: Placed,
        until: float,
        is_promise: bool,
        victims: tuple[Running, ...] = (),
        waits: Sequence[Running] = (),
    ) -> None:
        self.gang = gang
        self.shape = shape
        self.placed = placed
        self.until = until
        self.is_promise = is_promise
        """Otherwise a planned start: only a gang within its share may come in between."""
        self.victims = victims
        self.waits = tuple(waits)
        """Who must have ended before it starts; what they give back counts once."""
        self.holds_quota = is_promise
        """Whether its project counts as holding it already."""
        self.gifts: list[tuple[Running, Amounts]] = []
        """(who it waits for, what of its room in the quota he holds now)"""
        self.paid: list[tuple[Running, int, Amounts]] = []
        """(who it waits for, tier, what of its charge he pays now)"""
        self.name = gang[0].id
        self.footprint = Footprint(pairs_of(shape.parts, placed.placements))
        self.hold: Hold | None = None
