"""The terms for how a job ends and why it is stopped."""

from __future__ import annotations

from enum import StrEnum


class StopReason(StrEnum):
    """Why an attempt is being stopped; also the word in the notice that its processes get."""

    PREEMPT = "preempt"
    CANCEL = "cancel"
    TIME_LIMIT = "time limit"
    SIBLING = "sibling failed"
    FINISHED = "finished"
    """Its first replica has succeeded, which decides for all of them."""
    RESIZE = "resize"
    """It is to start again with a different number of replicas."""
    IDLE = "idle"
    """It showed no sign of life. Only a keeper gives this reason, to one of its own hosts."""
    HOST_LOST = "host lost"
    END_MISSING = "end missing"
    """The machine of a host says that it is over, but the bucket does not have its end."""
    NO_MACHINES = "no machines"
    """Machines that it was placed on could not be created, while others of it were ready."""
    LOST_CONTACT = "lost contact"
    """Its keeper's permit ran out, or its keeper was stopped."""


class OutcomeKind(StrEnum):
    """How a job, or one attempt of it, ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    SETUP_FAILED = "setup_failed"
    PREEMPTED = "preempted"
    STOPPED = "stopped"
    """Only for an attempt: another job of its launch failed, a machine is missing, or it grows."""
    LOST = "lost"
