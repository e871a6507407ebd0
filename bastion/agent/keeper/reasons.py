"""
Reasons of the keeper's own notices, and what it passes to clean-ups; standard library only.

They have a file of their own because two files need them: the port, which promises them, and the
keeper, which does not import the port for the sake of its start-up time and memory.
"""

TIME_LIMIT = "time limit"
"""`max_runtime_s` has passed."""

LOST_CONTACT = "lost contact"
"""The permit has expired: the bucket was unreachable for too long."""

LOST_GRACE_S = 30.0
"""Longest grace after that: the bastion expects the end soon, and nothing can be saved anyway."""

SIBLING_FAILED = "sibling failed"
"""Another process of the same attempt failed."""

IDLE = "idle"
"""It showed no sign of life for its `idle_timeout`."""

KEEPER_STOPPED = "keeper stopped"
"""The keeper itself received SIGTERM."""

OUTCOME, EXIT_CODE = "BASTION_OUTCOME", "BASTION_EXIT_CODE"
"""Variables that the keeper adds to the environment of a clean-up: how its attempt ended."""

_OUTCOMES = {
    "preempt": "preempted",
    "resize": "preempted",
    "cancel": "cancelled",
    "finished": "succeeded",
    TIME_LIMIT: "timed_out",
    SIBLING_FAILED: "stopped",
    IDLE: "failed",
}


def outcome_after(reason: str) -> str:
    """Return the outcome, for its clean-up, of an attempt whose first notice had this reason."""
    return _OUTCOMES.get(reason, "lost")
