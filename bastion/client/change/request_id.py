"""
The names of a user's requests: fresh ULIDs, and the ULIDs of an idempotency key.

Fresh ULIDs of one process are monotonic, even if the clock goes back. A keyed ULID is a function of
the user, the project and the key: a second request writes to the same object, so its create fails.
"""

from __future__ import annotations

import os
from _thread import allocate_lock
from collections.abc import Callable, Iterator

from bastion.records.keys.ulid import make

_RANDOM_BITS = 80

KEY_WINDOW_S = 3 * 86400
"""
How far the time of a keyed ULID is rounded down.

The bastion refuses a request whose name is more than 7 days from the store's clock, so the time
must advance now and then. Three days leave four for a clock that is wrong.
"""
KEY_WINDOWS = 11
"""A key is remembered for this many windows, which cover the 30 days for which answers are kept."""


class Ulids:
    """
    A thread-safe source of fresh ULIDs.

    Args:
        wall: Seconds since 1970.
        bits: Returns that many random bits.
    """

    def __init__(self, wall: Callable[[], float], bits: Callable[[int], int] | None = None) -> None:
        self._wall = wall
        self._bits = bits or _random_bits
        self._last = -1
        self._lock = allocate_lock()

    def new(self) -> str:
        """Return a ULID greater than every earlier one of this source."""
        fresh = int(self._wall() * 1000) << _RANDOM_BITS | self._bits(_RANDOM_BITS)
        with self._lock:
            self._last = made = max(fresh, self._last + 1)
        milliseconds, drawn = divmod(made, 1 << _RANDOM_BITS)
        return make(_half_up(milliseconds), drawn.to_bytes(_RANDOM_BITS // 8, "big"))


def _random_bits(count: int) -> int:
    """Return `count` random bits, a multiple of 8; importing `secrets` takes too long."""
    return int.from_bytes(os.urandom(count // 8), "big")


def keyed(user: str, project: str, key: str, *, turn: int, now: float) -> Iterator[str]:
    """
    Yield the ULIDs that a request with this key may have, newest window first.

    They differ only in their time, so the ids of jobs, which derive from the end, are the same in
    all.

    Args:
        user: The user who submits it.
        project: The project that it is charged to.
        key: The idempotency key.
        turn: How often a request with this key was refused: a refusal does not use up the key.
        now: Seconds since 1970.
    """
    from hashlib import sha256

    named = "\0".join((user, project, key, str(turn))).encode()
    drawn = sha256(named).digest()
    newest = int(now // KEY_WINDOW_S)
    for window in range(newest, max(newest - KEY_WINDOWS, -1), -1):
        yield make(window * KEY_WINDOW_S, drawn)


def _half_up(milliseconds: int) -> float:
    """Return seconds that convert back to `milliseconds` when truncated, despite rounding."""
    return (milliseconds + 0.5) / 1000
