"""Use of devices and hosts as words and bars."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bastion.utilisation import Utilisation

_BARS = "▁▂▃▄▅▆▇█"
UNKNOWN = "·"
"""A device whose use is unknown."""


def bars(used: Iterable[float | None]) -> str:
    """Return one character per device; its height is the use of the device."""
    return "".join(UNKNOWN if each is None else _BARS[min(7, int(8 * each))] for each in used)


def size(number: int) -> str:
    """Return bytes in a readable unit: `61 GiB`."""
    for unit, least in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20)):
        if number >= least:
            shown = number / least
            return f"{shown:.0f} {unit}" if shown >= 10 else f"{shown:.1f} {unit}"
    return f"{number / 1024:.0f} KiB"


def used_text(used: Utilisation | None) -> str:
    """Return the use of an attempt on one line; empty if it was not sampled."""
    if used is None:
        return ""
    own = f"{used.cores:.1f} cores, {size(used.memory_bytes)} at most"
    if not used.samples:
        return own
    return (
        f"devices {used.mean:.0%} on average, median {used.p50:.0%}, at most {used.max:.0%},"
        f" idle {used.idle:.0%} of the time; {own}"
    )
