"""Phase 4: planned starts."""

from __future__ import annotations

from bastion.scheduler.draft import Draft


def plan_starts(draft: Draft) -> None:
    """Nothing yet is planned."""
