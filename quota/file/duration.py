"""Durations as written in files and on command lines: `90s`, `8h`, `1h30m`."""

from __future__ import annotations

import re

from quota.pattern import pattern

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
"""Seconds by unit."""

_DURATION = pattern(r"(?:\d{1,15}(?:\.\d{1,15})?[smhdw])+", re.ASCII)
"""The digits of a number are limited: longer ones are never meant, and a float holds these."""


def seconds_in(text: str) -> float | None:
    """Return the seconds in a text of numbers, each with its unit; None if it is no such text."""
    text = text.strip()
    if not _DURATION.fullmatch(text):
        return None
    return sum(float(n) * SECONDS[unit] for n, unit in re.findall(r"([\d.]+)([smhdw])", text))
