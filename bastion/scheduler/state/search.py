"""
`Search`: what the searches of a cycle have found out, and which are left to the next.

Most of it avoids searches whose result is known. The rest is still to be done: what is `unseen`,
`loosened`, `is_deferred` or has been opened is considered again, now or in the next cycle.
"""

from __future__ import annotations

from bastion.scheduler.effort import Effort
from bastion.scheduler.queue.order import Gang
from bastion.scheduler.snapshot import Snapshot
from bastion.scheduler.state.holders.ends import Ends
from bastion.scheduler.state.holders.excess import Excess
from bastion.scheduler.state.holders.running import Running

Token = tuple[str, bool]
"""(first job of a gang, whether it outranks): one search."""


class Search:
    """The searches of one cycle."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.effort = Effort(snapshot.steps)
        self._before = snapshot.considered
        self.considered: set[Token] = set()
        """Searches of this cycle."""
        self.unseen: set[Token] = set()
        """Searches that are left to the next cycle: the steps are spent."""
        self.is_cut_short = False
        """Whether nothing borrows in this cycle: gangs within their share are `unseen`."""
        self.too_full: set[tuple[int, bool]] = set()
        """(form, guaranteed) that does not fit: while nothing is opened, capacity only shrinks."""
        self.no_slots: set[int] = set()
        """Forms for which no machine has enough free, and whose reservations hold nothing."""
        self.hopeless: set[tuple[str, int]] = set()
        """(project, shape) for which this cycle found no victims: capacity only shrinks."""
        self.loosened: set[str] = set()
        """Projects that lost a promise in this cycle: others of them may be within the share."""
        self.has_opened = False
        """Whether reserved capacity is open again: given up, or its gang started elsewhere."""
        self.no_gap: set[tuple[str, int]] = set()
        """(project, shape) that does not start before the planned starts of its project."""
        self.gaps: dict[int, bool] = {}
        """Form -> whether it might fit if all that is closed were open, once phase 5 has asked."""
        self.no_start: set[str] = set()
        """First jobs of gangs for which no planned start was found in this cycle."""
        self.no_room: dict[tuple[str, int], int] = {}
        """(project, form) -> the state of the shares that had no room for borrowing it."""
        self.borrowers: dict[str, list[Running]] = {}
        """Project -> its borrowers that stay, in the order in which they are tried."""
        self.excess: dict[str, Excess] = {}
        """Project -> how far above its share it is as these leave."""
        self.victims_seen = 0
        """How many changes of the victims these include."""
        self.ends: Ends | None = None
        """When running gangs end, as far as it is the same for all gangs that need their place."""
        self.limited: list[Running] | None = None
        """What runs and ends by itself, the first to end first; computed on request."""
        self.harm: dict[str, tuple[bool, bool, float, float, str]] = {}
        """Running gang -> what it would lose; see `least_lost`."""
        self.by_priority: dict[str, list[Running]] = {}
        """Project -> its running gangs in the order in which its own higher priority stops them."""
        self.classified: tuple[int, int, tuple[Running, ...]] | None = None
        """The promises and victims when starting gangs last got their class."""
        self.is_deferred = False
        """Whether a gang within its share may borrow rather than have others stopped."""
        self.patient: set[tuple[str, int]] = set()
        """(project, shape) for which nothing had to stop: enough becomes free anyway."""
        self.asked: set[tuple[str, int]] = set()
        """(project, shape) for which victims of lower priority were searched."""
        self.is_off = False
        """Whether this cycle searches nothing, and leaves nothing to the next."""
        self.apart: set[str] = set()
        """Projects of which lost jobs were set aside, because the rest of their gang is stopped."""

    def turn_off(self) -> None:
        """Let no search begin in this cycle."""
        self.is_off, self.effort.left = True, 0

    def may_search(self, gang: Gang, *, outranks: bool = False) -> bool:
        """
        Whether a search for `gang` may begin.

        It may not begin before all others have been considered, nor once the steps are spent: then
        it is left to the next cycle. It `outranks` if victims of its own project are searched.
        """
        token = gang[0].id, outranks
        if self.is_off or token in self._before:
            return False
        if self.effort.is_spent:
            self.unseen.add(token)
            return False
        self.considered.add(token)
        return True

    def considered_so_far(self) -> frozenset[Token]:
        """Return what the next cycle need not consider; nothing once all have been."""
        return self._before.union(self.considered) if self.unseen else frozenset()

    def is_unseen(self, gang: Gang) -> bool:
        """Whether a search for `gang` is left to the next cycle."""
        return (gang[0].id, False) in self.unseen or (gang[0].id, True) in self.unseen
