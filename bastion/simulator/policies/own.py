"""
Policies from outside the package: `my_policy.py:Mine`, a class whose `rank` orders the jobs.

A policy gets one `PolicyJob` at a time and returns a number; the lowest goes first. Everything else
is the scheduler's: placement, shares, and which job may be preempted for which.
"""

from __future__ import annotations

import importlib.util
import inspect
import math
import traceback
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from bastion.errors import SpecError
from bastion.job import JobRecord
from bastion.scheduler.policies.order import OrderPolicy
from bastion.scheduler.snapshot import Snapshot
from quota.choice import choose


class PolicyJob:
    """One job, as a policy sees it."""

    __slots__ = ("_now", "_record", "_snapshot")

    def __init__(self, record: JobRecord, snapshot: Snapshot, now: float) -> None:
        self._record, self._snapshot, self._now = record, snapshot, now

    @property
    def name(self) -> str:
        """Its ID."""
        return self._record.id

    @property
    def project(self) -> str:
        """The project that is charged."""
        return self._record.project

    @property
    def user(self) -> str:
        """Who submitted it."""
        return self._record.user

    @property
    def priority(self) -> int:
        """1 (highest) to 5."""
        return self._record.request.priority

    @property
    def devices(self) -> int:
        """All devices that it requests."""
        units = self._record.request.units
        return sum(n for kind, n in units.items() if kind not in ("cpu", "memory"))

    @property
    def submitted_at(self) -> float:
        """When it was submitted, in seconds of the workload."""
        return self._record.submitted_at

    @property
    def max_runtime_s(self) -> float | None:
        """The time limit that its user gave."""
        return self._record.request.max_runtime_s

    @property
    def waited_s(self) -> float:
        """Seconds since it was submitted."""
        return self._now - self._record.submitted_at

    @property
    def is_running(self) -> bool:
        """Whether it holds devices as the scheduler sees it; in rounds all jobs wait."""
        return self._record.attempt is not None

    @property
    def attained_s(self) -> float:
        """Seconds for which it has held its devices, over all attempts."""
        attempt = self._record.attempt
        own = 0.0 if attempt is None else self._now - attempt.admitted_at
        return self._reported("attained_s") + own

    @property
    def remaining_s(self) -> float:
        """Remaining seconds of work, on devices of speed 1; only a simulation knows that."""
        return self._reported("remaining_s")

    @property
    def progress(self) -> float:
        """The fraction of its work that is done."""
        return self._reported("progress")

    def _reported(self, name: str) -> float:
        return self._snapshot.reports.get(self._record.id, {}).get(name, 0.0)


class OwnPolicy(Protocol):
    """The interface of an external policy; `preemption` and `name` are optional."""

    def rank(self, job: PolicyJob, now: float) -> float:
        """Return the rank of the job: the lowest goes first; ties go by submission."""
        ...


def order_of(written: str, name_of: Callable[[str], str] = str) -> OrderPolicy:
    """
    Return the policy that `FILE.py:CLASS` names, as an order of the scheduler.

    The order raises SpecError if its `rank` raises anything or does not return a number.

    Args:
        written: The file and the class.
        name_of: The name of a job in its workload, by ID.

    Raises:
        SpecError: It cannot be loaded.
    """
    policy = own_policy(written)
    path = Path(written.rpartition(":")[0])

    def rank_of(gang: Sequence[JobRecord], snapshot: Snapshot, now: float) -> float:
        return sum(_rank(policy, PolicyJob(job, snapshot, now), now) for job in gang)

    def _rank(policy: OwnPolicy, job: PolicyJob, now: float) -> float:
        rank: Any = None
        try:
            rank = policy.rank(job, now)
        except Exception as error:
            told = f"{type(error).__name__}: {error} (job {name_of(job.name)})"
            raise SpecError(f"policy: {_place(path, error)}: {told}") from error
        try:
            number = float(rank)
        except (TypeError, ValueError):
            number = math.nan
        if math.isnan(number):
            told = f"rank gave {rank!r} for job {name_of(job.name)}; allowed: a number"
            raise SpecError(f"policy: {path}: {told}")
        return number

    return OrderPolicy(rank_of=rank_of)


@cache
def own_policy(written: str) -> OwnPolicy:
    """
    Return the policy that `FILE.py:CLASS` names.

    Raises:
        SpecError: There is no such file or class, or it has no `rank`.
    """
    file, _, name = written.rpartition(":")
    if not file or not name:
        raise SpecError(
            f"policy: {written!r} names no class; allowed: FILE.py:CLASS",
            hint="orders that come with the simulator are named by order: fair, fifo, las, ...",
        )
    path = Path(file)
    if not path.is_file():
        raise SpecError(f"policy: {file}: no such file")
    module = _module(path)
    classes = {n: v for n, v in vars(module).items() if inspect.isclass(v)}
    if name not in classes:
        raise SpecError(f"policy: {file} has no class {name}, {choose(name, list(classes))}")
    try:
        made: Any = classes[name]()
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        raise SpecError(f"policy: {_place(path, error)}: {name}() raised {told}") from error
    if not callable(getattr(made, "rank", None)):
        raise SpecError(f"policy: {name} has no rank(job, now)", hint="bastion help write-a-policy")
    found: OwnPolicy = made
    return found


def _place(path: Path, error: BaseException) -> str:
    """Return the file, and its line at fault, if the fault is in the file."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if _is_same(f.filename, path)]
    return f"{path}:{frames[-1].lineno}" if frames else str(path)


def _is_same(name: str, path: Path) -> bool:
    return Path(name).resolve() == path.resolve()


def _module(path: Path) -> object:
    spec = importlib.util.spec_from_file_location(f"bastion_policy_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise SpecError(
            f"policy: {_place(path, error)}: {type(error).__name__}: {error}"
        ) from error
    return module
