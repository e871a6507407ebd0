"""`Load`: how much work arrives, and its lists and ranges on a command line."""

from __future__ import annotations

import re
from math import inf
from typing import NamedTuple

from bastion.errors import SpecError

_RANGE = re.compile(r"(\d+(?:\.\d+)?)\.\.(\d+(?:\.\d+)?)(?::(\d+(?:\.\d+)?))?")
MAX_POINTS = 1000


class Load(NamedTuple):
    """How much work arrives."""

    number: float
    """Jobs per hour, or a fraction of what all devices can do."""
    is_part: bool = False

    def __str__(self) -> str:
        return f"{100 * self.number:g} %" if self.is_part else f"{self.number:g}/h"


def loads_of(written: str) -> list[Load]:
    """
    Return the loads that `written` describes.

    They are jobs per hour, such as `4`, `1,2,8`, `1..9` or `1..9:0.5`, or parts of the cluster,
    such as `70%`, `50%,70%` or `50..90%:10`.

    Raises:
        SpecError: It describes none, or too many.
    """
    words = [word.strip() for word in written.split(",")]
    kinds = {"%" in word for word in words}
    if len(kinds) > 1:
        raise SpecError(f"load: {written!r} has jobs an hour and parts; allowed: one of the two")
    (is_part,) = kinds
    found = [load for word in words for load in _loads(word)]
    if not all(0 < load < inf for load in found):
        raise SpecError(f"load: {written!r}: allowed: above zero, and finite")
    return [Load(load / 100 if is_part else load, is_part) for load in found]


def _loads(word: str) -> list[float]:
    plain = word.replace("%", "")
    ranged = _RANGE.fullmatch(plain)
    try:
        if ranged is None:
            return [float(plain)]
    except ValueError:
        raise SpecError(
            f"load: {word!r} is not a load; allowed: jobs an hour as 4, 1,2,8 or 1..9,"
            " or parts of the cluster as 70%, 50%,70% or 50..90%:10"
        ) from None
    low, high = float(ranged[1]), float(ranged[2])
    step = float(ranged[3] or (10.0 if "%" in word else 1.0))
    if high < low or step <= 0 or (high - low) / step > MAX_POINTS:
        raise SpecError(f"load: {word!r} has no points, or more than {MAX_POINTS}")
    count = int((high - low) / step + 1e-9) + 1
    return [low + step * number for number in range(count)]
