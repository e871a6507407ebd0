"""How long a published view is true: while its rows stay the same, only the status is renewed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NAMED_IN = {"queue": "views_seq", "pool": "pool_seq"}
"""The field of a status that names the commit of a view, by the view's name."""


def true_until(view: Mapping[str, Any], status: Mapping[str, Any], name: str) -> float:
    """
    Return the time until which the view `name` is known to be true, in the store's Unix seconds.

    A later status that names its commit means that no row has changed since. A bastion that has
    built its rows again and found them equal holds a view of a later commit.
    """
    then = float(view.get("now") or 0.0)
    is_standing = status.get(NAMED_IN[name], view.get("seq", 0) + 1) <= view.get("seq", 0)
    return max(then, float(status.get("now") or 0.0)) if is_standing else then
