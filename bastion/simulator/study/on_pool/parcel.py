"""
What an array of points needs on its machines, as a folder that becomes its bundle.

    bastion.pyz        this same code: a machine needs only a Python
    points.pickle      the points, each without its workload but with its number
    workload-N.pickle  every workload once
    policies/N/        the user's own policies, each as its single file

Pickles are read only from the bundle, whose digest proves that it is what was sent.
"""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import bundler
import quota
from bastion.errors import SpecError
from bastion.simulator.study.point import Point
from bastion.simulator.workload.job import Workload

PROGRAM = "bastion.pyz"
_POINTS = "points.pickle"
_NOTHING = Workload(jobs=())
_MAIN = (
    "import sys\n"
    "if sys.version_info < (3, 11):\n"
    "    sys.exit(f'error: {sys.executable} is Python {sys.version.split()[0]};"
    " a simulation needs 3.11 or later')\n"
    "from bastion.simulator.study.on_pool.task import main\n"
    "sys.exit(main())\n"
)
"""Says in words what is missing, instead of a syntax error."""


def pack(points: Sequence[Point], folder: Path) -> None:
    """
    Write everything that the tasks of `points` need into `folder`.

    Raises:
        SpecError: The file of a policy does not exist.
    """
    _pack_program(folder / PROGRAM)
    workloads: dict[int, int] = {}
    packed = []
    for point in points:
        number = workloads.setdefault(id(point.workload), len(workloads))
        setup = replace(point.setup, policy=_with_policy(point.setup.policy, folder))
        packed.append((replace(point, setup=setup, workload=_NOTHING), number))
        if number == len(workloads) - 1:
            _write(folder / f"workload-{number}.pickle", point.workload)
    _write(folder / _POINTS, packed)


def unpacked(folder: Path, index: int) -> Point:
    """Return the point of one task, from the folder that `pack` wrote."""
    packed: list[tuple[Point, int]] = _read(folder / _POINTS)
    point, number = packed[index]
    return replace(point, workload=_read(folder / f"workload-{number}.pickle"))


def _pack_program(path: Path) -> None:
    """Pack the code of the running program; equal code gives equal bytes, so it is sent once."""
    tops = [Path(quota.__file__).parent, Path(bundler.__file__).parent, _own_package()]
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        archive.writestr(ZipInfo("__main__.py"), _MAIN)
        for top in tops:
            for file in sorted(top.rglob("*.py")):
                info = ZipInfo(f"{top.name}/{file.relative_to(top).as_posix()}")
                info.compress_type = ZIP_DEFLATED
                archive.writestr(info, file.read_bytes())


def _own_package() -> Path:
    return Path(__file__).parents[3]


def _with_policy(policy: str, folder: Path) -> str:
    """Return the policy by its place in the folder; a name that is not a file stays unchanged."""
    written, colon, name = policy.rpartition(":")
    if not colon or not written.endswith(".py"):
        return policy
    source = Path(written)
    if not source.is_file():
        raise SpecError(f"policy: {written}: no such file")
    number = 0
    while (place := folder / "policies" / str(number) / source.name).exists():
        if place.read_bytes() == source.read_bytes():
            break
        number += 1
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, place)
    return f"{place.relative_to(folder)}:{name}"


def _write(path: Path, content: object) -> None:
    with path.open("wb") as file:
        pickle.dump(content, file, protocol=pickle.HIGHEST_PROTOCOL)


def _read(path: Path) -> Any:
    with path.open("rb") as file:
        return pickle.load(file)  # noqa: S301 - part of the code that runs, by its digest
