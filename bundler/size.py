"""Sizes in bytes, parsed and formatted for people."""

from __future__ import annotations

import re

from quota.pattern import pattern

_UNITS = {
    "": 1, "b": 1,
    "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
}  # fmt: skip
_SIZE = pattern(r"\s*(\d{1,18}(?:\.\d{1,15})?)\s*([a-zA-Z]*)\s*\Z", re.ASCII)
"""The number of digits is limited to what a float holds."""


def parse_size(text: int | str) -> int:
    """
    Return the bytes in a number or in text such as `500MiB`, `1.5 GB` or `4096`.

    Raises:
        ValueError: It is neither, or not above zero; the message says what is allowed.
    """
    found = _SIZE.match(text) if isinstance(text, str) else None
    if isinstance(text, int) and not isinstance(text, bool):
        size_bytes = text
    elif found and found[2].lower() in _UNITS:
        size_bytes = int(float(found[1]) * _UNITS[found[2].lower()])
    else:
        raise ValueError(f"{text!r} is not a size, which looks like '500MiB', '1.5GB' or 4096")
    if size_bytes <= 0:
        raise ValueError(f"{text!r} is not above zero")
    return size_bytes


def show_size(size_bytes: int) -> str:
    """Format `size_bytes` in the largest binary unit with a number above one, as `1.5 GiB`."""
    number = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"
