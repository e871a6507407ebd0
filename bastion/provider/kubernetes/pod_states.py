"""
What a pod says about the machine that it is. Pure.

A kubelet reports that a pod is over only after its containers have ended. The garbage collector of
pods on lost nodes reports it too, for containers that may still be running: that is no proof.

Source: kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle and .../disruptions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bastion.provider.kubernetes.names import ZONE
from bastion.provider.kubernetes.pod_events import Event, pull_under_way, trouble
from bastion.provider.kubernetes.pod_request import CONTAINER
from bastion.provider.port import Listed, State

_OVER = ("Succeeded", "Failed")
_BEING_MADE = ("ContainerCreating", "PodInitializing")
_OFF = "CrashLoopBackOff"
_COLLECTED = "DeletionByPodGC"
_NOT_ASKED = "has not been considered by a scheduler yet"

Pod = Mapping[str, Any]


def listed_of(pod: Pod, machine: str, pool: str, events: Sequence[Event] = ()) -> Listed:
    """
    Return the machine that `pod` is, as a provider lists it.

    `events` are the known events of the pod.
    """
    state = _state(pod)
    text = ""
    if state == "waiting":
        text = _scheduling(pod)
    elif state in ("stopped", "gone", "deleting"):
        text = _end(pod)
    stuck = _waiting(pod) if state in ("creating", "stopped") else ""
    pull = ""
    if is_being_made(pod):
        pull = pull_under_way(events)
        stuck = "" if pull else trouble(events)
    return Listed(
        name=machine,
        pool=pool,
        state=state,
        zone=(pod["metadata"].get("annotations") or {}).get(ZONE, ""),
        text=f"Kubernetes: {text}" if text else "",
        prepares=f"Kubernetes: {pull} on node {pod['spec']['nodeName']}" if pull else "",
        stuck=f"Kubernetes: {stuck}" if stuck else "",
        created_at=pod["metadata"].get("creationTimestamp", ""),
    )


def is_being_made(pod: Pod) -> bool:
    """Whether its node creates `pod`, or pulls its image, without an entry in its status."""
    return _state(pod) == "creating" and not _waiting(pod)


def is_deleted(pod: Pod) -> bool:
    """Whether someone has requested the end of `pod`."""
    return "deletionTimestamp" in pod["metadata"]


def is_ending(pod: Pod) -> bool:
    """Whether the end of `pod` was requested, and its kubelet has not confirmed it."""
    return is_deleted(pod) and _state(pod) == "deleting" and not is_collected(pod)


def is_collected(pod: Pod) -> bool:
    """Whether `pod` is over without a report of its kubelet, and none will follow."""
    is_over = pod["status"].get("phase", "") in _OVER
    return is_over and bool(pod["spec"].get("nodeName")) and not _is_proved(pod)


def _state(pod: Pod) -> State:
    phase = pod["status"].get("phase", "")
    if not pod["spec"].get("nodeName"):
        return "gone" if is_deleted(pod) or phase in _OVER else "waiting"
    if phase in _OVER:
        return "gone" if _is_proved(pod) else "deleting"
    if is_deleted(pod):
        return "deleting"
    ours = next(_container_states(pod, CONTAINER), {})
    if "running" in ours:
        return "running"
    is_off = (ours.get("waiting") or {}).get("reason") == _OFF
    return "stopped" if "terminated" in ours or is_off else "creating"


def _is_proved(pod: Pod) -> bool:
    """Whether the kubelet itself reported that a pod is over."""
    states = [*_container_states(pod)]
    if not all("terminated" in each for each in states):
        return False
    return bool(states) or not any(
        each.get("reason") == _COLLECTED for each in pod["status"].get("conditions") or ()
    )


def _container_states(pod: Pod, name: str = "") -> Iterator[Mapping[str, Any]]:
    """Yield the states of all containers, including injected ones; only of `name`, if given."""
    for each in pod["status"].get("containerStatuses") or ():
        if name in ("", each["name"]):
            yield each.get("state") or {}


def _scheduling(pod: Pod) -> str:
    for each in pod["status"].get("conditions") or ():
        if each["type"] == "PodScheduled" and each.get("reason"):
            return _told(each["reason"], each.get("message", ""))
    return _NOT_ASKED


def _waiting(pod: Pod) -> str:
    """Return why a container does not start; empty if it is still being created."""
    for status in pod["status"].get("containerStatuses") or ():
        said = (status.get("state") or {}).get("waiting") or {}
        if said.get("reason") and said["reason"] not in _BEING_MADE:
            last = (status.get("lastState") or {}).get("terminated") or {}
            before = f"; before, {_ended(last)}" if last else ""
            return f"{_told(said['reason'], said.get('message', ''))}{before}"
    return ""


def _end(pod: Pod) -> str:
    status = pod["status"]
    if status.get("reason"):
        return _told(status["reason"], status.get("message", ""))
    for each in status.get("conditions") or ():
        if each["type"] == "DisruptionTarget":
            return _told(each.get("reason", ""), each.get("message", ""))
    if waiting := _waiting(pod):
        return waiting
    ends = [_ended(each["terminated"]) for each in _container_states(pod) if "terminated" in each]
    return "; ".join(ends) or ("deleted" if is_deleted(pod) else "")


def _ended(said: Mapping[str, Any]) -> str:
    reason = said.get("reason") or "ended"
    return f"{reason}, exit code {said.get('exitCode')}"


def _told(reason: str, message: str) -> str:
    return " ".join((f"{reason}: {message}" if message else reason).split())
