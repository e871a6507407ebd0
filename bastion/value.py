"""
`value`: the decorator of every plain value in Bastion.

A value is what `quota.value` creates: frozen, slotted, keyword-only, and checked when it is created
(in `__post_init__`). If it is also stored as JSON, an unknown field is an error. The attribute set
here tells pydantic so, without importing it.

Values that a scheduler cycle creates by the thousand and never stores are `NamedTuple`s instead:
creating one takes little more than half the time.
"""

from __future__ import annotations

from typing import Any, TypeVar, dataclass_transform

from quota.value import field as field
from quota.value import fields as fields
from quota.value import has_fields as has_fields
from quota.value import replace as replace
from quota.value import value as frozen_value

_T = TypeVar("_T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def value(cls: type[_T]) -> type[_T]:
    """Make `cls` a frozen, slotted, keyword-only dataclass that refuses unknown stored fields."""
    made: Any = frozen_value(cls)
    made.__pydantic_config__ = {"extra": "forbid"}
    return made  # type: ignore[no-any-return]
