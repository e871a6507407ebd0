"""The arithmetic of `Amounts`, compared with plain dictionaries."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from quota import NOTHING, Amounts, missing

TYPES = ("h100", "v4", "v5p")
signed = st.dictionaries(st.sampled_from(TYPES), st.integers(-5, 5)).map(Amounts)
stored = TypeAdapter(Amounts)


@given(signed, signed)
def test_sum_and_difference_go_type_by_type(a: Amounts, b: Amounts) -> None:
    """`a + b` and `a - b` hold the sum and the difference of every type."""
    for resource in TYPES:
        assert (a + b)[resource] == a[resource] + b[resource]
        assert (a - b)[resource] == a[resource] - b[resource]


@given(signed, signed, signed)
def test_addition_is_a_commutative_group(a: Amounts, b: Amounts, c: Amounts) -> None:
    """Order and grouping do not matter, `NOTHING` adds nothing, and additions can be undone."""
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert a + NOTHING == a == NOTHING + a
    assert a + -a == NOTHING
    assert a - b == a + -b
    assert Amounts.sum([a, b, c]) == a + b + c


@given(signed, st.integers(-3, 3))
def test_a_multiple_is_a_repeated_sum(a: Amounts, times: int) -> None:
    """`n * a` holds n times every type, from either side."""
    assert times * a == a * times == Amounts({r: times * a[r] for r in TYPES})


@given(signed, signed)
def test_comparison_looks_at_every_type_of_either_side(a: Amounts, b: Amounts) -> None:
    """`a <= b` holds exactly when it holds for every type; absent ones count as zero."""
    assert (a <= b) == all(a[r] <= b[r] for r in TYPES)
    assert (a >= b) == (b <= a)


@given(signed, signed)
def test_joins_take_the_larger_and_the_smaller(a: Amounts, b: Amounts) -> None:
    """`a | b` is the least amount above both, `a & b` the largest below both."""
    for resource in TYPES:
        assert (a | b)[resource] == max(a[resource], b[resource])
        assert (a & b)[resource] == min(a[resource], b[resource])


@given(signed, signed)
def test_missing_is_what_fitting_lacks(want: Amounts, have: Amounts) -> None:
    """`missing` is never negative, fills the gap exactly, and is empty when nothing is missing."""
    lack = missing(want, have)
    assert lack <= want - have | NOTHING
    assert want <= have + lack
    assert (lack == NOTHING) == (want <= have)
    assert all(lack[r] >= 0 for r in TYPES)


@given(signed, signed)
def test_equal_amounts_are_one_value(a: Amounts, b: Amounts) -> None:
    """Amounts are equal if every type is, however they were made, and have the same hash."""
    assert (a == b) == all(a[r] == b[r] for r in TYPES)
    same = (a + b) - b
    assert same == a
    assert hash(same) == hash(a)


@given(signed)
def test_a_zero_is_never_kept(a: Amounts) -> None:
    """No type with zero units is shown, counted or true."""
    kept = tuple(r for r in sorted(TYPES) if a[r])
    assert a.types() == tuple(a) == kept
    assert len(a) == len(kept)
    assert bool(a) == bool(kept)
    assert a.items() == tuple((r, a[r]) for r in kept)


@given(signed, st.sets(st.sampled_from(TYPES)))
def test_parts_keep_what_they_name(a: Amounts, types: set[str]) -> None:
    """`only` keeps the given types, `positive` what is above zero."""
    assert all(a.only(types)[r] == (a[r] if r in types else 0) for r in TYPES)
    assert all(a.positive()[r] == max(a[r], 0) for r in TYPES)


@given(signed)
def test_amounts_survive_storage(a: Amounts) -> None:
    """JSON, pickle and copy preserve the value."""
    assert stored.validate_json(stored.dump_json(a)) == a
    assert pickle.loads(pickle.dumps(a)) == a
    assert copy.deepcopy(a) == a


def test_stored_form_is_a_sorted_json_object() -> None:
    """In JSON it is an object of whole numbers, by type."""
    assert stored.dump_json(Amounts({"v4": 2, "h100": 8, "v5p": 0})) == b'{"h100":8,"v4":2}'
    assert stored.validate_python(Amounts({"v4": 2})) == Amounts({"v4": 2})


@pytest.mark.parametrize(
    "text", ['{"v4": 1.5}', '{"v4": "2"}', '{"v4": true}', "[]", '{"v4": null}']
)
def test_stored_form_holds_whole_numbers_only(text: str) -> None:
    """Anything else in a record is refused."""
    with pytest.raises(ValidationError):
        stored.validate_json(text)


@pytest.mark.parametrize("number", [1.0, True, "2", None])
def test_units_are_whole_numbers(number: object) -> None:
    """A unit that is not an int is refused with its type and value."""
    with pytest.raises(TypeError) as caught:
        Amounts({"v4": number})  # type: ignore[dict-item]
    assert str(caught.value) == f"v4: {number!r} is not a whole number of units"


@pytest.mark.parametrize(
    ("units", "text"),
    [
        ({}, "nothing"),
        ({"v4": 2, "h100": 8}, "8 h100 + 2 v4"),
        ({"v4": -2, "h100": 8}, "8 h100 - 2 v4"),
        ({"v4": 2, "h100": -8}, "-8 h100 + 2 v4"),
    ],
)
def test_people_read_a_sum(units: dict[str, int], text: str) -> None:
    """As text, it is a sum of units and types."""
    assert str(Amounts(units)) == text


def test_a_hash_does_not_travel_between_processes() -> None:
    """An amount that was hashed in one process is found in a dict of another."""
    a = Amounts({"v4": 2})
    hash(a)
    check = "import pickle, sys; a, b = pickle.load(sys.stdin.buffer), None\n"
    check += "from quota import Amounts; sys.exit({a: 0}.get(Amounts({'v4': 2}), 1))"
    done = subprocess.run([sys.executable, "-c", check], input=pickle.dumps(a), check=False)
    assert done.returncode == 0


def test_nothing_can_be_added_to_it() -> None:
    """No attribute can be set from outside."""
    with pytest.raises(AttributeError):
        NOTHING.units = {}  # type: ignore[attr-defined]
