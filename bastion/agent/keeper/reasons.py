"""
The reasons of the notices that the keeper gives by itself; standard library only.

They stand apart because both sides need them: the keeper, which may not import the port (start-up
and memory), and the port, which promises them.
"""

TIME_LIMIT = "time limit"
"""`max_runtime_s` has passed."""

LOST_CONTACT = "lost contact"
"""The permit has run out: the bucket could not be reached for too long."""

SIBLING_FAILED = "sibling failed"
"""Another process of the same attempt failed."""

IDLE = "idle"
"""It showed no sign of life for its `idle_timeout`."""

KEEPER_STOPPED = "keeper stopped"
"""The keeper itself was told to end (SIGTERM)."""

_OUTCOMES = {
    "preempt": "preempted",
    "cancel": "cancelled",
    TIME_LIMIT: "timed_out",
    SIBLING_FAILED: "stopped",
    IDLE: "failed",
}


def outcome_after(reason: str) -> str:
    """What a clean-up is told of an attempt whose first notice had this reason."""
    return _OUTCOMES.get(reason, "lost")
