"""The resources of one process."""

from __future__ import annotations

import reprlib
from typing import TYPE_CHECKING, Any

from bastion.errors import SpecError
from bastion.spec.values.quantity import bytes_of
from bastion.spec.values.spec_value import told_misfits
from quota.amounts import Amounts

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema


MAX_TYPES = 64
"""Per process: pools have a handful."""
MAX_TYPE_CHARACTERS = 63
"""Per name of a resource type, as for every other name."""
MAX_UNITS = 10**15
"""Per type and process: a petabyte of memory; sums of it are still exact as floats."""


@told_misfits
class Resources:
    """
    Whole units by resource type: `Resources(h100=2, cpu=8, memory="64GiB")`.

    Memory is in bytes, or text with a unit. `H100` is `h100`, `A100-80GB` is `a100_80gb`, `mem` is
    `memory` and `cpus` is `cpu`. The bastion checks whether a type exists.

    Raises:
        SpecError: A unit is not a whole number above zero; the error lists every problem.
    """

    __slots__ = ("amounts",)
    amounts: Amounts

    def __init__(self, **units: int | str) -> None:
        if len(units) > MAX_TYPES:
            raise SpecError(f"resources: {len(units)} types are not allowed; at most {MAX_TYPES}")
        problems: list[str] = []
        whole: dict[str, int] = {}
        for key, written in units.items():
            name = type_name(key)
            try:
                if name in whole:
                    raise SpecError(f"resources.{key}: {name} is given twice; give it once")
                whole[name] = _units(name, written)
            except SpecError as error:
                problems.extend(error.problems)
        if problems:
            raise SpecError(*problems)
        object.__setattr__(self, "amounts", Amounts(whole))

    def __setattr__(self, name: str, _: object) -> None:
        raise AttributeError(f"Resources are frozen: cannot set {name}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Make a copy from its units: `pickle` and `copy` would set its field like anyone else."""
        return self._stored, (self._plain(),)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Resources) and self.amounts == other.amounts

    def __hash__(self) -> int:
        return hash(self.amounts)

    def __repr__(self) -> str:
        return f"Resources({', '.join(f'{name}={n}' for name, n in self.amounts.items())})"

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(
            cls._stored, serialization=core_schema.plain_serializer_function_ser_schema(cls._plain)
        )

    @classmethod
    def _stored(cls, stored: object) -> Resources:
        if isinstance(stored, Resources):
            return stored
        if not isinstance(stored, dict):
            raise SpecError(f"resources: {stored!r} is not a table; allowed: type = units")
        return cls(**stored)

    def _plain(self) -> dict[str, int]:
        return dict(self.amounts.items())


_SAME = {"mem": "memory", "cpus": "cpu", "vcpu": "cpu", "vcpus": "cpu"}
"""Other names of resource types, used by Slurm and clouds."""


def type_name(written: str) -> str:
    """Return the resource type for `written`: lower case, with underscores."""
    name = written.strip().lower().replace("-", "_")
    return _SAME.get(name, name)


def _units(name: str, written: int | str) -> int:
    if len(name) > MAX_TYPE_CHARACTERS:
        raise SpecError(
            f"resources.{name[:20]}...: {len(name)} characters; at most {MAX_TYPE_CHARACTERS}"
        )
    field = f"resources.{name}"
    if name == "memory":
        units = bytes_of(field, written)
    elif isinstance(written, bool) or not isinstance(written, int):
        raise SpecError(
            f"{field}: {reprlib.repr(written)} is not a number of units; allowed: 1, 2, 3, ..."
        )
    else:
        units = written
    if units < 1:
        raise SpecError(
            f"{field}: {reprlib.repr(units)} is not above zero; leave the type out to ask for none"
        )
    if units > MAX_UNITS:
        raise SpecError(f"{field}: more than there can be; at most {MAX_UNITS}")
    return units
