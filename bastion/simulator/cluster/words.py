"""
Clusters in command-line notation: `64x8`, `32x4:a100,16x8:h100@2.5`, or a TOML file.

A pool is `COUNTxDEVICES[:TYPE][@SPEED]`, and commas separate pools.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bastion.errors import SpecError
from bastion.simulator.cluster.cluster import Change, Cluster, Shape
from bastion.spec.resources import type_name
from quota.choice import choose

_SHAPE = re.compile(r"(\d+)x(\d+)(?::([\w-]+))?(?:@(\d+(?:\.\d+)?))?")
_KEYS = {
    "count": int,
    "devices": int,
    "type": str,
    "name": str,
    "speed": (int, float),
    "most": int,
    "boot_s": (int, float),
    "idle_timeout_s": (int, float),
    "tier": int,
    "cpu": int,
}
_CHANGE_KEYS = {"at_s": (int, float), "pool": str, "count": int}
MAX_MACHINES = 100_000


def cluster_of(written: str) -> Cluster:
    """
    Return the cluster that `written` describes: shapes, or the path of a TOML file.

    Raises:
        SpecError: It describes none; lists every problem.
    """
    if written.endswith(".toml"):
        return _read(Path(written))
    shapes, problems = [], []
    for word in written.split(","):
        found = _SHAPE.fullmatch(word.strip())
        if found is None:
            problems.append(
                f"machines: {word.strip()!r} is not a shape; allowed: COUNTxDEVICES[:TYPE][@SPEED],"
                " such as 64x8 or 16x8:h100@2.5, or a .toml file"
            )
            continue
        count, devices, kind, speed = found.groups()
        shape = Shape(
            count=int(count),
            devices=int(devices),
            type=type_name(kind or "gpu"),
            speed=float(speed or 1),
        )
        problems += _problems(shape, word.strip())
        shapes.append(shape)
    if problems:
        raise SpecError(*problems)
    return Cluster(shapes=tuple(shapes))


def _read(path: Path) -> Cluster:
    try:
        text = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"{path}: is not TOML: {error}") from None
    problems: list[str] = []
    for key in text.keys() - {"machines", "changes"}:
        problems.append(f"{path.name}: {key} is unknown, {choose(key, ['machines', 'changes'])}")
    shapes = []
    for index, table in enumerate(text.get("machines", ()), 1):
        found = _table(table, _KEYS, f"{path.name}: machines {index}", problems)
        if not problems and {"count", "devices"} <= found.keys():
            found["type"] = type_name(found.get("type", "gpu"))
            shape = Shape(**found)
            problems += _problems(shape, f"{path.name}: machines {index}")
            shapes.append(shape)
        elif not problems:
            problems.append(f"{path.name}: machines {index}: count and devices are needed")
    if not shapes and not problems:
        problems.append(f"{path.name}: no [[machines]] in it")
    cluster = Cluster(shapes=tuple(shapes))
    changes = _changes(path, text.get("changes", ()), cluster, problems)
    if problems:
        raise SpecError(*problems)
    return Cluster(shapes=cluster.shapes, changes=tuple(changes))


def _changes(
    path: Path, tables: Sequence[Any], cluster: Cluster, problems: list[str]
) -> list[Change]:
    """Return the changes by time; append what is wrong with them to `problems`."""
    changes = []
    for index, table in enumerate(tables, 1):
        place = f"{path.name}: changes {index}"
        before = len(problems)
        found = _table(table, _CHANGE_KEYS, place, problems)
        if len(problems) > before:
            continue
        if found.keys() != _CHANGE_KEYS.keys():
            problems.append(f"{place}: at_s, pool and count are needed")
        elif found["pool"] not in cluster.named:
            pool = found["pool"]
            problems.append(f"{place}: pool {pool!r} is unknown, {choose(pool, [*cluster.named])}")
        else:
            changes.append(Change(**found))
    changes.sort(key=lambda change: change.at_s)
    if not problems:
        problems += [f"{path.name}: {problem}" for problem in _too_few(cluster, changes)]
    return changes


def _table(table: Any, keys: Mapping[str, Any], place: str, problems: list[str]) -> dict[str, Any]:
    if not isinstance(table, dict):
        problems.append(f"{place}: is not a table")
        return {}
    for key, written in table.items():
        if key not in keys:
            problems.append(f"{place}: {key} is unknown, {choose(key, list(keys))}")
        elif isinstance(written, bool) or not isinstance(written, keys[key]):
            problems.append(f"{place}: {key}: {written!r} is not {_kind_of(keys[key])}")
    return {key: written for key, written in table.items() if key in keys}


def _kind_of(kind: Any) -> str:
    """Return what a key can be, in words."""
    if kind is str:
        return "a text"
    return "a whole number" if kind is int else "a number"


def _too_few(cluster: Cluster, changes: Sequence[Change]) -> Iterator[str]:
    """Yield where more machines are removed than a pool of existing machines has at that time."""
    left = {name: shape.count for name, shape in cluster.named.items() if not shape.most}
    for change in changes:
        if change.pool not in left:
            continue
        has, left[change.pool] = left[change.pool], max(0, left[change.pool] + change.count)
        if has + change.count < 0:
            yield (
                f"changes at {change.at_s:g} s: {-change.count} machines of {change.pool} go;"
                f" it has {has} then"
            )


def _problems(shape: Shape, place: str) -> list[str]:
    problems = []
    if not 0 <= shape.count <= MAX_MACHINES or not max(shape.count, shape.most):
        problems.append(f"{place}: {shape.count} machines; allowed: 1 to {MAX_MACHINES:,}")
    if not 1 <= shape.devices <= 4096:
        problems.append(f"{place}: {shape.devices} devices a machine; allowed: 1 to 4096")
    if shape.speed <= 0:
        problems.append(f"{place}: speed {shape.speed}; allowed: above zero")
    if shape.type in ("cpu", "memory"):
        problems.append(f"{place}: type {shape.type} is not a device")
    return problems
