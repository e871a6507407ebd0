"""What Cloud TPU's answers say about a slice. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bastion.provider.gcp.verdicts import Failure, of_rpc
from bastion.provider.port import State

# Source: tpu.v2.json, `QueuedResourceState.state`. ACTIVE: see the state of the node.
_OF_REQUEST: Mapping[str, State] = {
    "CREATING": "waiting",
    "ACCEPTED": "waiting",
    "WAITING_FOR_RESOURCES": "waiting",
    "PROVISIONING": "creating",
    "ACTIVE": "creating",
    "FAILED": "stopped",
    "SUSPENDING": "deleting",
    "SUSPENDED": "gone",
    "DELETING": "deleting",
}
# Source: tpu.v2.json, `Node.state`.
_OF_NODE: Mapping[str, State] = {
    "READY": "running",
    "STOPPING": "stopped",
    "STOPPED": "stopped",
    "DELETING": "deleting",
    "PREEMPTED": "gone",
    "TERMINATED": "gone",
}


def labels_of(shown: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the labels of a node, or of the node that a queued resource asks for."""
    if "tpu" not in shown:
        labelled: Mapping[str, str] = shown.get("labels", {})
        return labelled
    return next((spec["node"].get("labels", {}) for spec in shown["tpu"]["nodeSpec"]), {})


def state_of(request: Mapping[str, Any], node: Mapping[str, Any]) -> tuple[State, str]:
    """
    Return the state of a slice and Google's words for it, from its request and its node.

    A request that is being deleted and has no node is gone: nothing runs, and nothing will.
    """
    asked = request.get("state", {}).get("state", "")
    if node and asked not in ("SUSPENDING", "DELETING"):
        status = node.get("state", "")
        words = (status, node.get("health", ""), node.get("healthDescription", ""))
        return _OF_NODE.get(status, "creating"), " ".join(filter(None, words))
    if asked == "DELETING" and not node:
        return "gone", asked
    message = failure_of(request).message
    return _OF_REQUEST.get(asked, "creating"), f"{asked}: {message}" if message else asked


def is_over(request: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
    """Whether a slice was taken back while its request or node is left and uses up quota."""
    is_gone = state_of(request, node)[0] == "gone"
    return is_gone and request.get("state", {}).get("state") != "DELETING"


def failure_of(request: Mapping[str, Any]) -> Failure:
    """Return why a request failed, as far as it says."""
    error = request.get("state", {}).get("failedData", {}).get("error", {})
    return of_rpc(error.get("code", 0), error.get("message", ""))
