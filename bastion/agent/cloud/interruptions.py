"""
Notices that a cloud takes a machine back: read from its metadata server every few seconds.

| cloud | what is read                                  | how long the machine still runs        |
|-------|-----------------------------------------------|----------------------------------------|
| gce   | `instance/preempted` is TRUE                  | 30 s, or as requested by its pool      |
| gce   | `instance/maintenance-event` is TERMINATE_... | 1 h with GPUs, 60 s without            |
| ec2   | `spot/instance-action`                        | until the time that it names           |
| ec2   | `events/recommendations/rebalance`            | it is only likely: until it is certain |
| azure | `scheduledevents`: Preempt, Reboot, ...    | until the time that it names           |
| slurm | `notice`, written by the batch script         | until the time that it names           |
| kube. | `notice`, written by the first process        | until the time that it names           |

Source: cloud.google.com/compute/docs/instances/spot and .../gpus/gpu-host-maintenance; Amazon EC2
User Guide, "Spot Instance interruption notices" and "EC2 instance rebalance recommendations"; Azure
Virtual Machines, "Scheduled Events for Linux VMs".
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime

from bastion.agent.cloud.metadata import Metadata, json_of
from bastion.agent.settings import Cloud
from bastion.records.reports.facts import MAX_STEP_S, Interruption

LOOK_S = 5.0
"""Between two looks: it leaves most of the shortest notice, 30 s, and a look costs 1 ms."""

PREEMPTED_S = 30.0
NOTICE_ATTRIBUTE = "instance/attributes/bastion-preemption-notice-s"
"""Seconds of notice before a preemption of this VM, if its pool requests it."""
_LONGEST_NOTICE_S = 120.0
_MAINTENANCE_S = 60.0
_GPU_MAINTENANCE_S = 3600.0
_SPOT_S = 120.0
_LIKELY_S = 600.0

AZURE_EVENTS = "scheduledevents?api-version=2020-07-01"
_ENDS = {
    "Preempt": "the spot VM is evicted",
    "Terminate": "the VM is deleted",
    "Redeploy": "the VM is moved to another host",
    "Reboot": "the VM is rebooted",
}
"""Events that end every process of a VM; the others only pause it."""
_EVENT_S = 900.0
"""The longest notice of an event that Azure documents, for a reboot or a deletion."""

_NOTED: Mapping[Cloud, str] = {
    "slurm": "Slurm ends its job",
    "kubernetes": "Kubernetes ends its pod",
}

SHIPPING_PART = 6
"""A sixth of a notice, at most `SHIPPING_S`, is kept for the last bytes of logs and outputs."""
SHIPPING_S = 15.0
LONGEST_GRACE_S = 300.0
"""With a longer notice, processes keep running, and get their own when this much time is left."""


def look_for_interruption(
    metadata: Metadata, cloud: Cloud, *, wall: float, has_gpus: bool
) -> Interruption | None:
    """
    Return the announced interruption of this machine, if any.

    Raises:
        MetadataError: The metadata server did not answer.
    """
    if cloud in _NOTED:
        return _noted(metadata, wall, _NOTED[cloud])
    if cloud == "azure":
        return _of_azure(metadata, wall)
    return _of_ec2(metadata, wall) if cloud == "ec2" else _of_gce(metadata, has_gpus=has_gpus)


def grace_of(in_s: float) -> float:
    """Return how much of the last `in_s` seconds of their machine processes get."""
    return max(1.0, in_s - min(SHIPPING_S, in_s / SHIPPING_PART))


def _of_gce(metadata: Metadata, *, has_gpus: bool) -> Interruption | None:
    if metadata.read("instance/preempted") == "TRUE":
        in_s = _announced_s(metadata.read(NOTICE_ATTRIBUTE))
        return Interruption(in_s=in_s, text="the spot VM is preempted")
    if metadata.read("instance/maintenance-event").startswith("TERMINATE"):
        in_s = _GPU_MAINTENANCE_S if has_gpus else _MAINTENANCE_S
        return Interruption(in_s=in_s, text="its host is under maintenance")
    return None


def _announced_s(said: str) -> float:
    """Return the notice, never shorter than a shutdown or longer than Google gives."""
    try:
        return max(PREEMPTED_S, min(float(said), _LONGEST_NOTICE_S))
    except ValueError:
        return PREEMPTED_S


def _of_ec2(metadata: Metadata, wall: float) -> Interruption | None:
    action = json_of(metadata.read("spot/instance-action"))
    if action.get("action") in ("terminate", "stop", "hibernate"):
        in_s = _until(str(action.get("time", "")), wall)
        return Interruption(in_s=in_s, text=f"spot: {action['action']} at {action.get('time')}")
    if json_of(metadata.read("events/recommendations/rebalance")):
        text = "EC2 recommends to rebalance"
        return Interruption(in_s=_LIKELY_S, is_certain=False, text=text)
    return None


def _of_azure(metadata: Metadata, wall: float) -> Interruption | None:
    """Return the first announced event that ends the processes of this VM."""
    said = json_of(metadata.read(AZURE_EVENTS)).get("Events") or ()
    events = [
        (_until_event(str(each.get("NotBefore", "")), wall), str(each["EventType"]))
        for each in said
        if each.get("EventType") in _ENDS
    ]
    if not events:
        return None
    in_s, kind = min(events)
    return Interruption(in_s=in_s, text=f"{kind}: {_ENDS[kind]}")


def _until_event(not_before: str, wall: float) -> float:
    """Return the seconds until an event; 0 if it has begun, which leaves its time blank."""
    try:
        left = parsedate_to_datetime(not_before).timestamp() - wall
    except ValueError:
        return 0.0
    return min(max(left, 0.0), _EVENT_S, MAX_STEP_S)


def _noted(metadata: Metadata, wall: float, text: str) -> Interruption | None:
    """
    Return the interruption of which the first process was told, with a time by this machine's
    clock.
    """
    said = metadata.read("notice")
    if not said:
        return None
    in_s = float(said) - wall if said.isdigit() else 0.0
    return Interruption(in_s=min(max(in_s, 0.0), MAX_STEP_S), text=text)


def _until(time: str, wall: float) -> float:
    try:
        left = datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp() - wall
    except ValueError:
        return _SPOT_S
    # This machine's clock may be wrong: the notice is never longer than EC2's.
    return min(max(left, 0.0), _SPOT_S, MAX_STEP_S)
