"""
Throughputs: how fast each kind of job works on which devices, and on how many.

A TOML file has a table for each kind of job (the column `kind` of a trace) and each pool or type of
device, with steps per second by the number of devices:

    reference = "v100"          # the durations of the trace are those on these devices

    [resnet50.v100]
    1 = 10.0
    4 = 36.0
    [resnet50.k80]
    1 = 2.5

Between two numbers of devices it is linear; beyond the last it stays, and below the first it is in
proportion. A kind that is not in the table works at the speed of the pool.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from bastion.errors import SpecError
from bastion.value import value

Curve = tuple[tuple[int, float], ...]
"""(devices, steps per second), by devices."""


@value
class Throughputs:
    """Steps per second of kinds of jobs."""

    curves: Mapping[str, Mapping[str, Curve]]
    """By kind, then by pool or type."""
    reference: str
    """The pool or type that the given durations refer to."""

    def speed(self, kind: str, pool: str, device_type: str, devices: int) -> float | None:
        """Return the work per second of a job of that kind on its devices; None if unknown."""
        curves = self.curves.get(kind)
        if curves is None:
            return None
        curve = curves.get(pool) or curves.get(device_type)
        if curve is None:
            return None
        return at(curve, devices) / at(curves[self.reference], devices)

    def scaled(self, kind: str, devices: int) -> float | None:
        """Return the steps per second on that many reference devices; None if nothing is known."""
        curves = self.curves.get(kind)
        return at(curves[self.reference], devices) if curves is not None else None


def at(curve: Curve, devices: int) -> float:
    """Return the steps per second on that many devices."""
    first, last = curve[0], curve[-1]
    if devices <= first[0]:
        return first[1] * devices / first[0]
    for (low, slow), (high, fast) in pairwise(curve):
        if devices <= high:
            return slow + (fast - slow) * (devices - low) / (high - low)
    return last[1]


def read_throughputs(path: str | Path) -> Throughputs:
    """
    Return the throughputs of a TOML file.

    Raises:
        SpecError: It cannot be read, or something in it is wrong; lists every problem.
    """
    path = Path(path)
    try:
        text = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"{path}: is not TOML: {error}") from None
    reference = text.pop("reference", None)
    problems: list[str] = []
    if not isinstance(reference, str):
        said = "is missing" if reference is None else f"{reference!r} is not a text"
        problems.append(f"{path.name}: reference: {said}; must name a pool or type of the tables")
    curves: dict[str, dict[str, Curve]] = {}
    for kind, tables in text.items():
        curves[kind] = {}
        for where, table in tables.items() if isinstance(tables, dict) else [("", tables)]:
            curves[kind][where] = _curve(table, f"{path.name}: {kind}.{where}", problems)
        if isinstance(reference, str) and reference not in curves[kind]:
            problems.append(f"{path.name}: {kind}: has no table for the reference {reference}")
    if not curves and not problems:
        problems.append(f"{path.name}: no kind of job in it")
    if problems:
        raise SpecError(*problems, hint="see docs/guides/choose-a-policy.md")
    return Throughputs(curves=curves, reference=str(reference))


def _curve(table: Any, place: str, problems: list[str]) -> Curve:
    if not isinstance(table, dict) or not table:
        problems.append(f"{place}: allowed: a table of devices and steps a second, such as 4 = 36")
        return ((1, 1.0),)
    found = []
    for devices, steps in table.items():
        is_number = isinstance(steps, int | float) and not isinstance(steps, bool)
        if not devices.isdecimal() or not int(devices):
            problems.append(f"{place}: {devices!r} is not a number of devices")
        elif not is_number or not math.isfinite(steps) or steps <= 0:
            problems.append(f"{place}: {devices} = {steps!r}; allowed: steps a second, above zero")
        else:
            found.append((int(devices), float(steps)))
    return tuple(sorted(found)) or ((1, 1.0),)
