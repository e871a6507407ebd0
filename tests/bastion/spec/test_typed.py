"""The fast check of a value's types agrees with the one that explains errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bastion.spec.resources import Resources
from bastion.spec.values.typed import _fit, problems_of

HINTS: tuple[Any, ...] = (
    bool,
    int,
    float,
    str,
    Resources,
    Literal["", "job"],
    str | None,
    float | Sequence[str],
    tuple[int, ...],
    Sequence[str | Resources],
    Mapping[str, int],
    Mapping[str, str | Sequence[float]] | None,
)

leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(0, 3),
    st.floats(0, 3),
    st.sampled_from(["", "job", "other", "\udcff", b"job"]),
    st.just(Resources(h100=1)),
)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.one_of(st.text(max_size=2), st.integers(0, 3)), inner, max_size=3),
    ),
    max_leaves=5,
)


@pytest.mark.parametrize("hint", HINTS, ids=str)
@settings(max_examples=30)
@given(written=values)
def test_what_fits_has_no_problem_and_the_rest_has_one(hint: Any, written: object) -> None:
    """Both accept the same values, and every refusal has a message."""
    assert _fit(hint)(written) == (not list(problems_of("field", hint, written)))
