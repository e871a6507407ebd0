"""
Why a machine, or some of its devices, cannot be used: what reasons tell of it.

It must not know which job asked for it.
"""

from __future__ import annotations

from textwrap import shorten
from typing import Literal

from bastion.scheduler.reasons.words import units
from bastion.spec.values.quantity import text_of_seconds
from bastion.value import value
from quota.amounts import NOTHING, Amounts

MOST_CHARACTERS = 200
"""Of what was said of devices: a machine may have one holder for each."""


Cause = Literal["cordoned", "draining", "drained", "unwell", "silent", "deleting", "devices"]


@value
class Outage:
    """One machine that is out of use, or has devices that are."""

    machine: str
    cause: Cause
    why: str = ""
    """What was said of a cordon, a drain, a machine that is unwell, or devices."""
    host: str = ""
    """The host of one's own that it is, where devices are out of use."""
    heard_at: float | None = None
    """Of silence: when it was last heard from, in store's seconds."""
    units: Amounts = NOTHING
    """Devices out of order, or that others hold, of one that is in use otherwise."""

    def words(self, now: float) -> str:
        """`gpu-1-0 (cordoned: xid 79)`."""
        place = f" on {self.host}" if self.host else ""
        return f"{self.machine}{place} ({self._cause(now)})"

    def _cause(self, now: float) -> str:
        if self.why and self.cause in ("cordoned", "draining", "drained", "unwell"):
            return f"{self.cause}: {self.why}"
        if self.cause == "devices":
            said = shorten(self.why, MOST_CHARACTERS, placeholder=" ...")
            return f"{units(self.units)}: {said}" if said else f"{units(self.units)} out of order"
        if self.cause == "silent" and self.heard_at is not None:
            return f"silent for {text_of_seconds(max(0.0, now - self.heard_at))}"
        return "being deleted" if self.cause == "deleting" else self.cause
