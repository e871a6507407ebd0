"""
`Amounts`: how much of each resource type, in whole units.

A type that is not named counts as zero, so zeros are never kept and two equal amounts are equal
values. Differences may be negative. A value never changes.

This is the scheduler's innermost value: `+`, `-` and `<=` run many thousand times per cycle. So it
keeps a plain dict in one slot and does not check its own results again.

This module must not know what a type means, nor which types are under quota.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic_core import CoreSchema


class Amounts:
    """
    A frozen, hashable multiset: resource type -> whole units, which may be negative.

    `+`, `-` and `n *` work type by type. `a | b` is the larger and `a & b` the smaller of the two
    for every type named in either. `a <= b` compares every type named in either, so neither `a <=
    b` nor `b <= a` may hold.

    Args:
        units: Whole units by type; zeros are dropped.

    Raises:
        TypeError: A unit is not an int.

    Source: the operators of `collections.Counter`, but differences keep their sign.
    """

    __slots__ = ("_hash", "_items", "_units")

    _units: dict[str, int]
    _hash: int
    _items: tuple[tuple[str, int], ...]

    def __init__(self, units: Mapping[str, int]) -> None:
        for resource, number in units.items():
            if type(number) is not int:
                raise TypeError(f"{resource}: {number!r} is not a whole number of units")
        self._units = {resource: number for resource, number in units.items() if number}

    @staticmethod
    def sum(amounts: Iterable[Amounts]) -> Amounts:
        """Return the sum of `amounts`; `NOTHING` for none. Faster than adding them one by one."""
        total: dict[str, int] = {}
        for each in amounts:
            for resource, number in each._units.items():
                total[resource] = total.get(resource, 0) + number
        return _of({resource: number for resource, number in total.items() if number})

    def __add__(self, other: Amounts) -> Amounts:
        mine, theirs = self._units, other._units
        if not theirs:
            return self
        if not mine:
            return other
        total = mine.copy()
        for resource, number in theirs.items():
            if resource not in total:
                total[resource] = number
            elif both := total[resource] + number:
                total[resource] = both
            else:
                del total[resource]
        return _of(total)

    def __sub__(self, other: Amounts) -> Amounts:
        theirs = other._units
        if not theirs:
            return self
        rest = self._units.copy()
        for resource, number in theirs.items():
            if resource not in rest:
                rest[resource] = -number
            elif left := rest[resource] - number:
                rest[resource] = left
            else:
                del rest[resource]
        return _of(rest)

    def __neg__(self) -> Amounts:
        return _of({resource: -number for resource, number in self._units.items()})

    def __mul__(self, times: int) -> Amounts:
        if times == 1:
            return self
        if not times:
            return NOTHING
        return _of({resource: number * times for resource, number in self._units.items()})

    __rmul__ = __mul__

    def __or__(self, other: Amounts) -> Amounts:
        mine, theirs = self._units, other._units
        larger = {}
        for resource, number in mine.items():
            if more := max(number, theirs.get(resource, 0)):
                larger[resource] = more
        for resource, number in theirs.items():
            if number > 0 and resource not in mine:
                larger[resource] = number
        return _of(larger)

    def __and__(self, other: Amounts) -> Amounts:
        mine, theirs = self._units, other._units
        smaller = {}
        for resource, number in mine.items():
            if less := min(number, theirs.get(resource, 0)):
                smaller[resource] = less
        for resource, number in theirs.items():
            if number < 0 and resource not in mine:
                smaller[resource] = number
        return _of(smaller)

    def __le__(self, other: Amounts) -> bool:
        mine, theirs = self._units, other._units
        for resource, number in mine.items():
            if number > theirs.get(resource, 0):
                return False
        for resource, number in theirs.items():  # noqa: SIM110  a generator costs twice as much
            if number < 0 and resource not in mine:
                return False
        return True

    def holds(self, held: Amounts, more: Amounts) -> bool:
        """Whether `held + more` is at most this, in every type that `more` names."""
        mine, theirs = self._units, held._units
        for resource, number in more._units.items():
            if theirs.get(resource, 0) + number > mine.get(resource, 0):
                return False
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Amounts) and self._units == other._units

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            self._hash = hash(frozenset(self._units.items()))
            return self._hash

    def __bool__(self) -> bool:
        return bool(self._units)

    def __getitem__(self, resource: str) -> int:
        return self._units.get(resource, 0)

    def __contains__(self, resource: object) -> bool:
        return resource in self._units

    def __iter__(self) -> Iterator[str]:
        return iter(self.types())

    def __len__(self) -> int:
        return len(self._units)

    def types(self) -> tuple[str, ...]:
        """Return the types with units other than zero, sorted."""
        units = self._units
        return tuple(units) if len(units) == 1 else tuple(sorted(units))

    def items(self) -> tuple[tuple[str, int], ...]:
        """Return type and units, for every type with units other than zero, sorted by type."""
        try:
            return self._items
        except AttributeError:
            units = self._units.items()
            self._items = tuple(units) if len(units) == 1 else tuple(sorted(units))
            return self._items

    def positive(self) -> Amounts:
        """Return the types above zero; the rest is dropped."""
        return _of({resource: number for resource, number in self._units.items() if number > 0})

    def only(self, types: Container[str]) -> Amounts:
        """Return the units of `types`; every other type is dropped."""
        return _of(
            {resource: number for resource, number in self._units.items() if resource in types}
        )

    def __str__(self) -> str:
        """Format for people: `8 h100 + 2 v4`, `8 h100 - 2 v4`, or `nothing`."""
        text = " ".join(f"{'-' if n < 0 else '+'} {abs(n)} {r}" for r, n in self.items())
        if not text:
            return "nothing"
        return text[2:] if text[0] == "+" else f"-{text[2:]}"

    def __repr__(self) -> str:
        return f"Amounts({dict(self.items())!r})"

    def __reduce__(self) -> tuple[type[Amounts], tuple[dict[str, int]]]:
        # The cached hash is valid in this process only (text hashes are salted).
        return Amounts, (dict(self.items()),)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> CoreSchema:
        """Store as a JSON object of whole numbers, sorted by type."""
        from pydantic_core import core_schema

        stored = core_schema.no_info_after_validator_function(
            cls,
            core_schema.dict_schema(core_schema.str_schema(), core_schema.int_schema(strict=True)),
        )
        return core_schema.json_or_python_schema(
            json_schema=stored,
            python_schema=core_schema.union_schema([core_schema.is_instance_schema(cls), stored]),
            serialization=core_schema.plain_serializer_function_ser_schema(_stored),
        )


def _of(units: dict[str, int]) -> Amounts:
    """Wrap `units` without a copy: no zeros, all whole, with no other owner."""
    made = _blank(Amounts)
    made._units = units
    return made


def _stored(amounts: Amounts) -> dict[str, int]:
    return dict(amounts.items())


_blank = object.__new__

NOTHING = Amounts({})
"""No units of anything: where sums start."""


def missing(want: Amounts, have: Amounts) -> Amounts:
    """Return what `want` asks beyond `have`, never negative; `NOTHING` if `want <= have`."""
    return (want - have).positive()
