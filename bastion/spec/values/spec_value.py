"""`value` for specs: arguments that do not fit one are told in the words of specs."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, dataclass_transform

from bastion.value import field
from bastion.value import value as plain_value
from quota.explained import explained

if TYPE_CHECKING:
    from quota.misfit import Misfit

_T = TypeVar("_T")
_MADE: dict[str, type] = {}
"""Every value that is made here, by its name: an argument may have been meant for another."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def value(cls: type[_T]) -> type[_T]:
    """Make `cls` a value, as `bastion.value.value` does, whose misfit arguments are a SpecError."""
    cls.__misfit__ = misfit_error  # type: ignore[attr-defined]
    made = plain_value(cls)
    _MADE[made.__name__] = made
    return made


def told_misfits(cls: type[_T]) -> type[_T]:
    """Have a class with an `__init__` of its own raise a SpecError for misfit arguments too."""
    cls.__init__ = explained(cls.__init__, cls.__name__, misfit_error)  # type: ignore[method-assign]
    return cls


def misfit_error(misfit: Misfit) -> Exception:
    """Return the error for arguments that do not fit, whose words are loaded only now."""
    from bastion import spec
    from bastion.spec.values.misuse import told

    for name in spec.__all__:  # an argument may have been meant for any of them
        getattr(spec, name)
    return told(misfit, _MADE)
