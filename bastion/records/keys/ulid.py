"""
ULIDs: unique names that sort by time.

Source: https://github.com/ulid/spec, 48 bits of milliseconds and 80 random bits in Crockford's
base 32.
"""

from __future__ import annotations

from quota.pattern import pattern

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_ULID = pattern(f"[0-7][{_ALPHABET}]{{25}}")


def make(seconds: float, random: bytes) -> str:
    """Return the ULID for a time since 1970, with the first ten bytes of `random`."""
    number = int(seconds * 1000) << 80 | int.from_bytes(random[:10], "big")
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))


def is_ulid(text: str) -> bool:
    """Whether `text` is a ULID in upper case."""
    return _ULID.fullmatch(text) is not None


def seconds_of(ulid: str) -> float:
    """Return the time in a ULID, in seconds since 1970."""
    number = 0
    for character in ulid[:10]:
        number = number * 32 + _ALPHABET.index(character)
    return number / 1000
