"""
`value`: the decorator of every plain value in Bastion.

A value is what `quota.value` makes: frozen, slotted, keyword-only, and checked when it is made (in
`__post_init__`). Where it is also stored as JSON, an unknown field is an error. The attribute set
here says so to pydantic, without an import of it.

Values that a cycle of the scheduler makes by the thousand and that are never stored are
`NamedTuple`s instead: these are made in little more than half the time.
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
