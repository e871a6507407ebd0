"""
`Hold`: what is closed for one gang on machines, and what that costs.

It must not know for how long.
"""

from __future__ import annotations

from bastion.scheduler.placement.room import Room
from quota.amounts import Amounts

Charge = tuple[Amounts, ...]
"""What is charged for a placement, tier by tier, of the types under quota."""


class Hold:
    """Devices closed for one gang; to be lifted as one."""

    __slots__ = ("charge", "counts", "guests", "masks", "wholes")

    def __init__(self) -> None:
        self.charge: Charge = ()
        self.masks: list[tuple[Room, str, int, int, int]] = []
        """(room, type, devices wanted, of them those that were free, those that others hold)"""
        self.counts: list[tuple[Room, str, int, int]] = []
        self.guests: list[Room] = []
        self.wholes: list[Room] = []
