"""A VM as Azure describes it, and as a machine of a pool. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bastion.provider.azure.verdicts import Failure
from bastion.provider.port import Listed, State

# Source: "States and billing status of Azure Virtual Machines".
_POWER: Mapping[str, State] = {
    "starting": "creating",
    "running": "running",
    "stopping": "stopped",
    "stopped": "stopped",
    "deallocating": "stopped",
    "deallocated": "stopped",
}


def provisioning_of(shown: Mapping[str, Any]) -> str:
    """Return Azure's word for how far the last change of a VM is."""
    return str(shown.get("properties", {}).get("provisioningState", ""))


def power_of(view: Mapping[str, Any]) -> str:
    """Return Azure's word for the power state in an instance view; empty if it has none."""
    codes = (str(each.get("code", "")) for each in view.get("statuses", ()))
    return next((code.partition("/")[2] for code in codes if code.startswith("PowerState/")), "")


def state_of(shown: Mapping[str, Any], view: Mapping[str, Any]) -> State:
    """
    Return the state of a VM.

    A VM that could not be created stays and is `stopped`: `create` deletes it and reports why.

    Args:
        shown: The VM as a list shows it.
        view: Its instance view; empty if it has not been read yet.
    """
    provisioning, power = provisioning_of(shown), power_of(view)
    if provisioning == "Deleting":
        return "deleting"
    if power in _POWER:
        return _POWER[power]
    return "stopped" if provisioning in ("Failed", "Canceled") else "creating"


def failure_in(view: Mapping[str, Any]) -> Failure:
    """Return why a VM could not be created, from its instance view."""
    for status in view.get("statuses", ()):
        kind, state, *codes = f"{status.get('code', '')}/".split("/")
        if kind == "ProvisioningState" and state == "failed":
            return Failure(status=0, code=codes[0], message=str(status.get("message", "")))
    return Failure(status=0, code="ProvisioningFailed")


def listed(name: str, pool: str, shown: Mapping[str, Any], view: Mapping[str, Any]) -> Listed:
    """Return a VM as a machine; see `state_of`."""
    provisioning, power = provisioning_of(shown), power_of(view)
    words = [provisioning, power]
    if provisioning == "Failed" and view:
        words.append(failure_in(view).text)
    return Listed(
        name=name,
        pool=pool,
        state=state_of(shown, view),
        zone="-".join([shown.get("location", ""), *shown.get("zones", ())[:1]]),
        text=": ".join(filter(None, words))[:500],
        created_at=shown.get("properties", {}).get("timeCreated", ""),
    )
