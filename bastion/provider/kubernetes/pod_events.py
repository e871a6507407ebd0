"""
What the events of a pod say about the time before its container starts. Pure.

The status of a pod says `ContainerCreating` while its volumes are mounted, its network is created
and its image is pulled, whether that takes seconds or forever. A kubelet ends a pull that makes no
progress, so it is worth waiting for a pull that is in progress. A cluster keeps events for an hour.

Source: pkg/kubelet/events and pkg/kubelet/images/image_manager.go of Kubernetes 1.32.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

_PULLING = "Pulling"
_PULL_ENDS = ("Pulled", "Failed", "BackOff", "Created", "Started")
_OF_SCHEDULERS = "FailedScheduling"
_SECONDS = len("2026-11-30T00:00:00")

Event = Mapping[str, Any]


def pull_under_way(events: Sequence[Event]) -> str:
    """Return the pull in progress for a pod, in the words of its kubelet; empty if none."""
    of_container: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        of_container[event["involvedObject"].get("fieldPath", "")].append(event)
    for told in of_container.values():
        begun = [each for each in told if each.get("reason") == _PULLING]
        ended = max((_at(each) for each in told if each.get("reason") in _PULL_ENDS), default="")
        if begun and _at(newest := max(begun, key=_at)) > ended:
            return _words(newest)
    return ""


def trouble(events: Sequence[Event]) -> str:
    """Return what keeps a pod from starting on its node, if that is the newest event."""
    told = [each for each in events if each.get("reason") != _OF_SCHEDULERS]
    newest: Event = max(told, key=lambda each: (_at(each), _is_warning(each)), default={})
    return f"{newest.get('reason', '')}: {_words(newest)}" if _is_warning(newest) else ""


def _is_warning(event: Event) -> bool:
    return event.get("type") == "Warning"


def _at(event: Event) -> str:
    """Return the time of an event, to the second; it is in one of three places."""
    series = (event.get("series") or {}).get("lastObservedTime")
    said: str = series or event.get("lastTimestamp") or event.get("eventTime") or ""
    return said[:_SECONDS]


def _words(event: Event) -> str:
    return " ".join(event.get("message", "").split())
