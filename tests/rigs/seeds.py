"""Seeds of a random test: the first part in every run, the others in `make prove`."""

from __future__ import annotations

import pytest
from _pytest.mark import ParameterSet


def some(first: int, *, of: int) -> list[ParameterSet]:
    """Return the seeds 0 to `of`; only the `first` of them are quick."""
    marks = [() if seed < first else (pytest.mark.prove,) for seed in range(of)]
    return [pytest.param(seed, marks=mark) for seed, mark in enumerate(marks)]
