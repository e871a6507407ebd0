"""
What one turn reads of the inbox: a little of everybody's, however much of one user's there is.

A pure function. What is left out is read by a later turn: requests of one owner keep their order.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from bastion.value import value

OWNER_READS = 200
"""Objects that one turn reads for one user: about a hundred requests, their looks included."""
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

    The smallest go first, so that large ones of many owners keep no small one out. `debts` are
    reads of turns before that were not foreseen: an owner waits until it has no more than a turn's.
    """
    waiting: dict[str, deque[Wish]] = defaultdict(deque)
    for wish in wishes:
        if debts.get(wish.owner, 0) < OWNER_READS:
            waiting[wish.owner].append(wish)
    spent = dict.fromkeys(waiting, 0)
    weights = dict.fromkeys(waiting, 0)
    taken: list[str] = []
    reads = size = 0
    while waiting:
        for owner in sorted(waiting, key=lambda each: waiting[each][0].size):
            wish = waiting[owner].popleft()
            is_first = not spent[owner]
            fits_owner = (
                spent[owner] + wish.reads <= OWNER_READS
                and weights[owner] + wish.size <= OWNER_BYTES
            )
            fits_turn = reads + wish.reads <= TURN_READS and size + wish.size <= TURN_BYTES
            if not (fits_turn and (is_first or fits_owner)) and taken:
                del waiting[owner]
                continue
            taken.append(wish.key)
            spent[owner] += wish.reads
            weights[owner] += wish.size
            reads, size = reads + wish.reads, size + wish.size
            if not waiting[owner]:
                del waiting[owner]
    return tuple(taken)
