"""The tasks of a launch, and how many of them may run at the same time."""

from __future__ import annotations

import re
from collections.abc import Iterable

from bastion.errors import SpecError
from bastion.spec.arrays.indices import MAX_INDEX, MAX_TASKS, Indices, check_ranges
from bastion.spec.values.spec_value import told_misfits
from bastion.spec.values.written import Written
from quota.pattern import pattern

_LIMIT = pattern(r"[1-9]\d{0,5}", re.ASCII)


@told_misfits
class Array(Written):
    """
    The tasks of a launch: `Array("0-99%10")` is 100 tasks, of which 10 may run at the same time.

    Args:
        tasks: Their indices, such as `17`, `0-99`, `0-4,9`, or `0-99:10` for every tenth; `%` and a
            number after it set `at_once`. A whole number n means 0 to n - 1.
        at_once: How many may run at the same time; None: limited only by the quota and the
            machines.

    Raises:
        SpecError: It is malformed, names an index twice, is empty, or has more than 30,000 tasks or
            1,000 separate ranges.
    """

    __slots__ = ("at_once", "tasks")
    tasks: Indices
    at_once: int | None

    def __init__(self, tasks: str | int | Iterable[int], *, at_once: int | None = None) -> None:
        if isinstance(tasks, str):
            text, percent, limit = tasks.partition("%")
            if percent:
                at_once = _limit(limit, tasks, at_once)
            made = Indices.parse(text, field="array")
        elif isinstance(tasks, int) and not isinstance(tasks, bool):
            made = Indices([(0, tasks - 1)] if tasks > 0 else [])
        elif isinstance(tasks, Iterable):
            made = _given(tasks)
        else:
            raise SpecError(f"array: {tasks!r} is not tasks; written as 100, 0-99 or [0, 1, 4]")
        if not 1 <= len(made) <= MAX_TASKS:
            raise SpecError(f"array: {len(made)} tasks are not allowed; 1 to {MAX_TASKS}")
        check_ranges("array", made.ranges, f"{str(made)[:40]!r}")
        if at_once is not None and (type(at_once) is not int or at_once < 1):
            raise SpecError(f"array: {at_once!r} at once is not allowed; a whole number from 1")
        object.__setattr__(self, "tasks", made)
        object.__setattr__(self, "at_once", at_once)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Array) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        return f"{self.tasks}%{self.at_once}" if self.at_once is not None else str(self.tasks)

    @classmethod
    def _stored(cls, stored: object) -> Array:
        if isinstance(stored, Array):
            return stored
        if isinstance(stored, bool) or not isinstance(stored, str | int):
            raise SpecError(f"array: {stored!r} is not text; written as 0-99%10")
        return cls(stored)


def _limit(limit: str, text: str, at_once: int | None) -> int:
    if at_once is not None:
        raise SpecError(
            f"array: {text!r} and at_once={at_once} both set the limit; give one of them"
        )
    if not _LIMIT.fullmatch(limit):
        raise SpecError(
            f"array: %{limit} in {text!r} is not allowed; after % stands how many tasks may run at"
            " once, 1 or more"
        )
    return int(limit)


def _given(indices: Iterable[int]) -> Indices:
    listed = list(indices)
    wrong = [
        each
        for each in listed
        if isinstance(each, bool) or not isinstance(each, int) or not 0 <= each <= MAX_INDEX
    ]
    if wrong:
        raise SpecError(f"array: {wrong[0]!r} is not an index; whole numbers from 0 to {MAX_INDEX}")
    made = Indices.of(listed)
    if len(made) != len(listed):
        raise SpecError("array: an index is given twice; give each once")
    return made
