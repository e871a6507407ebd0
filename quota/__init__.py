"""
Shares of projects in a pool of resources: the quota file, and the arithmetic over it.

`parse` (in `quota.file`) reads a `Quota` from the file's text, `Amounts` counts units,
`quota.ledger` computes what is free, borrowed and lent, `quota.nesting` keeps the sums of groups up
to date, and `compare` returns what another file would change. Everything except amounts is loaded
on first use: a program that only counts units does not wait for a TOML parser.

Read `file` first, then `tree` (the file as values; `lines` knows the line of each), `amounts`,
`ledger` and `nesting`. `limits` are those of users, `budget` limits usage per period, `maintenance`
has windows, and `options` the settings of the scheduler. `apportion` converts fractions to whole
units; `reach` is what a project can never hold, `refusal` why a request cannot be charged, and
`change` what another file changes. The packages above share `value`, `bastion_error`, `pattern`,
and the error texts for words and arguments that do not fit: `choice`, `misfit`, `explained`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from quota.amounts import NOTHING, Amounts, missing

if TYPE_CHECKING:
    from quota.budget import Budget
    from quota.change import MemberChange, OptionChange, QuotaChange, ShareChange, compare
    from quota.file.config import parse
    from quota.file.errors import QuotaError
    from quota.limits import Limits
    from quota.maintenance import Window
    from quota.options import DEFAULTS, SchedulerOptions
    from quota.tree import Group, Project, Quota, Tier

__all__ = [
    "DEFAULTS",
    "NOTHING",
    "Amounts",
    "Budget",
    "Group",
    "Limits",
    "MemberChange",
    "OptionChange",
    "Project",
    "Quota",
    "QuotaChange",
    "QuotaError",
    "SchedulerOptions",
    "ShareChange",
    "Tier",
    "Window",
    "compare",
    "missing",
    "parse",
]

_PLACES = {
    "budget": ("Budget",),
    "change": ("MemberChange", "OptionChange", "QuotaChange", "ShareChange", "compare"),
    "file.config": ("parse",),
    "file.errors": ("QuotaError",),
    "limits": ("Limits",),
    "maintenance": ("Window",),
    "options": ("DEFAULTS", "SchedulerOptions"),
    "tree": ("Group", "Project", "Quota", "Tier"),
}
_HOMES = {name: place for place, names in _PLACES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'quota' has no attribute {name!r}")
    found = getattr(import_module(f"quota.{_HOMES[name]}"), name)
    globals()[name] = found
    return found
