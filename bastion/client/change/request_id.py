"""
The names of a user's requests: fresh ULIDs, and the ULIDs of an idempotency key.

Fresh ULIDs of one process are monotonic, also when the clock goes back. A keyed ULID is a function
of the user, the project and the key: a second request writes the same object, and its create fails.
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
must move on now and then; three days leave four for a clock that is wrong.
"""
KEY_WINDOWS = 11
"""A key is remembered over this many windows: 30 days, as long as answers are surely kept."""


class Ulids:
    """
    A source of fresh ULIDs, for many threads.

    Args:
        wall: Seconds since 1970.
        bits: So many random bits.
    """

    def __init__(self, wall: Callable[[], float], bits: Callable[[int], int] | None = None) -> None:
        self._wall = wall
        self._bits = bits or _random_bits
        self._last = -1
        self._lock = allocate_lock()

    def new(self) -> str:
        """A ULID above every earlier one of this source."""
        fresh = int(self._wall() * 1000) << _RANDOM_BITS | self._bits(_RANDOM_BITS)
        with self._lock:
            self._last = made = max(fresh, self._last + 1)
        milliseconds, drawn = divmod(made, 1 << _RANDOM_BITS)
        return make(_half_up(milliseconds), drawn.to_bytes(_RANDOM_BITS // 8, "big"))


def _random_bits(count: int) -> int:
    """Return `count` random bits, a multiple of 8; `secrets` takes long to import."""
    return int.from_bytes(os.urandom(count // 8), "big")


def keyed(user: str, project: str, key: str, *, turn: int, now: float) -> Iterator[str]:
    """
    The ULIDs that a request with this key may have, newest window first.

    They differ in time only, so the ids of jobs, which come from the end, are the same in all.

    Args:
        user: The user who submits it.
        project: The project that it is charged to.
        key: The idempotency key.
        turn: How often a request with this key was refused: a refusal uses nothing up.
        now: Seconds since 1970.
    """
    from hashlib import sha256

    named = "\0".join((user, project, key, str(turn))).encode()
    drawn = sha256(named).digest()
    newest = int(now // KEY_WINDOW_S)
    for window in range(newest, max(newest - KEY_WINDOWS, -1), -1):
        yield make(window * KEY_WINDOW_S, drawn)


def _half_up(milliseconds: int) -> float:
    """Seconds that turn into `milliseconds` again when they are cut, whatever floats lose."""
    return (milliseconds + 0.5) / 1000
