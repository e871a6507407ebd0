"""
Why a machine, or some of its devices, cannot be used, as reasons show it.

This module must not know which job asked for it.
"""

from __future__ import annotations

from textwrap import shorten
from typing import Literal

from bastion.scheduler.reasons.words import units
from bastion.spec.values.quantity import text_of_seconds
from bastion.value import value
from quota.amounts import NOTHING, Amounts

MOST_CHARACTERS = 200
"""The longest text shown about devices: a machine may have one holder for each."""


Cause = Literal["cordoned", "draining", "drained", "unwell", "silent", "deleting", "devices"]


@value
class Outage:
    """A machine that is out of use, or has unusable devices."""

    machine: str
    cause: Cause
    why: str = ""
    """The cause given for a cordon, a drain, an unwell machine or devices."""
    host: str = ""
    """For a host of your own with unusable devices: the host."""
    heard_at: float | None = None
    """For a silent machine: when it was last heard from, in seconds of the store's clock."""
    units: Amounts = NOTHING
    """On a machine that is otherwise in use: devices that are broken or held by others."""

    def words(self, now: float) -> str:
        """Return words such as `gpu-1-0 (cordoned: xid 79)`."""
        place = f" on {self.host}" if self.host else ""
        return f"{self.machine}{place} ({self.clause(now)})"

    def clause(self, now: float) -> str:
        """Return what is wrong, such as `cordoned: xid 79`."""
        if self.why and self.cause in ("cordoned", "draining", "drained", "unwell"):
            return f"{self.cause}: {self.why}"
        if self.cause == "devices":
            said = shorten(self.why, MOST_CHARACTERS, placeholder=" ...")
            return f"{units(self.units)}: {said}" if said else f"{units(self.units)} out of order"
        if self.cause == "silent" and self.heard_at is not None:
            return f"silent for {text_of_seconds(max(0.0, now - self.heard_at))}"
        return "being deleted" if self.cause == "deleting" else self.cause
