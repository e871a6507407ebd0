"""
Why a machine, or some of its devices, cannot be used: what reasons tell of it.

It must not know who wanted it.
"""

from __future__ import annotations

from typing import Literal

from bastion.spec.quantity import text_of_seconds
from bastion.value import value
from quota.amounts import NOTHING, Amounts


@value
class Outage:
    """One machine that is out of use, or has devices that are."""

    machine: str
    cause: Literal["cordoned", "draining", "unwell", "silent", "deleting", "devices"]
    why: str = ""
    """Of a cordon, or of a machine that is unwell: what was said."""
    heard_at: float | None = None
    """Of silence: when it was heard of last, in store's seconds."""
    units: Amounts = NOTHING
    """Devices out of order, of one that is in use otherwise."""

    def words(self, now: float) -> str:
        """`gpu-1-0 (cordoned: xid 79)`."""
        return f"{self.machine} ({self._cause(now)})"

    def _cause(self, now: float) -> str:
        if self.cause == "cordoned":
            return f"cordoned: {self.why}"
        if self.cause == "unwell":
            return f"unwell: {self.why}"
        if self.cause == "devices":
            return f"{self.units} out of order"
        if self.cause == "silent" and self.heard_at is not None:
            return f"silent for {text_of_seconds(max(0.0, now - self.heard_at))}"
        return "being deleted" if self.cause == "deleting" else self.cause
