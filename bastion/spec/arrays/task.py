"""
The names of the tasks of an array.

A task's id is its array's id, a dot and its index: `train-0123456789.17`. The ten characters before
the dot contain none, so a task's id never equals another job's.
"""

from __future__ import annotations

import re

from bastion.errors import SpecError
from bastion.spec.arrays.indices import Indices
from bastion.spec.names import SUFFIX_CHARACTERS
from quota.pattern import pattern

_TASKS = pattern(r"([0-9][0-9,:-]*)", re.ASCII)
_ID = pattern(rf".+-[0-9a-z]{{{SUFFIX_CHARACTERS}}}", re.ASCII)


def task_id(array: str, index: int) -> str:
    """Return the id of the task `index` of an array."""
    return f"{array}.{index}"


def tasks_named(text: str) -> tuple[str, Indices] | None:
    """
    Parse an array and its tasks, `train.17` or `train.0-4,9`; None if `text` names no tasks.

    The array may be an id, a prefix of one, or a name; it need not exist.
    """
    array, dot, written = text.rpartition(".")
    if not (array and dot and _TASKS.fullmatch(written)):
        return None
    try:
        return array, Indices.parse(written)
    except SpecError:
        return None


def tasks_of_id(text: str) -> tuple[str, Indices] | None:
    """Parse the same, but only with the full id of an array; None otherwise."""
    named = tasks_named(text)
    return named if named is not None and _ID.fullmatch(named[0]) else None
