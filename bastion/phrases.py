"""A job's state and its reason, as a sentence about the job."""

from __future__ import annotations

from bastion.endings import OutcomeKind, StopReason

_STATE_PHRASES = {
    OutcomeKind.SUCCEEDED: "succeeded",
    OutcomeKind.FAILED: "failed",
    OutcomeKind.CANCELLED: "was cancelled",
    OutcomeKind.TIMED_OUT: "timed out",
    OutcomeKind.OUT_OF_MEMORY: "ran out of memory",
    OutcomeKind.SETUP_FAILED: "could not be set up",
    OutcomeKind.LOST: "was lost",
}


def state_phrase(state: str) -> str:
    """Return a job's state, to follow its name: `is queued`, `failed`, `was cancelled`."""
    return _STATE_PHRASES[OutcomeKind(state)] if state in _STATE_PHRASES else f"is {state}"


def after_phrase(state: str, text: str) -> str:
    """
    Return a job's text, to follow `state_phrase`, without the words that would repeat its state.

    `was cancelled` and `is held` are followed by ` by ann`, `is stopping` by `: preempted; killed
    in 5s`.
    """
    if state in (OutcomeKind.CANCELLED, "held") and text.startswith(f"{state} by "):
        return text.removeprefix(state)
    again = "set-up failed: " if state == OutcomeKind.SETUP_FAILED else f"{state}: "
    rest = text.removeprefix(again)
    if not rest.endswith(f" was {state}"):  # `its dependency a-1 was` would be half a sentence
        rest = rest.removesuffix(f" {state}")
    return f": {rest}" if rest else ""


_STOPS = {
    StopReason.PREEMPT: "preempted",
    StopReason.RESIZE: "more replicas fit",
    StopReason.CANCEL: "cancelled",
    StopReason.TIME_LIMIT: "its max_runtime is over",
    StopReason.SIBLING: "another replica failed",
    StopReason.FINISHED: "its first replica has succeeded",
    StopReason.IDLE: "it shows no sign of life",
    StopReason.HOST_LOST: "a machine of it is lost",
    StopReason.END_MISSING: "its end is missing from the bucket",
    StopReason.NO_MACHINES: "machines for it could not be created",
    StopReason.LOST_CONTACT: "its machine lost contact",
}


def stop_text(reason: StopReason, by: str = "") -> str:
    """Return why a job is stopped, for example `preempted for train-1` or `cancelled by ann`."""
    if not by:
        return _STOPS[reason]
    match reason:
        case StopReason.PREEMPT:
            return f"preempted for {by}"
        case StopReason.CANCEL:
            return f"cancelled by {by}"
        case _:
            return f"{_STOPS[reason]}: {by}"
