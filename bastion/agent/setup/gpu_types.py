"""
Which types of a machine are its GPUs, and the numbers that their driver uses for them; pure.

A machine counts each type from 0, and a driver counts all GPUs of a machine together. So those of a
second type start where the first type ends, in the order of the types' names. A type that is not a
product of a vendor, such as a license, is not a GPU of a machine that has one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import accumulate

from bastion.agent.setup.environment import COUNTED, NEURONS, TPUS
from bastion.catalog import resource_types

_PRODUCTS = re.compile(r"[abhlptv]\d{1,4}[a-z]{0,2}|gb\d{3}|rtx.*")
"""Resource types that are names of NVIDIA's products, as nvidia-smi shows them."""

_OTHERS = TPUS | NEURONS | COUNTED


def is_product(kind: str) -> bool:
    """Whether a resource type stands for a product: it is in the catalog, or named like one."""
    return kind in resource_types() or is_named_like_product(kind)


def is_named_like_product(kind: str) -> bool:
    """Whether a resource type is part of a product's name, such as `h100` or `a100-80gb`."""
    return _PRODUCTS.fullmatch(plain(kind)) is not None


def plain(kind: str) -> str:
    """Return the name in a resource type as letters and digits, up to any hyphen."""
    return re.sub(r"[^a-z0-9]", "", kind.partition("-")[0].lower())


def gpu_types(machine: Mapping[str, int]) -> dict[str, int]:
    """
    Return the GPU types of a machine, and the driver's number of the first of each.

    If no type is a product, each may be the GPUs, and starts at 0.
    """
    kinds = sorted(kind for kind in machine if kind not in _OTHERS)
    known = [kind for kind in kinds if is_product(kind)]
    if not known:
        return dict.fromkeys(kinds, 0)
    return dict(zip(known, accumulate((machine[kind] for kind in known), initial=0)))


def as_driver_counts(
    devices: Mapping[str, tuple[int, ...]], machine: Mapping[str, int]
) -> dict[str, tuple[int, ...]]:
    """Return the assigned `devices` by their drivers' numbers, without types that have none."""
    first = gpu_types(machine)
    return {
        kind: tuple(first.get(kind, 0) + index for index in indices)
        for kind, indices in devices.items()
        if kind in first or kind in _OTHERS or kind not in machine
    }
