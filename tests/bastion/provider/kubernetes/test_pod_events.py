"""What a pod's events say about the time before its container starts."""

from __future__ import annotations

from typing import Any

import pytest

from bastion.provider.kubernetes.pod_events import pull_under_way, trouble


def event(reason: str, at: int, *, container: str = "machine", **more: Any) -> dict[str, Any]:
    """Return an event of a pod at a second of some minute."""
    about = {"kind": "Pod", "uid": "1", "fieldPath": f"spec.containers{{{container}}}"}
    said = {"reason": reason, "message": f"{reason} x", "type": "Normal"}
    at_time = {"lastTimestamp": f"2026-11-30T00:00:{at:02}Z"}
    return {"involvedObject": about, **said, **at_time, **more}


@pytest.mark.parametrize(
    ("events", "told"),
    [
        ((), ""),
        ((event("Pulling", 1),), "Pulling x"),
        ((event("Pulling", 1), event("Pulled", 9)), ""),
        ((event("Pulling", 1), event("Pulled", 1)), ""),
        ((event("Pulling", 1), event("Failed", 9), event("BackOff", 10)), ""),
        ((event("Pulling", 20), event("Failed", 9)), "Pulling x"),
        (
            (event("Pulling", 1), event("Pulled", 1), event("Pulling", 1, container="b")),
            "Pulling x",
        ),
        (
            (event("Pulling", 1, lastTimestamp=None, eventTime="2026-11-30T00:00:01.5Z"),),
            "Pulling x",
        ),
    ],
)
def test_a_pull_is_under_way_until_its_container_has_another_event(events: Any, told: str) -> None:
    """Its end, good or bad, is such an event; a pull of another container continues."""
    assert pull_under_way(events) == told


def test_the_newest_word_tells_what_keeps_a_pod() -> None:
    """A warning with a later event is over; a lack of nodes is over once there is a node."""
    failed = event("FailedMount", 5, type="Warning")
    assert trouble((event("Scheduled", 1), failed)) == "FailedMount: FailedMount x"
    assert trouble((event("Scheduled", 5), failed)) == "FailedMount: FailedMount x"
    assert trouble((failed, event("Pulled", 9))) == ""
    assert trouble((event("FailedScheduling", 1, type="Warning"),)) == ""
