"""
VMs of Compute Engine, with or without accelerators.

* A batch is one `bulkInsert` whose minimum count equals its count: all or none. A single machine is
  one `insert`. Both are awaited for a limited time, so a sold-out zone is reported immediately.
* A name is unique in its zone, and each request has an ID derived from the names. A repeated
  request creates nothing new, even if the answer was lost. After a verdict the ID changes.
* A VM that stopped, such as after an error of its host, is started again by `create`. Google
  deletes a spot VM that it takes back, and the VM leaves the list.
* The start-up script runs at every boot, and starts an agent if none is running.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from bastion.errors import ProviderUnavailableError
from bastion.machine import Machine, Pool
from bastion.provider.each_place import in_each
from bastion.provider.gcp.answers import silent_places
from bastion.provider.gcp.api import Api
from bastion.provider.gcp.gce_request import bulk, instance, properties
from bastion.provider.gcp.request_ids import RequestIds
from bastion.provider.gcp.rights import VMS, lacking
from bastion.provider.gcp.script import Script, vm_name
from bastion.provider.gcp.verdicts import Failure, merged, of_operation, verdict
from bastion.provider.port import Listed, State
from bastion.provider.vm_names import Names

WAIT_S = 60.0
"""How long a create waits for its operation. Google reports a sold-out zone within seconds."""
_PAGE = 500
_FIELDS = "id,name,status,statusMessage,labels,creationTimestamp"

# Source: compute.v1.json, `Instance.status`.
_STATES: Mapping[str, State] = {
    "PROVISIONING": "creating",
    "STAGING": "creating",
    "PENDING": "creating",
    "REPAIRING": "creating",
    "RUNNING": "running",
    "STOPPING": "deleting",
    "PENDING_STOP": "deleting",
    "DEPROVISIONING": "deleting",
    "SUSPENDING": "deleting",
    "SUSPENDED": "stopped",
    "STOPPED": "stopped",
    "TERMINATED": "stopped",
}


class GceProvider:
    """
    The VMs of one pool.

    Args:
        pool: Its zones are Google's zones.
        bucket: The bucket's own name.
        script: Writes the start-up script of a machine.
        api: Makes the calls.
        projects: Google's API of projects, which reports permissions; None: they are not reported.
    """

    def __init__(
        self, pool: Pool, *, bucket: str, script: Script, api: Api, projects: Api | None = None
    ) -> None:
        self._projects = projects
        self._pool = pool
        self._names = Names(bucket=bucket, pool=pool.name)
        self._script = script
        self._api = api
        self._zones: dict[str, str] = {}
        """Machine -> the zone in which it was last listed, or has been requested since."""
        self._shown: dict[str, str] = {}
        """Machine -> its zone, for those in the last list."""
        self._ids = RequestIds()

    @property
    def vouches(self) -> bool:
        """See the port: Google knows which VMs exist."""
        return True

    def list(self) -> tuple[Listed, ...]:
        """
        See the port; one call for all zones, including those that the pool no longer names.

        A VM that is missing from this list but was in the last one is queried by its name.
        """
        found = {}
        for zone, each in self._everywhere():
            machine = self._names.machine(each["name"], each.get("labels", {}))
            if machine is not None:
                found[machine] = _listed(machine, self._pool.name, zone, each)
        for name in self._shown.keys() - found.keys():
            found |= self._without_labels(name, self._shown[name])
        self._shown = {name: listed.zone for name, listed in found.items()}
        self._zones = dict(self._shown)
        account = self.account()
        return tuple(replace(found[name], account=account) for name in sorted(found))

    def _without_labels(self, name: str, zone: str) -> dict[str, Listed]:
        """Return a machine whose labels were changed: it still exists, but the list omits it."""
        called = self._names.cloud(name)
        request = self._vms.get(project=self._api.project, zone=zone, instance=called)
        shown = self._api.ask(request, f"look at {name} in {zone}")
        if isinstance(shown, Failure):
            if shown.is_missing:
                return {}
            raise verdict(shown, f"look at {name} in {zone}")
        listed = _listed(name, self._pool.name, zone, shown)
        if self._names.machine(called, shown.get("labels", {})) == name:
            return {name: listed}
        wanted = ",".join(f"{key}={text}" for key, text in self._names.labels_of(name).items())
        odd = "its labels were changed, so a restarted bastion considers it gone; to restore them:"
        command = f" gcloud compute instances add-labels {called} --zone={zone} --labels={wanted}"
        return {name: replace(listed, odd=odd + command)}

    def account(self) -> str:
        """See `TellsAccount`."""
        return f"project {self._api.project}"

    def lacking(self) -> tuple[str, ...]:
        """See `TellsRights`."""
        return lacking(self._projects, VMS)

    def create(self, machines: Sequence[Machine], pool: Pool) -> None:
        """See the port."""
        zone = machines[0].zone
        self._zones |= {machine.name: zone for machine in machines}
        wanted = {self._names.cloud(machine.name) for machine in machines}
        labels = self._names.labels_of(machines[0].name)
        shown = {each["name"]: each for each in self._in_zone(zone, labels)}
        for name in wanted & shown.keys():
            if _STATES.get(shown[name].get("status", "")) == "stopped":
                self._start(name, shown[name], zone)
        missing = sorted(wanted - shown.keys())
        if missing:
            self._insert(missing, zone, labels, pool)

    def delete(self, name: str) -> None:
        """See the port; the list shows when it is gone."""
        known = self._zones.get(name)
        in_each((known,) if known else self._pool.zones, partial(self._delete_in, name))

    def _delete_in(self, name: str, zone: str) -> None:
        what, called = f"delete {name} in {zone}", self._names.cloud(name)
        request = self._vms.delete(project=self._api.project, zone=zone, instance=called)
        answer = self._api.ask(request, what)
        if isinstance(answer, Failure) and not answer.is_missing:
            raise verdict(answer, what)

    def _insert(
        self, names: Sequence[str], zone: str, labels: Mapping[str, str], pool: Pool
    ) -> None:
        script = self._script(pool, vm_name(pool.name))
        made = properties(pool, zone=zone, labels=labels, script=script)
        key = " ".join([zone, *names])
        given = {
            "project": self._api.project,
            "zone": zone,
            "requestId": self._ids.id_of(key),
        }
        what = f"{len(names)} x {pool.instance_type or made['machineType']} in {zone}"
        if len(names) == 1:
            request = self._vms.insert(body=instance(made, names[0], zone=zone), **given)
        else:
            request = self._vms.bulkInsert(body=bulk(made, names), **given)
        answer = self._api.ask(request, what)
        failure = answer if isinstance(answer, Failure) else self._outcome(answer, zone, what)
        if failure is None:
            return
        if failure.is_conflict:
            raise ProviderUnavailableError(f"{what}: exists, and is not listed yet: {failure.text}")
        self._ids.answer(key)
        raise verdict(failure, what)

    def _start(self, name: str, shown: Mapping[str, Any], zone: str) -> None:
        given = {"project": self._api.project, "zone": zone, "instance": name}
        is_suspended = shown.get("status") == "SUSPENDED"
        what = f"start {name} in {zone}"
        request = self._vms.resume(**given) if is_suspended else self._vms.start(**given)
        failure = self._outcome(self._api.call(request, what), zone, what)
        if failure is not None:
            raise verdict(failure, what)

    def _outcome(self, operation: Mapping[str, Any], zone: str, what: str) -> Failure | None:
        """Wait for an operation; return its failure, or None if it succeeded or still runs."""
        given = {"project": self._api.project, "zone": zone, "operation": operation["name"]}
        operation = self._api.settle(
            operation, lambda: self._operations.get(**given), what, wait_s=WAIT_S
        )
        failure = of_operation(operation)
        if failure is not None and failure.is_summary:
            return self._causes(operation, zone, what) or failure
        return failure

    def _causes(self, operation: Mapping[str, Any], zone: str, what: str) -> Failure | None:
        """Return why a batch is incomplete: its own operation may not give the reason."""
        group = operation.get("operationGroupId", "")
        pages = self._api.pages(
            self._operations.list,
            what,
            project=self._api.project,
            zone=zone,
            filter=f'operationGroupId = "{group}"',
        )
        told = [of_operation(each) for page in pages for each in page.get("items", ())]
        causes = [each for each in told if each is not None and not each.is_summary]
        return merged(causes) if causes else None

    def _everywhere(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """
        Yield every VM of this pool, with its zone.

        Raises:
            ProviderUnavailableError: A zone of the pool did not answer.
        """
        what = f"list of pool {self._pool.name}"
        pages = self._api.pages(
            self._vms.aggregatedList,
            what,
            project=self._api.project,
            filter=_filter(self._names.labels),
            maxResults=_PAGE,
            fields=f"nextPageToken,unreachables,items/*(warning/code,instances({_FIELDS}))",
        )
        for page in pages:
            scopes = page.get("items", {}).items()
            silent = [*page.get("unreachables", ()), *(s for s, held in scopes if _is_silent(held))]
            if mine := silent_places(silent, self._pool.zones):
                raise ProviderUnavailableError(f"{what}: no answer of {mine}")
            for scope, held in scopes:
                for each in held.get("instances", ()):
                    yield scope.removeprefix("zones/"), each

    def _in_zone(self, zone: str, labels: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
        """Yield the VMs in one zone that have `labels`."""
        pages = self._api.pages(
            self._vms.list,
            f"list of pool {self._pool.name} in {zone}",
            project=self._api.project,
            zone=zone,
            filter=_filter(labels),
            maxResults=_PAGE,
            fields=f"nextPageToken,items({_FIELDS})",
        )
        for page in pages:
            yield from page.get("items", ())

    @property
    def _vms(self) -> Any:
        return self._api.resource("instances")

    @property
    def _operations(self) -> Any:
        return self._api.resource("zoneOperations")


def _listed(name: str, pool: str, zone: str, shown: Mapping[str, Any]) -> Listed:
    status = shown.get("status", "")
    said = shown.get("statusMessage", "")
    return Listed(
        name=name,
        pool=pool,
        state=_STATES.get(status, "creating"),
        zone=zone,
        text=f"{status}: {said}" if said else status,
        created_at=shown.get("creationTimestamp", ""),
    )


def _is_silent(held: Mapping[str, Any]) -> bool:
    """Whether a zone's part of a list is missing: an empty part has a warning too."""
    code = held.get("warning", {}).get("code", "NO_RESULTS_ON_PAGE")
    return bool(code != "NO_RESULTS_ON_PAGE")


def _filter(wanted: Mapping[str, str]) -> str:
    return " ".join(f'(labels.{key} = "{text}")' for key, text in wanted.items())
