"""One line of a census: what a job met at one machine; apart from how that is found out."""

from __future__ import annotations

from bastion.value import value
from quota.amounts import NOTHING, Amounts


@value
class MachineReport:
    """One machine, or what a pool could still make, as a job that could not start met it."""

    job: str
    machine: str
    asked: Amounts = NOTHING
    """By one replica."""
    free: Amounts = NOTHING
    """Of the types asked for, and open to it."""
    fits: int = 0
    """Replicas that it could take now."""
    why_not: str = ""
    """Why it can take none, or empty."""
