"""Durations and sizes as people write them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from bastion.errors import SpecError
from quota.amounts import Amounts
from quota.file.duration import SECONDS, seconds_in
from quota.pattern import pattern

_BYTES = {"": 1, "B": 1} | {
    f"{prefix}{end}": base**power
    for end, base in (("iB", 1024), ("B", 1000))
    for power, prefix in enumerate("KMGTP", start=1)
}
_SIZE = pattern(r"(\d{1,18}(?:\.\d{1,15})?)\s*([A-Za-z]*)", re.ASCII)
"""The number of digits is limited to what a float holds."""


MAX_SECONDS = 10**10
"""Three centuries, which stand for never: times in the future must still have a date."""


def seconds_of(field: str, written: float | str) -> float:
    """
    Return the seconds in `written`: a number, or text such as `90s`, `8h`, `1h30m`, `2d`.

    Raises:
        SpecError: It is neither, negative, or more than `MAX_SECONDS`.
    """
    if isinstance(written, str):
        seconds = seconds_in(written)
        if seconds is None:
            raise SpecError(
                f"{field}: {written!r} is not a duration; allowed: a number and a unit, such as"
                " 90s, 8h or 2d"
            )
    elif isinstance(written, int | float) and not isinstance(written, bool) and written >= 0:
        seconds = written
    else:
        raise SpecError(f"{field}: {written!r} is not a duration; allowed: 0 or more seconds")
    if seconds > MAX_SECONDS:
        longest = f"{MAX_SECONDS // SECONDS['d']}d"
        raise SpecError(f"{field}: {written!r} is not a duration; allowed: at most {longest}")
    return float(seconds)


def bytes_of(field: str, written: int | str) -> int:
    """
    Return the bytes in `written`: a whole number, or text such as `64GiB`, `500MB`.

    Raises:
        SpecError: It is neither, or negative.
    """
    if isinstance(written, str):
        match = _SIZE.fullmatch(written.strip())
        if match and match[2] in _BYTES:
            return int(float(match[1]) * _BYTES[match[2]])
    elif not isinstance(written, bool) and isinstance(written, int) and written >= 0:
        return written
    raise SpecError(f"{field}: {written!r} is not a size; allowed: bytes, or text like 64GiB 500MB")


def whole_gib_of(field: str, written: str) -> int:
    """
    Return the size in `written` in whole GiB, rounded up.

    Raises:
        SpecError: It is not a size, or below 1 GiB, such as a number whose unit is missing.
    """
    size = bytes_of(field, written)
    if 0 < size < 2**30:
        raise SpecError(f"{field}: {written!r} is less than 1GiB; written with its unit, as 200GiB")
    return -(-size // 2**30)


def text_of_seconds(seconds: float) -> str:
    """Format `seconds` for people: `0.4s`, `42s`, `3m 5s`, `2h 10m`, `3d 4h`."""
    if seconds < 0:
        return f"-{text_of_seconds(-seconds)}"
    if seconds < 10:
        return f"{seconds:.1f}".removesuffix(".0") + "s"
    whole = round(seconds)
    for big, small in (("d", "h"), ("h", "m"), ("m", "s")):
        if whole >= SECONDS[big]:
            rest = whole % SECONDS[big] // SECONDS[small]
            return f"{whole // SECONDS[big]}{big}" + (f" {rest}{small}" if rest else "")
    return f"{whole}s"


def written_seconds(seconds: float) -> float | str:
    """Return what a person would write for `seconds`, as `seconds_of` reads it: `1d`, `1h30m`."""
    rest, parts = int(seconds), []
    for unit in ("d", "h", "m", "s"):
        number, rest = divmod(rest, SECONDS[unit])
        parts += [f"{number}{unit}"] if number else []
    text = "".join(parts)
    return text if text and seconds_in(text) == seconds else seconds


def text_of_limit(seconds: float) -> str:
    """Format a limit of time, never rounded: `1d1m`, `36h30m` as `1d12h30m`, `0.5s`."""
    written = written_seconds(seconds)
    return written if isinstance(written, str) else f"{written:.15g}s"


def written_bytes(size: int) -> int | str:
    """Return what a person would write for `size`, as `bytes_of` reads it: `64GiB`."""
    for unit in ("TiB", "GiB", "MiB"):
        if size and size % _BYTES[unit] == 0:
            return f"{size // _BYTES[unit]}{unit}"
    return size


def text_of_number(number: float) -> str:
    """Format a number reported by a job: a count in full, anything else with six digits."""
    is_count = float(number).is_integer() and abs(number) < _EXACT
    return f"{number:.0f}" if is_count else f"{number:g}"


def text_of_hours(hours: float) -> str:
    """Format `hours` for people, with three digits if they are few: `1,234`, `12.3`, `0.0506`."""
    if 0 < hours < 0.001:
        return "< 0.001"
    return f"{hours:,.0f}" if hours >= 100 else f"{hours:.3g}"


def text_of_cost(cost: float) -> str:
    """Format money in the currency of the prices: `1,234.50`; below half a cent `< 0.01`."""
    return "< 0.01" if 0 < cost < 0.005 else f"{cost:,.2f}"


def text_of_bytes(size: int) -> str:
    """Format `size` for people: `512 B`, `3.4 KiB`, `64 GiB`."""
    amount = float(size)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if amount < 1024 or unit == "TiB":
            return f"{amount:.1f}".removesuffix(".0") + f" {unit}"
        amount /= 1024
    raise AssertionError("unreachable")


def text_of_amounts(units: Amounts) -> str:
    """Format `units` for people, devices first: `8 h100 + 4 cpu + 64 GiB memory`, or `nothing`."""
    return text_of_units(units.items()) or "nothing"


def text_of_units(items: Iterable[tuple[str, int]]) -> str:
    """Format units by type for people, including zeros; empty for none."""
    told = (
        f"{text_of_bytes(number)} memory" if kind == "memory" else f"{number} {kind}"
        for kind, number in sorted(items, key=lambda each: (each[0] in _COUNTED, each[0]))
    )
    return " + ".join(told)


_EXACT = 1e15
"""Below it, a float holds every digit of a count."""
_COUNTED = ("cpu", "memory")
"""Types listed after devices, which most readers look for first."""
