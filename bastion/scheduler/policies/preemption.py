"""The interface of a preemption policy: for which gangs others may be preempted."""

from __future__ import annotations

from bastion.value import value


@value
class PreemptionPolicy:
    """Which of the cycle's reasons for preemption are in force."""

    reclaims: bool
    """A borrower, for a gang of another project within its share; a borrower past its slice."""
    outranks: bool
    """Lower priority inside one project."""
    follows_order: bool = False
    """Running gangs yield to those before them in the order."""
