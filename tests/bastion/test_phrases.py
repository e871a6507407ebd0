"""A job's state as a sentence."""

from __future__ import annotations

import pytest

from bastion.phrases import after_phrase, state_phrase


@pytest.mark.parametrize(
    ("state", "text", "sentence"),
    [
        ("cancelled", "cancelled by ann", "was cancelled by ann"),
        (
            "held",
            "held by ann; it joins the queue when released",
            "is held by ann; it joins the queue when released",
        ),
        ("setup_failed", "set-up failed: no pip", "could not be set up: no pip"),
        ("stopping", "stopping: preempted; killed in 5s", "is stopping: preempted; killed in 5s"),
        ("preempted", "preempted: B reclaims 2 gpu", "is preempted: B reclaims 2 gpu"),
        ("succeeded", "all 4 tasks succeeded", "succeeded: all 4 tasks"),
        (
            "cancelled",
            "its dependency a-1 was cancelled",
            "was cancelled: its dependency a-1 was cancelled",
        ),
        ("failed", "exited with code 1", "failed: exited with code 1"),
        ("queued", "", "is queued"),
    ],
)
def test_a_state_is_said_once(state: str, text: str, sentence: str) -> None:
    """The words after the state do not repeat it."""
    assert state_phrase(state) + after_phrase(state, text) == sentence
