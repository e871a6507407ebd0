"""
Bounds for untrusted values: finite numbers within limits, and texts of limited length.

A record checks itself when it is created, so no reader can forget to. A number that decisions
depend on is refused if it is out of bounds. A number that is only displayed, or was measured with a
clock that may step, is clamped.
"""

from __future__ import annotations

from math import isfinite

from bastion.errors import SpecError

MOST_NUMBER = 10**15
"""Limit of lives, attempts, sizes and the like: as many digits as a number in a key can have."""
LATEST_S = 253_402_300_799.0
"""The last second of the year 9999: later times have no date. Source: `datetime.MAXYEAR`."""


def check_whole(field: str, number: int, *, least: int = 0, most: int = MOST_NUMBER) -> None:
    """
    Check that `number` is within `least` and `most`.

    Raises:
        SpecError: It is not.
    """
    if not least <= number <= most:
        raise SpecError(f"{field}: {short(number)} is out of bounds; {least} to {most} are allowed")


def check_seconds(field: str, number: float, *, most: float) -> None:
    """
    Check that `number` is finite and between 0 and `most`.

    Raises:
        SpecError: It is not.
    """
    if not 0.0 <= number <= most:
        raise SpecError(f"{field}: {number!r} is out of bounds; 0 to {most:g} are allowed")


def check_count(field: str, count: int, *, most: int) -> None:
    """
    Check that a list of `count` items is not longer than `most`.

    Raises:
        SpecError: It is longer.
    """
    if count > most:
        raise SpecError(f"{field}: {count} are too many; at most {most} are allowed")


def within(number: float, *, most: float) -> float:
    """Clamp `number` to the range from 0 to `most`; NaN becomes 0."""
    if not isfinite(number):
        return most if number > 0.0 else 0.0
    return min(max(number, 0.0), most)


def clipped(text: str, most: int) -> str:
    """Return the first `most` characters of `text`."""
    return text if len(text) <= most else text[:most]


def short(number: int) -> str:
    """Return `number` as text for messages: Python cannot print one with thousands of digits."""
    return str(number) if abs(number) < 10**30 else "a number of more than 30 digits"
