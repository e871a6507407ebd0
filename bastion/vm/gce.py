"""The bastion's VM at Google: one instance of Compute Engine."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from bastion.errors import (
    ConflictError,
    NotFoundError,
    ProviderRefusedError,
    ProviderUnavailableError,
)
from bastion.provider.gcp.api import Api
from bastion.provider.gcp.gce_request import SCOPE, in_project, region_of
from bastion.provider.gcp.verdicts import Failure, verdict
from bastion.vm.bastion_vm import BastionVm, State
from bastion.vm.renewed import renewed
from bastion.vm.script import startup_script

MACHINE_TYPE = "e2-small"
_IMAGES = {
    True: "projects/cos-cloud/global/images/family/cos-stable",
    False: "projects/debian-cloud/global/images/family/debian-12",
}
"""By whether the bastion runs in a container: one image has docker, the other Python."""
WAIT_S = 180.0
LABEL = "bastion-vm"
_SPACE = uuid.UUID("0d2c9a51-7b8e-4f39-8a55-2f6f7f1c6e0b")
"""The namespace of the IDs of requests, generated once."""

# Source: compute.v1.json, `Instance.status`.
_STATES: Mapping[str, State] = {
    "PROVISIONING": "starting",
    "STAGING": "starting",
    "REPAIRING": "starting",
    "PENDING": "starting",
    "RUNNING": "running",
    "TERMINATED": "stopped",
    "STOPPED": "stopped",
    "SUSPENDED": "stopped",
}


class GceVm:
    """
    One bastion's VM, whether it exists or not; a VM of its name without its label is not changed.

    Args:
        vm: Its properties.
        api: Makes the calls.
    """

    def __init__(self, vm: BastionVm, api: Api) -> None:
        self._vm = vm
        self._api = api

    def state(self) -> State | None:
        """
        Return its state; None if there is none.

        Raises:
            ProviderError: Depends on Google's answer.
        """
        found = self._get()
        return None if found is None else _STATES.get(found.get("status", ""), "stopping")

    def create(self) -> None:
        """
        Create it, and return once Google has started to.

        Raises:
            ConflictError: A VM with this name exists.
            ProviderError: Depends on Google's answer.
        """
        instances = self._api.open().instances()
        request = instances.insert(
            project=self._api.project,
            zone=self._vm.zone,
            body=instance(self._vm),
            requestId=self._request_id(),
        )
        answer = self._api.ask(request, f"create {self._vm.name}")
        if isinstance(answer, Failure) and answer.status == 409:
            self._get()
            raise ConflictError(
                f"there is a VM {self._vm.name} already",
                hint=f"bastion upgrade --name={self._vm.name} upgrades it",
            )
        self._settle(answer, f"create {self._vm.name}")

    def _request_id(self) -> str:
        """Return another ID for each command: Google's client resends a request without answer."""
        clock = self._api.clock
        said = f"{self._vm.name} {self._vm.zone} {clock.wall()} {clock.monotonic()}"
        return str(uuid.uuid5(_SPACE, said))

    def start(self) -> None:
        """Start it again; raises what `state` raises, and NotFoundError if there is none."""
        self._change("start")

    def stop(self) -> None:
        """Stop it, but keep its disk; raises what `start` raises."""
        self._change("stop")

    def delete(self) -> None:
        """Delete it with its disk; raises what `start` raises."""
        self._change("delete")

    def upgrade(self) -> BastionVm:
        """See the port; raises what `start` raises."""
        found = self._made()
        had = {each["key"]: each["value"] for each in found["metadata"].get("items", ())}
        vm = renewed(self._vm, had.get(_SCRIPT, ""))
        items = had | {_SCRIPT: startup_script(vm)}
        body = {
            "fingerprint": found["metadata"]["fingerprint"],
            "items": [{"key": key, "value": text} for key, text in items.items()],
        }
        self._change("setMetadata", body=body)
        self._change("start" if self.state() == "stopped" else "reset")
        return vm

    def _get(self) -> Mapping[str, Any] | None:
        instances = self._api.open().instances()
        request = instances.get(
            project=self._api.project, zone=self._vm.zone, instance=self._vm.name
        )
        answer = self._api.ask(request, f"look at {self._vm.name}")
        if isinstance(answer, Failure):
            if answer.status == 404:
                return None
            raise verdict(answer, f"look at {self._vm.name}")
        if answer.get("labels", {}).get(LABEL) != self._vm.name:
            raise ProviderRefusedError(
                f"the VM {self._vm.name} in {self._vm.zone} was not made by bastion create:"
                f" it has no label {LABEL}={self._vm.name}",
                hint="choose another --name; a jump host is often called bastion too",
            )
        return answer

    def _made(self) -> Mapping[str, Any]:
        found = self._get()
        if found is None:
            raise _missing(self._vm)
        return found

    def _change(self, what: str, **more: Any) -> None:
        self._made()
        instances = self._api.open().instances()
        request = getattr(instances, what)(
            project=self._api.project, zone=self._vm.zone, instance=self._vm.name, **more
        )
        answer = self._api.ask(request, f"{what} {self._vm.name}")
        if isinstance(answer, Failure) and answer.status == 404:
            raise _missing(self._vm)
        self._settle(answer, f"{what} {self._vm.name}")

    def _settle(self, answer: Mapping[str, Any] | Failure, what: str) -> None:
        """Wait for an operation, and raise its error."""
        if isinstance(answer, Failure):
            raise verdict(answer, what)
        operations = self._api.open().zoneOperations()

        def look() -> Any:
            return operations.get(
                project=self._api.project, zone=self._vm.zone, operation=answer["name"]
            )

        ended = self._api.settle(answer, look, what, wait_s=WAIT_S)
        if ended.get("status") != "DONE":
            raise ProviderUnavailableError(f"{what}: Google has not done it after {WAIT_S:g} s")
        errors = ended.get("error", {}).get("errors", ())
        if errors:
            codes = tuple(str(each.get("code", "")) for each in errors)
            text = "; ".join(str(each.get("message", "")) for each in errors)
            raise verdict(Failure(status=400, codes=codes, message=text), what)


_SCRIPT = "startup-script"


def instance(vm: BastionVm) -> dict[str, Any]:
    """Return the `Instance` for Compute Engine."""
    network: dict[str, Any] = {"accessConfigs": [{"type": "ONE_TO_ONE_NAT"}]}
    network["network"] = in_project("global/networks", vm.network or "default")
    if vm.subnet:
        network["subnetwork"] = in_project(f"regions/{region_of(vm.zone)}/subnetworks", vm.subnet)
    disk = {"sourceImage": _IMAGES[bool(vm.image)], "diskSizeGb": str(vm.disk_gib)}
    return {
        "name": vm.name,
        "description": f"the bastion of {vm.root_url}",
        "machineType": f"zones/{vm.zone}/machineTypes/{vm.machine_type or MACHINE_TYPE}",
        "labels": {LABEL: vm.name},
        "disks": [{"boot": True, "autoDelete": True, "initializeParams": disk}],
        "networkInterfaces": [network],
        "serviceAccounts": [{"email": vm.identity, "scopes": [SCOPE]}],
        "metadata": {"items": [{"key": _SCRIPT, "value": startup_script(vm)}]},
        "shieldedInstanceConfig": {"enableSecureBoot": True},
    }


def _missing(vm: BastionVm) -> NotFoundError:
    return NotFoundError(
        f"there is no VM {vm.name} in {vm.zone}", hint=f"bastion create --name={vm.name}"
    )
