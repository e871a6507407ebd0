"""Compute Engine: VMs that boot and are deleted, operations, stock and quota."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from bastion.clock import Clock
from tests.servers.discovery import description
from tests.servers.google.cloud import ApiError, Cloud, Json, stamp


@dataclass
class Vm:
    """One instance."""

    name: str
    zone: str
    id: int
    fields: Json
    made_at: float
    started_at: float
    ended: str = ""
    """TERMINATED or SUSPENDED if it ended without being deleted."""
    deleted_at: float | None = None


@dataclass
class Operation:
    """One operation of a zone."""

    name: str
    zone: str
    kind: str
    begun_at: float
    group: str = ""
    errors: tuple[tuple[str, str], ...] = ()
    """(code, message) of each."""


@dataclass
class Compute(Cloud):
    """The Compute Engine of one project."""

    zones: tuple[str, ...] = ("us-central1-a", "us-central1-b", "us-east1-c")
    stock: dict[str, int] = field(default_factory=dict)
    """How many more VMs a zone can create; any number for a zone without an entry."""
    limit: int | None = None
    """How many VMs the project may have."""
    images: set[str] | None = None
    """The existing images; None: every one."""
    vms: dict[tuple[str, str], Vm] = field(default_factory=dict)
    operations: dict[str, Operation] = field(default_factory=dict)
    operation_s: float = 3.0
    """How long each operation takes."""
    boot_s: float = 20.0
    delete_s: float = 30.0
    made: int = 0
    """How many VMs were ever created."""
    requests: dict[str, str] = field(default_factory=dict)
    """Id of a request -> the name of its operation."""

    @classmethod
    def at(cls, clock: Clock) -> Compute:
        """Return a server on this clock."""
        made = cls(description=description("compute.v1"), clock=clock)
        made.methods = {
            "compute.instances.insert": made._insert,
            "compute.instances.bulkInsert": made._bulk_insert,
            "compute.instances.list": made._list,
            "compute.instances.aggregatedList": made._aggregated_list,
            "compute.instances.get": made._get,
            "compute.instances.stop": made._stop,
            "compute.instances.reset": made._start,
            "compute.instances.setMetadata": made._set_metadata,
            "compute.instances.delete": made._delete,
            "compute.instances.start": made._start,
            "compute.instances.resume": made._start,
            "compute.zoneOperations.get": made._get_operation,
            "compute.zoneOperations.list": made._list_operations,
        }
        return made

    def status(self, vm: Vm) -> str:
        """Return the current status of a VM."""
        if vm.deleted_at is not None:
            return "STOPPING"
        if vm.ended:
            return vm.ended
        age_s = self.since(vm.started_at)
        return (
            "PROVISIONING"
            if age_s < self.boot_s / 10
            else "STAGING"
            if age_s < self.boot_s
            else "RUNNING"
        )

    def vm(self, name: str) -> Vm:
        """Return the VM of that name, in any zone."""
        with self.lock:
            (found,) = [vm for vm in self._alive() if vm.name == name]
            return found

    def names(self) -> list[str]:
        """Return the names of the existing VMs."""
        with self.lock:
            return [vm.name for vm in self._alive()]

    def end(self, name: str, status: str = "TERMINATED") -> None:
        """End a VM without deleting it."""
        self.vm(name).ended = status

    def preempt(self, name: str) -> None:
        """Take a spot VM back: it is deleted, as its schedule says."""
        vm = self.vm(name)
        assert vm.fields["scheduling"]["instanceTerminationAction"] == "DELETE"
        vm.deleted_at = self.clock.monotonic()

    def _alive(self) -> list[Vm]:
        """Return every VM that is not deleted yet."""
        for key, vm in list(self.vms.items()):
            if vm.deleted_at is not None and self.since(vm.deleted_at) >= self.delete_s:
                del self.vms[key]
        return list(self.vms.values())

    def _insert(self, given: Mapping[str, str], query: Mapping[str, str], body: Json) -> Json:
        zone = self._zone(given)
        if again := self._again(query):
            return again
        self._check(body, zone, body["machineType"], f"zones/{zone}/machineTypes/")
        self._check_new(zone, body["name"])
        errors = self._refusals(zone, 1, body["machineType"].rpartition("/")[2])
        operation = self._begin("insert", zone, query, errors)
        if not errors:
            self._make(zone, body["name"], body)
        return self._told(operation)

    def _bulk_insert(self, given: Mapping[str, str], query: Mapping[str, str], body: Json) -> Json:
        zone = self._zone(given)
        if again := self._again(query):
            return again
        made, names = body["instanceProperties"], list(body["perInstanceProperties"])
        if int(body["count"]) != len(names):
            raise _invalid("count must be the number of perInstanceProperties")
        self._check(made, zone, made["machineType"], "")
        for name in names:
            self._check_new(zone, name)
        causes = self._refusals(zone, len(names), made["machineType"])
        fewest = int(body["minCount"])
        summary = f"Requested minimum count of {fewest} VMs could not be created."
        errors = (("VM_MIN_COUNT_NOT_REACHED", summary),) if causes else ()
        operation = self._begin("bulkInsert", zone, query, errors)
        if causes:
            self._begin("insert", zone, {}, causes, group=operation.group)
        else:
            for name in names:
                self._make(zone, name, made)
        return self._told(operation)

    def _delete(self, given: Mapping[str, str], query: Mapping[str, str], body: Json) -> Json:
        vm = self._known(given)
        if vm.deleted_at is None and not self.keeps_deleted:
            vm.deleted_at = self.clock.monotonic()
        return self._told(self._begin("delete", vm.zone, query, ()))

    def _start(self, given: Mapping[str, str], query: Mapping[str, str], body: Json) -> Json:
        vm = self._known(given)
        vm.ended, vm.started_at = "", self.clock.monotonic()
        return self._told(self._begin("start", vm.zone, query, ()))

    def _get(self, given: Mapping[str, str], query: Mapping[str, str], body: Json) -> Json:
        return self._resource(self._known(given))

    def _stop(self, given: Mapping[str, str], query: Mapping[str, str], body: Json) -> Json:
        vm = self._known(given)
        vm.ended = "TERMINATED"
        return self._told(self._begin("stop", vm.zone, query, ()))

    def _set_metadata(self, given: Mapping[str, str], query: Mapping[str, str], body: Json) -> Json:
        vm = self._known(given)
        if body["fingerprint"] != vm.fields["metadata"]["fingerprint"]:
            raise ApiError(412, "conditionNotMet", "Supplied fingerprint does not match current")
        vm.fields["metadata"] = self._metadata(body)
        return self._told(self._begin("setMetadata", vm.zone, query, ()))

    def _metadata(self, written: Json) -> Json:
        """Return metadata as it is stored: with a fingerprint of its contents."""
        print_ = base64.b64encode(repr(written.get("items")).encode()).decode()[-40:]
        return {"items": written.get("items", []), "fingerprint": print_}

    def _list(self, given: Mapping[str, str], query: Mapping[str, str], body: Json) -> Json:
        zone = self._zone(given)
        shown = [vm for vm in self._shown(query) if vm.zone == zone]
        page, token = self.paged(shown, query, size="maxResults")
        return {
            "kind": "compute#instanceList",
            "id": f"projects/{self.project}/zones/{zone}/instances",
            "items": [self._resource(vm) for vm in page],
            **({"nextPageToken": token} if token else {}),
        }

    def _aggregated_list(
        self, given: Mapping[str, str], query: Mapping[str, str], body: Json
    ) -> Json:
        page, token = self.paged(self._shown(query), query, size="maxResults")
        items: Json = {}
        for zone in self.zones:
            here = [self._resource(vm) for vm in page if vm.zone == zone]
            code = "UNREACHABLE" if zone in self.unreachable else "NO_RESULTS_ON_PAGE"
            is_told = here and zone not in self.unreachable
            warning = {"code": code, "message": f"{code} in zone {zone}", "data": []}
            items[f"zones/{zone}"] = {"instances": here} if is_told else {"warning": warning}
        return {
            "kind": "compute#instanceAggregatedList",
            "id": f"projects/{self.project}/aggregated/instances",
            "items": items,
            **({"nextPageToken": token} if token else {}),
        }

    def _get_operation(
        self, given: Mapping[str, str], query: Mapping[str, str], body: Json
    ) -> Json:
        operation = self.operations.get(given["operation"])
        if operation is None or operation.zone != self._zone(given):
            raise _not_found(given["operation"])
        return self._told(operation)

    def _list_operations(
        self, given: Mapping[str, str], query: Mapping[str, str], body: Json
    ) -> Json:
        zone = self._zone(given)
        wanted = dict(_conditions(query.get("filter", "")))
        found = [
            each
            for each in self.operations.values()
            if each.zone == zone and each.group == wanted.get("operationGroupId", each.group)
        ]
        page, token = self.paged(found, query, size="maxResults")
        return {
            "kind": "compute#operationList",
            "id": f"projects/{self.project}/zones/{zone}/operations",
            "items": [self._told(each) for each in page],
            **({"nextPageToken": token} if token else {}),
        }

    def _shown(self, query: Mapping[str, str]) -> Iterator[Vm]:
        wanted = {
            name.removeprefix("labels."): text
            for name, text in _conditions(query.get("filter", ""))
        }
        for vm in self._alive():
            is_new = self.since(vm.made_at) < self.lag_s
            if not is_new and wanted.items() <= vm.fields.get("labels", {}).items():
                yield vm

    def _resource(self, vm: Vm) -> Json:
        return {
            **vm.fields,
            "kind": "compute#instance",
            "id": str(vm.id),
            "name": vm.name,
            "zone": f"{self.url}projects/{self.project}/zones/{vm.zone}",
            "status": self.status(vm),
            "creationTimestamp": stamp(vm.made_at),
        }

    def _zone(self, given: Mapping[str, str]) -> str:
        if given["project"] != self.project:
            raise ApiError(403, "forbidden", f"Permission denied on project {given['project']}")
        if given["zone"] not in self.zones:
            raise _invalid(f"Invalid value for field 'zone': '{given['zone']}'. Unknown zone.")
        if given["zone"] in self.unreachable:
            raise ApiError(503, "backendError", f"{given['zone']} is unavailable")
        return given["zone"]

    def _known(self, given: Mapping[str, str]) -> Vm:
        zone = self._zone(given)
        found = [vm for vm in self._alive() if (vm.zone, vm.name) == (zone, given["instance"])]
        if not found:
            raise _not_found(f"zones/{zone}/instances/{given['instance']}")
        return found[0]

    def _again(self, query: Mapping[str, str]) -> Json | None:
        known = self.requests.get(query.get("requestId", ""))
        return None if known is None else self._told(self.operations[known])

    def _check(self, made: Json, zone: str, machine_type: str, prefix: str) -> None:
        if not machine_type.startswith(prefix) or (not prefix and "/" in machine_type):
            raise _invalid(f"Invalid value for field 'resource.machineType': '{machine_type}'")
        if made["labels"].keys() and not all(
            re.fullmatch(r"[a-z0-9_-]{0,63}", text) for text in made["labels"].values()
        ):
            raise _invalid(f"Invalid value for field 'resource.labels': '{made['labels']}'")
        (disk,) = made["disks"]
        image = disk["initializeParams"]["sourceImage"]
        if self.images is not None and image not in self.images:
            raise _not_found(image)
        has_accelerators = "guestAccelerators" in made or re.match(
            r".*(a2|a3|a4|g2)-", machine_type
        )
        if has_accelerators and made["scheduling"].get("onHostMaintenance") != "TERMINATE":
            raise _invalid("Instances with guest accelerators do not support live migration.")

    def _check_new(self, zone: str, name: str) -> None:
        if any((vm.zone, vm.name) == (zone, name) for vm in self._alive()):
            where = f"projects/{self.project}/zones/{zone}/instances/{name}"
            raise ApiError(409, "alreadyExists", f"The resource '{where}' already exists")

    def _refusals(self, zone: str, count: int, shape: str) -> tuple[tuple[str, str], ...]:
        if self.limit is not None and len(self._alive()) + count > self.limit:
            limit = f"Limit: {self.limit}.0 in region {zone.rpartition('-')[0]}."
            return (("QUOTA_EXCEEDED", f"Quota 'NVIDIA_H100_GPUS' exceeded.  {limit}"),)
        if zone in self.stock and self.stock[zone] < count:
            return (
                (
                    "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
                    f"The zone 'projects/{self.project}/zones/{zone}' does not have enough"
                    " resources available to fulfill the request."
                    f" '(resource type:compute)' {shape}",
                ),
            )
        if zone in self.stock:
            self.stock[zone] -= count
        return ()

    def _make(self, zone: str, name: str, made: Json) -> None:
        now = self.clock.monotonic()
        self.made += 1
        self.vms[zone, name] = Vm(
            name=name,
            zone=zone,
            id=1000 + len(self.operations),
            fields={
                key: made[key]
                for key in ("labels", "scheduling", "metadata", "tags")
                if key in made
            },
            made_at=now,
            started_at=now,
        )
        fields = self.vms[zone, name].fields
        fields["metadata"] = self._metadata(fields.get("metadata", {}))

    def _begin(
        self,
        kind: str,
        zone: str,
        query: Mapping[str, str],
        errors: tuple[tuple[str, str], ...],
        group: str = "",
    ) -> Operation:
        name = f"operation-{len(self.operations)}"
        operation = Operation(
            name=name,
            zone=zone,
            kind=kind,
            begun_at=self.clock.monotonic(),
            group=group or (f"group-{name}" if kind == "bulkInsert" else ""),
            errors=errors,
        )
        self.operations[name] = operation
        if "requestId" in query:
            self.requests[query["requestId"]] = name
        return operation

    def _told(self, operation: Operation) -> Json:
        is_done = self.since(operation.begun_at) >= self.operation_s
        told: Json = {
            "kind": "compute#operation",
            "id": operation.name.removeprefix("operation-"),
            "name": operation.name,
            "zone": f"{self.url}projects/{self.project}/zones/{operation.zone}",
            "operationType": operation.kind,
            "status": "DONE" if is_done else "RUNNING",
            "progress": 100 if is_done else 0,
            "insertTime": stamp(operation.begun_at),
        }
        if operation.group:
            told["operationGroupId"] = operation.group
        if is_done and operation.errors:
            told["error"] = {
                "errors": [{"code": code, "message": text} for code, text in operation.errors]
            }
            told |= {"httpErrorStatusCode": 503, "httpErrorMessage": "SERVICE UNAVAILABLE"}
        return told


def _conditions(filtered: str) -> list[tuple[str, str]]:
    """Return the comparisons of a filter, all of which must hold."""
    found: list[tuple[str, str]] = re.findall(r'\(?([\w.]+) = "([^"]*)"\)?', filtered)
    if re.sub(r'\(?([\w.]+) = "([^"]*)"\)?', "", filtered).strip():
        raise _invalid(f"Invalid value for field 'filter': '{filtered}'")
    return found


def _invalid(message: str) -> ApiError:
    return ApiError(400, "invalid", message)


def _not_found(what: str) -> ApiError:
    return ApiError(404, "notFound", f"The resource '{what}' was not found")
