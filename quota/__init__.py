"""
Who may hold how much of what: the quota file, and the arithmetic over it.

`parse` makes a `Quota` of the file's text, `Amounts` counts units, `quota.ledger` tells what is
free, borrowed and lent, and `compare` what another file would change. All but amounts is
loaded when it is first used: whoever only counts units does not wait for a reader of TOML.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from quota.amounts import NOTHING, Amounts, missing

if TYPE_CHECKING:
    from quota.change import MemberChange, OptionChange, QuotaChange, ShareChange, compare
    from quota.config import parse
    from quota.errors import QuotaError
    from quota.options import DEFAULTS, SchedulerOptions
    from quota.tree import Project, Quota, Tier

__all__ = [
    "DEFAULTS",
    "NOTHING",
    "Amounts",
    "MemberChange",
    "OptionChange",
    "Project",
    "Quota",
    "QuotaChange",
    "QuotaError",
    "SchedulerOptions",
    "ShareChange",
    "Tier",
    "compare",
    "missing",
    "parse",
]

_PLACES = {
    "change": ("MemberChange", "OptionChange", "QuotaChange", "ShareChange", "compare"),
    "config": ("parse",),
    "errors": ("QuotaError",),
    "options": ("DEFAULTS", "SchedulerOptions"),
    "tree": ("Project", "Quota", "Tier"),
}
_HOMES = {name: place for place, names in _PLACES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'quota' has no attribute {name!r}")
    found = getattr(import_module(f"quota.{_HOMES[name]}"), name)
    globals()[name] = found
    return found
