"""
ULIDs: names of requests that sort by time and never repeat.

48 bits of milliseconds, 80 bits of randomness, as 26 characters of Crockford's base 32. Within one
process they only grow, also when the clock goes back. A keyed ULID is a function of who asks, in
which project, with which key: asking twice writes the same object, and the second create fails.

Source: github.com/ulid/spec; Crockford, base32.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterator

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
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
    A source of fresh ULIDs.

    Args:
        wall: Seconds since 1970.
        bits: So many random bits.
    """

    def __init__(
        self, wall: Callable[[], float], bits: Callable[[int], int] = secrets.randbits
    ) -> None:
        self._wall = wall
        self._bits = bits
        self._last = -1

    def new(self) -> str:
        """A ULID above every earlier one of this source."""
        fresh = _time_bits(self._wall()) | self._bits(_RANDOM_BITS)
        self._last = max(fresh, self._last + 1)
        return _text(self._last)


def keyed(user: str, project: str, key: str, *, turn: int, now: float) -> Iterator[str]:
    """
    The ULIDs that a request with this key may have, newest window first.

    They differ in time only, so the ids of jobs, which come from the end, are the same in all.

    Args:
        user: Who asks.
        project: What it is charged to.
        key: The user's own.
        turn: How often a request with this key was refused: a refusal uses nothing up.
        now: Seconds since 1970.
    """
    named = "\0".join((user, project, key, str(turn))).encode()
    drawn = int.from_bytes(hashlib.sha256(named).digest()[: _RANDOM_BITS // 8], "big")
    newest = int(now // KEY_WINDOW_S)
    for window in range(newest, max(newest - KEY_WINDOWS, -1), -1):
        yield _text(_time_bits(window * KEY_WINDOW_S) | drawn)


def seconds_in(ulid: str) -> float:
    """When `ulid` was made, in seconds since 1970 on its maker's clock."""
    number = 0
    for letter in ulid:
        number = number * 32 + _ALPHABET.index(letter)
    return (number >> _RANDOM_BITS) / 1000


def _time_bits(seconds: float) -> int:
    return int(seconds * 1000) << _RANDOM_BITS


def _text(number: int) -> str:
    letters = []
    for _ in range(26):
        number, digit = divmod(number, 32)
        letters.append(_ALPHABET[digit])
    return "".join(reversed(letters))
