"""Who may hold how much of what: the quota file, and the arithmetic over it."""

from __future__ import annotations

from quota.amounts import NOTHING, Amounts, missing

__all__ = ["NOTHING", "Amounts", "missing"]
