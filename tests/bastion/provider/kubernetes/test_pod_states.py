"""What a pod says of its machine, and what does not prove its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from bastion.provider.kubernetes.pod_states import listed_of


def shown(phase: str, *states: Mapping[str, Any], **status: Any) -> dict[str, Any]:
    """Return a pod on a node, with these containers."""
    metadata = {"name": "a", "annotations": {}}
    names = ("machine", "sidecar")
    statuses = [{"name": name, "state": state} for name, state in zip(names, states)]
    said = {"phase": phase, "containerStatuses": statuses, **status}
    return {"metadata": metadata, "spec": {"nodeName": "n"}, "status": said}


COLLECTED = [{"type": "DisruptionTarget", "reason": "DeletionByPodGC", "message": "gone"}]


@pytest.mark.parametrize(
    ("said", "state"),
    [
        (shown("Running", {"running": {}}), "running"),
        (shown("Pending", {"waiting": {"reason": "ContainerCreating"}}), "creating"),
        (shown("Pending"), "creating"),
        (shown("Unknown", {"running": {}}), "running"),
        (shown("Running", {"terminated": {"exitCode": 0}}, {"running": {}}), "stopped"),
        (shown("Failed", {"terminated": {"exitCode": 1}}, {"running": {}}), "deleting"),
        (shown("Failed", {"terminated": {"exitCode": 1}}), "gone"),
        (shown("Failed", {"terminated": {"exitCode": 1}}, conditions=COLLECTED), "gone"),
        (shown("Failed", {"running": {}}, conditions=COLLECTED), "deleting"),
        (shown("Failed", conditions=COLLECTED), "deleting"),
        (shown("Failed", reason="UnexpectedAdmissionError"), "gone"),
        (shown("Failed", {"waiting": {"reason": "ContainerCreating"}}), "deleting"),
    ],
)
def test_an_end_is_believed_where_the_kubelet_has_told_it(said: Any, state: str) -> None:
    """A phase alone is no proof: others write it for nodes that do not answer."""
    assert listed_of(said, "here-7-0", "here").state == state


def test_a_deleted_pod_that_no_node_has_is_gone() -> None:
    """No scheduler assigns a node to a pod that is being deleted."""
    said: Any = {"metadata": {}, "spec": {}, "status": {"phase": "Pending"}}
    assert listed_of(said, "a-1-0", "a").state == "waiting"
    said["metadata"]["deletionTimestamp"] = "2026-11-30T00:00:00Z"
    assert listed_of(said, "a-1-0", "a").state == "gone"
