"""
`value`: how every plain value of this house is declared.

A value is frozen, slotted, keyword-only, and checked when made (in `__post_init__`). Where a value
is also stored as JSON, a field that nobody declared is an error, never ignored: the attribute set
here says so to pydantic without this file having to import it.

What one cycle of the scheduler makes by the thousand and nobody stores is a `NamedTuple` instead:
it is made in little more than half the time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar, dataclass_transform

_T = TypeVar("_T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def value(cls: type[_T]) -> type[_T]:
    """Make `cls` a frozen, slotted, keyword-only dataclass that refuses unknown stored fields."""
    made: Any = dataclass(frozen=True, slots=True, kw_only=True)(cls)
    made.__pydantic_config__ = {"extra": "forbid"}
    return made  # type: ignore[no-any-return]
