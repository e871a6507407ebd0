"""Numbers in a readable form."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """Return seconds in their largest fitting unit: `12 s`, `3.4 min`, `5.6 h`, `7.8 d`."""
    for most, unit, name in ((100, 1, "s"), (6000, 60, "min"), (172800, 3600, "h")):
        if seconds < most:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds / 86400:.3g} d"


def percent(number: float) -> str:
    """Return a fraction as `12.3 %`."""
    return f"{100 * number:.1f} %"


def count(number: float) -> str:
    """Return a whole number with separators: `12,345`."""
    return f"{number:,.0f}"
