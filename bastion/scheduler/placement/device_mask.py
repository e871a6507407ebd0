"""
Devices of a machine as bits of a number: the lowest bit is the device with index 0.

This module must not know what a device is.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache


def mask_of(indices: Iterable[int]) -> int:
    """Return the bits at `indices`."""
    mask = 0
    for index in indices:
        mask |= 1 << index
    return mask


@lru_cache(maxsize=4096)  # machines have few devices, and are full in few ways
def lowest(mask: int, units: int) -> tuple[tuple[int, ...], int]:
    """Return the lowest `units` devices of `mask`, and the mask of the others."""
    indices = []
    for _ in range(units):
        bit = mask & -mask
        indices.append(bit.bit_length() - 1)
        mask ^= bit
    return tuple(indices), mask


def all_of(mask: int) -> tuple[int, ...]:
    """Return the devices of `mask`, lowest first."""
    return lowest(mask, mask.bit_count())[0]
