"""
Who may hold how much of what: the quota file, and the arithmetic over it.

`parse` makes a `Quota` of the file's text, `Amounts` counts units, `quota.ledger` tells what is
free, borrowed and lent, and `compare` what another file would change.
"""

from __future__ import annotations

from quota.amounts import NOTHING, Amounts, missing
from quota.change import MemberChange, OptionChange, QuotaChange, ShareChange, compare
from quota.config import parse
from quota.errors import Problem, QuotaError
from quota.options import DEFAULTS, SchedulerOptions
from quota.refusal import (
    AmbiguousProject,
    NoProject,
    NotMember,
    ProjectRefusal,
    UnknownProject,
)
from quota.tree import People, Project, Quota, Tier

__all__ = [
    "DEFAULTS",
    "NOTHING",
    "AmbiguousProject",
    "Amounts",
    "MemberChange",
    "NoProject",
    "NotMember",
    "OptionChange",
    "People",
    "Problem",
    "Project",
    "ProjectRefusal",
    "Quota",
    "QuotaChange",
    "QuotaError",
    "SchedulerOptions",
    "ShareChange",
    "Tier",
    "UnknownProject",
    "compare",
    "missing",
    "parse",
]
