"""`value` for specs: errors about wrong arguments use the words of specs."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, dataclass_transform

from bastion.value import field
from bastion.value import value as plain_value
from quota.explained import explained

if TYPE_CHECKING:
    from quota.misfit import Misfit

_T = TypeVar("_T")
_MADE: dict[str, type] = {}
"""Every value created here, by its name: an argument may be meant for another one."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def value(cls: type[_T]) -> type[_T]:
    """Make `cls` a value, like `bastion.value.value`; wrong arguments raise a SpecError."""
    cls.__misfit__ = misfit_error  # type: ignore[attr-defined]
    made = plain_value(cls)
    _MADE[made.__name__] = made
    return made


def told_misfits(cls: type[_T]) -> type[_T]:
    """Make a class with its own `__init__` raise a SpecError for wrong arguments too."""
    cls.__init__ = explained(cls.__init__, cls.__name__, misfit_error)  # type: ignore[method-assign]
    return cls


def misfit_error(misfit: Misfit) -> Exception:
    """Return the error for wrong arguments; loads its words only when needed."""
    from bastion import spec
    from bastion.spec.values.misuse import told

    for name in spec.__all__:  # an argument may be meant for any of them
        getattr(spec, name)
    return told(misfit, _MADE)
