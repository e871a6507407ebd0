"""The decorator of values: the promises of `dataclasses`, with fewer compilations."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import field
from typing import Any, ClassVar

import pytest

from bastion.records.coding.codec import decode, encode
from bastion.value import field as our_field
from bastion.value import replace, value


@value
class Place:
    """A value with each kind of field."""

    name: str = field(kw_only=False)
    row: int
    column: int = 7
    labels: Mapping[str, str] = field(default_factory=dict)
    note: str = field(default="", compare=False, repr=False)
    KIND: ClassVar = "place"


@value
class Positive:
    """A value that checks itself."""

    number: int

    def __post_init__(self) -> None:
        if self.number <= 0:
            raise ValueError("not positive")


@value
class Doubled:
    """A value that sets a field itself."""

    number: int
    doubled: int = our_field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "doubled", 2 * self.number)


@value
class Nothing:
    """A value without fields."""


@value
class Farther(Place):
    """A value with inherited fields."""

    far: bool = True


@value
class Named:
    """A value that defines its own text and comparison."""

    name: str

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and self.name.lower() == other.name.lower()

    def __hash__(self) -> int:
        return hash(self.name.lower())


def test_a_value_takes_what_a_dataclass_takes() -> None:
    """Fields are keyword-only unless declared otherwise, and defaults are made per value."""
    place = Place("here", row=1)
    assert (place.name, place.row, place.column, place.labels) == ("here", 1, 7, {})
    assert Place("here", row=1).labels is not place.labels
    assert str(inspect.signature(Place)) == (
        "(name: 'str', *, row: 'int', column: 'int' = 7,"
        " labels: 'Mapping[str, str]' = <factory>, note: 'str' = '') -> None"
    )
    assert Farther("there", row=1, far=False).far is False
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'row'"):
        Place("here")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'other'"):
        Place("here", row=1, other=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="takes 2 positional arguments but 3"):
        Place("here", 1)  # type: ignore[call-arg]


def test_a_value_cannot_be_changed() -> None:
    """Fields are neither set nor deleted, and no others can be added."""
    place = Place("here", row=1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="assign to field 'row'"):
        place.row = 2  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError, match="delete field 'row'"):
        del place.row
    with pytest.raises(dataclasses.FrozenInstanceError):
        place.other = 2  # type: ignore[attr-defined]
    assert not hasattr(place, "__dict__")


def test_values_are_equal_by_their_compared_fields() -> None:
    """Equality and hash follow the fields that are compared, within one type."""
    first, second = Place("here", row=1, note="a"), Place("here", row=1, note="b")
    assert first == second
    assert first != Place("here", row=2)
    assert first != Farther("here", row=1)
    assert Positive(number=3) == Positive(number=3)
    assert len({Positive(number=3), Positive(number=3), Positive(number=4)}) == 2
    assert Nothing() == Nothing()
    assert hash(Nothing()) == hash(Nothing())


def test_a_value_is_shown_with_its_fields() -> None:
    """The text of a value is the call that creates it."""
    place = Place("here", row=1, note="left out")
    assert repr(place) == "Place(name='here', row=1, column=7, labels={})"


def test_a_value_checks_itself() -> None:
    """`__post_init__` runs whenever a value is made, replaced or decoded."""
    with pytest.raises(ValueError, match="not positive"):
        Positive(number=0)
    with pytest.raises(ValueError, match="not positive"):
        dataclasses.replace(Positive(number=1), number=-1)
    assert decode(Positive, encode(Positive(number=3)), key="k") == Positive(number=3)


def test_own_methods_of_a_value_stay() -> None:
    """Methods defined by a class are not overwritten."""
    assert Named(name="A") == Named(name="a")
    assert repr(Named(name="a")) == "<a>"
    assert len({Named(name="A"), Named(name="a")}) == 1


def test_a_value_is_copied_and_pickled() -> None:
    """Copies are equal values, including deep and pickled ones."""
    place = Farther("here", row=1, labels={"a": "b"}, note="kept")
    for same in (copy.copy(place), copy.deepcopy(place), pickle.loads(pickle.dumps(place))):
        assert same == place
        assert same.note == "kept"


def test_what_dataclasses_know_of_a_value_is_true() -> None:
    """`dataclasses` returns the fields, types and defaults of a value, inherited ones too."""
    known = dataclasses.fields(Farther)
    assert [each.name for each in known] == ["name", "row", "column", "labels", "note", "far"]
    row, column, labels = known[1:4]
    assert (row.type, row.default, row.kw_only) == ("int", dataclasses.MISSING, True)
    assert (column.default, labels.default_factory) == (7, dict)
    assert dataclasses.asdict(Farther("a", row=1)) == {
        "name": "a", "row": 1, "column": 7, "labels": {}, "note": "", "far": True
    }  # fmt: skip
    assert Place.__match_args__ == ("name",)


def test_our_own_replace_is_that_of_dataclasses() -> None:
    """It checks the copy, keeps the other fields, and refuses unknown ones."""
    assert replace(Place("here", row=1), row=2) == Place("here", row=2)
    with pytest.raises(ValueError, match="not positive"):
        replace(Positive(number=1), number=-1)
    with pytest.raises(TypeError, match="other"):
        replace(Positive(number=1), other=1)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="doubled: a value sets this field itself"):
        replace(Doubled(number=1), doubled=3)


def test_a_copy_that_is_made_often_is_as_checked_as_the_first() -> None:
    """The hundredth copy of a value is checked, kept and refused like the first one."""
    here = Place("here", row=1)
    for n in range(100):
        assert replace(here, row=n) == Place("here", row=n)
        assert replace(here, note="kept").note == "kept"
        assert replace(replace(here, labels={"a": "b"}), name="there").labels == {"a": "b"}
        assert replace(Doubled(number=1), number=n).doubled == 2 * n
        assert replace(Nothing()) == Nothing()
        with pytest.raises(ValueError, match="not positive"):
            replace(Positive(number=1), number=-n)
        with pytest.raises(TypeError, match="other"):
            replace(here, other=1)  # type: ignore[call-arg]
        with pytest.raises(ValueError, match="doubled: a value sets this field itself"):
            replace(Doubled(number=1), doubled=3)
        assert replace(Farther("far", row=1), row=n) == Farther("far", row=n)
    assert type(replace(Farther("far", row=1), row=2)) is Farther


def test_a_field_of_either_kind_is_one() -> None:
    """`field` of `dataclasses` and of ours declare the same."""
    assert Doubled(number=2).doubled == 4
    assert repr(Doubled(number=2)) == "Doubled(number=2)"


def test_a_wrong_field_is_refused_with_its_class() -> None:
    """A shared mutable default, and a field without a type, are immediate errors."""
    with pytest.raises(ValueError, match=r"mutable default \[\]"):

        @value
        class _Shared:
            names: list[str] = []  # noqa: RUF012

    with pytest.raises(TypeError, match="'name' is a field but has no type"):

        @value
        class _Untyped:
            name = our_field(default=1)


def test_a_value_is_declared_without_dataclasses() -> None:
    """To declare, make, compare and replace values imports neither `dataclasses` nor `inspect`."""
    code = (
        "import sys\n"
        "from bastion.value import field, replace, value\n"
        "class Point:\n    x: int\n    y: int = field(default=0)\n"
        "Point.__annotations__ = {'x': 'int', 'y': 'int'}\n"
        "Point = value(Point)\n"
        "assert replace(Point(x=1), y=2) == Point(x=1, y=2)\n"
        "print([m for m in ('dataclasses', 'inspect', 'ast') if m in sys.modules])\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


def point() -> Any:
    """Return a new class of values that has no instances yet."""

    @value
    class Point:
        x: int
        tags: list[str] = our_field(default_factory=list)
        y: int = 2
        sum: int = our_field(init=False)

        def __post_init__(self) -> None:
            if self.x < 0:
                raise ValueError("below 0")
            object.__setattr__(self, "sum", self.x + self.y)

    return Point


def test_the_first_values_of_a_class_are_made_as_the_later_ones() -> None:
    """Their `__init__` is not compiled yet: fields, defaults and checks are the same."""
    kind = point()
    for _ in range(30):
        made = kind(x=1)
        assert (made.x, made.tags, made.y, made.sum) == (1, [], 2, 3)
        assert made == kind(x=1, tags=[], y=2)
        assert made.tags is not kind(x=1).tags
        with pytest.raises(ValueError, match="below 0"):
            kind(x=-1)


@pytest.mark.parametrize("named", [{}, {"y": 1}, {"x": 1, "z": 2}, {"x": 1, "sum": 3}])
def test_what_does_not_fit_is_told_alike_by_the_first_and_the_later(named: dict[str, int]) -> None:
    """The error for the first value of a class equals that of a compiled `__init__`."""
    kind = point()
    told = set()
    for _ in range(30):
        with pytest.raises(TypeError) as error:
            kind(**named)
        told.add(str(error.value))
    assert len(told) == 1
    assert "__init__()" in told.pop()
    with pytest.raises(TypeError, match="positional"):
        point()(1)
