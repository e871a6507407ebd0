"""The marks of a time axis: at round moments, regardless of the limits of the period."""

from __future__ import annotations

from datetime import UTC, datetime
from math import ceil

from bastion.value import value

MOST = 9
_HOUR_S, _DAY_S = 3600.0, 86400.0
_STEPS_S = (
    *(10.0, 30.0, 60.0, 300.0, 600.0, 900.0, 1800.0),
    *(_HOUR_S, 2 * _HOUR_S, 3 * _HOUR_S, 6 * _HOUR_S, 12 * _HOUR_S),
    *(_DAY_S, 2 * _DAY_S, 7 * _DAY_S, 14 * _DAY_S),
)
_MONDAY_S = 4 * _DAY_S
"""The first Monday of 1970: weeks begin on Mondays."""


@value
class Tick:
    """One mark."""

    at: float
    part: float
    """Its position in the period, 0 to 1."""
    text: str


def ticks_of(since: float, until: float, *, most: int = MOST) -> tuple[Tick, ...]:
    """Return at most `most` marks, all at midnights, full hours or fractions of one, in UTC."""
    length = until - since
    step = next((each for each in _STEPS_S if length / each <= most - 1), _STEPS_S[-1])
    origin = _MONDAY_S if step >= 7 * _DAY_S else 0.0
    first = origin + ceil((since - origin) / step) * step
    count = int((until - first) // step) + 1
    moments = (first + n * step for n in range(max(count, 0)))
    return tuple(Tick(at=at, part=(at - since) / length, text=_text(at, step)) for at in moments)


def _text(at: float, step: float) -> str:
    if at % _DAY_S == 0:
        return datetime.fromtimestamp(at, UTC).strftime("%b %d")
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M" if step >= 60 else "%H:%M:%S")
