"""One line of a census: why a machine could not take a job, apart from how that is found."""

from __future__ import annotations

from bastion.value import value
from quota.amounts import NOTHING, Amounts


@value
class MachineReport:
    """A machine, or what a pool could still create, as seen by a job that could not start."""

    job: str
    machine: str
    asked: Amounts = NOTHING
    """By one replica."""
    free: Amounts = NOTHING
    """Of the requested types, and available to the job."""
    fits: int = 0
    """Replicas that fit now."""
    why_not: str = ""
    """Why none fits, or empty."""
