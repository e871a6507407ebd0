"""
Fair reading of the inbox: a share of each turn for every user, even if one user sends a flood.

It is a pure function. A later turn reads what is left out. The requests of one owner keep their
order.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from bastion.value import value

OWNER_READS = 200
"""Objects that one turn reads for one user while others wait: about a hundred requests."""
TURN_READS = 1_000
"""Objects that one turn reads for all users: about a second on a cloud store with 16 workers."""
OWNER_BYTES = 4 << 20
"""Bytes of requests that one turn reads for one user: one launch of the largest size."""
TURN_BYTES = 16 << 20
"""Bytes of requests that one turn reads for all users."""
VALUE_BYTES = 30
"""
The most bytes of memory for one byte of a request, once it is decoded and checked.

Source: measured on a launch of 900 jobs with 50 processes of one short command each; a launch of
long texts takes 1.2.
"""


@value
class Wish:
    """A request that this turn could read, or continue to read."""

    key: str
    owner: str
    """Project and user."""
    reads: int
    """How many objects must be read for it."""
    size: int = 0
    """Bytes, as listed."""


def fair_share(
    wishes: Iterable[Wish], debts: Mapping[str, int] = MappingProxyType({})
) -> tuple[str, ...]:
    """
    Return the keys to read in this turn: one of each owner, then a second of each, and so on.

    The rest of the shares goes to the owners that have more requests, in the same way. Small
    requests go first, so that large ones from many owners cannot delay them. `debts` are reads that
    earlier turns did not foresee. An owner with debts of more than one turn waits.
    """
    waiting: dict[str, deque[Wish]] = defaultdict(deque)
    for wish in wishes:
        if debts.get(wish.owner, 0) < OWNER_READS:
            waiting[wish.owner].append(wish)
    turn = _Turn()
    turn.deal(waiting, most_reads=OWNER_READS)
    turn.deal(waiting, most_reads=TURN_READS)
    return tuple(turn.taken)


class _Turn:
    """The reads of one turn, while they are allotted."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self._reads: Counter[str] = Counter()
        self._sizes: Counter[str] = Counter()

    def deal(self, waiting: Mapping[str, deque[Wish]], *, most_reads: int) -> None:
        """Allot reads to `waiting`, round by round, up to `most_reads` for each owner."""
        owners = [owner for owner, wishes in waiting.items() if wishes]
        while owners:
            for owner in sorted(owners, key=lambda each: waiting[each][0].size):
                if self._has_room(waiting[owner][0], most_reads):
                    self._take(waiting[owner].popleft())
                    if waiting[owner]:
                        continue
                owners.remove(owner)

    def _has_room(self, wish: Wish, most_reads: int) -> bool:
        if not self.taken:
            return True  # the largest request alone exceeds the limit
        reads, size = self._reads[wish.owner] + wish.reads, self._sizes[wish.owner] + wish.size
        is_first = not self._reads[wish.owner]
        return (
            (is_first or (reads <= most_reads and size <= OWNER_BYTES))
            and self._reads.total() + wish.reads <= TURN_READS
            and self._sizes.total() + wish.size <= TURN_BYTES
        )

    def _take(self, wish: Wish) -> None:
        self.taken.append(wish.key)
        self._reads[wish.owner] += wish.reads
        self._sizes[wish.owner] += wish.size
