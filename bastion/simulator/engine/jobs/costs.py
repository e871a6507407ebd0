"""`Costs`: what starting, stopping and failing cost in a simulation."""

from __future__ import annotations

from bastion.value import value


@value
class Costs:
    """
    Seconds without work, and how often machines fail.

    The defaults suit a pool of existing machines with ordinary training jobs.
    """

    start_s: float = 20.0
    """From admission to the first second of work, on an existing machine."""
    restart_s: float = 60.0
    """Additional time for a resuming attempt: reading a checkpoint, warming up."""
    leave_s: float = 10.0
    """How long a job takes to leave after its notice, if its grace period allows that."""
    checkpoint_s: float = 1800.0
    """
    Seconds of work between checkpoints; a stopped attempt loses its work since the last one. 0:
    nothing is ever lost.
    """
    mtbf_s: float = 0.0
    """Mean time between failures of one machine; 0: machines do not fail."""
    repair_s: float = 3600.0
    """How long a failed machine is away."""
    stockout: float = 0.0
    """Probability that a pool is sold out when it is asked for machines."""
    stockout_s: float = 900.0
    """How long it is sold out then."""

    @property
    def are_none(self) -> bool:
        """Whether everything is free of cost and nothing fails."""
        return self == IDEAL


IDEAL = Costs(start_s=0.0, restart_s=0.0, leave_s=0.0, checkpoint_s=0.0)
"""Nothing costs anything, for comparison with published studies."""
