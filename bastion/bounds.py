"""
Bounds of what strangers write: numbers that are finite and within limits, texts of some length.

A record checks itself when it is made, so that no door forgets to. What one wrong number spoils is
refused; what is only shown, or is measured by a clock that may step, is brought within its bounds.
"""

from __future__ import annotations

from math import isfinite

from bastion.errors import SpecError

MOST_NUMBER = 10**15
"""Of lives, attempts, sizes and the like: as many digits as a number in a key may have."""
LATEST_S = 253_402_300_799.0
"""The last second of the year 9999: later times have no date. Source: `datetime.MAXYEAR`."""


def check_whole(field: str, number: int, *, least: int = 0, most: int = MOST_NUMBER) -> None:
    """
    Let `number` pass if it is within `least` and `most`.

    Raises:
        SpecError: It is not.
    """
    if not least <= number <= most:
        raise SpecError(f"{field}: {short(number)} is out of bounds; {least} to {most} are allowed")


def check_seconds(field: str, number: float, *, most: float) -> None:
    """
    Let `number` pass if it is finite and within 0 and `most`.

    Raises:
        SpecError: It is not.
    """
    if not 0.0 <= number <= most:
        raise SpecError(f"{field}: {number!r} is out of bounds; 0 to {most:g} are allowed")


def check_count(field: str, count: int, *, most: int) -> None:
    """
    Let a list of `count` items pass if it may be so long.

    Raises:
        SpecError: It may not.
    """
    if count > most:
        raise SpecError(f"{field}: {count} are too many; at most {most} are allowed")


def within(number: float, *, most: float) -> float:
    """`number`, or the nearest that is within 0 and `most`; 0 for what is no number."""
    if not isfinite(number):
        return most if number > 0.0 else 0.0
    return min(max(number, 0.0), most)


def clipped(text: str, most: int) -> str:
    """The first `most` characters of `text`."""
    return text if len(text) <= most else text[:most]


def short(number: int) -> str:
    """`number` for people: of one with thousands of digits Python makes no text."""
    return str(number) if abs(number) < 10**30 else "a number of more than 30 digits"
