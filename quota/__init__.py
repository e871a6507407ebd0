"""
Shares of projects in a pool of resources: the quota file, and the arithmetic over it.

`parse` (in `quota.file`) makes a `Quota` of the file's text, `Amounts` counts units, `quota.ledger`
tells what is free, borrowed and lent, `quota.nesting` keeps the sums of groups up to date, and
`compare` tells what another file would change. All but amounts is loaded when it is first used: a
program that only counts units does not wait for a reader of TOML.

Read `file` first, then `tree` (the file as values; `lines` says where each stands), `amounts`,
`ledger` and `nesting`. `limits` are those of users, `budget` is what may be used in a period,
`maintenance` windows, `options` those of the scheduler. `apportion` makes whole units of fractions;
`reach` is what a project can never hold, `refusal` why a request cannot be charged, and `change`
what another file changes. The packages above share `value`, `bastion_error`, `pattern`, and what is
said of words and arguments that do not fit: `choice`, `misfit`, `explained`.
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
