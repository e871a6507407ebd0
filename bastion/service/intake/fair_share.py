"""
What one turn reads of the inbox: a little of everybody's, however much of one user's there is.

A pure function. What is left out is read by a later turn: requests of one owner keep their order.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from bastion.value import value

OWNER_READS = 200
"""Objects that one turn reads for one user while others wait: some hundred requests."""
TURN_READS = 1_000
"""Objects that one turn reads for all users: about a second on a cloud store with 16 workers."""
OWNER_BYTES = 4 << 20
"""Of requests that one turn reads for one user: one launch of the largest size."""
TURN_BYTES = 16 << 20
"""Of requests that one turn reads for all users."""
VALUE_BYTES = 30
"""What a byte of a request takes in memory, at most, once it is checked and made into values.

Source: a launch of 900 jobs with 50 processes of one short command each, measured; a launch of long
texts takes 1.2.
"""


@value
class Wish:
    """One request that could be read, or read on, in this turn."""

    key: str
    owner: str
    """Project and user."""
    reads: int
    """Objects that it costs."""
    size: int = 0
    """Bytes, as listed."""


def fair_share(
    wishes: Iterable[Wish], debts: Mapping[str, int] = MappingProxyType({})
) -> tuple[str, ...]:
    """
    The keys that are read in this turn: one of each owner, then a second of each, and so on.

    What all owners' shares leave of the turn goes to those that want more, in the same way. The
    smallest go first, so that large ones of many owners keep no small one out. `debts` are reads
    of turns before that were not foreseen: an owner waits until it has no more than a turn's.
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
    """What one turn reads, while it is dealt out."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self._reads: Counter[str] = Counter()
        self._sizes: Counter[str] = Counter()

    def deal(self, waiting: Mapping[str, deque[Wish]], *, most_reads: int) -> None:
        """Take from `waiting`, round by round, up to `most_reads` of each owner."""
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
            return True  # the largest alone is more than a turn's
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
