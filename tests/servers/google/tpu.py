"""Cloud TPU: queued resources that wait, are provisioned, suspended and deleted; their nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bastion.catalog import lookup
from bastion.clock import Clock
from tests.servers.discovery import description
from tests.servers.google.cloud import ApiError, Cloud, Json, stamp


@dataclass
class Slice:
    """A queued resource and its one node."""

    id: str
    zone: str
    asked: Json
    made_at: float
    provisioned_at: float | None = None
    deleted_at: float | None = None
    suspended_at: float | None = None
    failed: Json = field(default_factory=dict)
    """Code and message, if it failed."""
    node_state: str = ""
    """The state of the node, if not determined by time."""
    is_node_only: bool = False
    """Whether the queued resource is gone and the node is left."""


@dataclass
class Tpu(Cloud):
    """The Cloud TPU of one project."""

    zones: tuple[str, ...] = ("us-central2-b", "us-east5-a")
    stock: dict[str, int] = field(default_factory=dict)
    """How many more slices a zone has; any number without an entry. Other requests wait."""
    room: dict[str, int] = field(default_factory=dict)
    """How many more requests a zone accepts into its queue; any number without an entry."""
    refuses: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Zone -> code and message with which the operation of every new request ends."""
    slices: dict[tuple[str, str], Slice] = field(default_factory=dict)
    operations: dict[str, tuple[float, tuple[int, str]]] = field(default_factory=dict)
    """Name -> when it started, and its error."""
    operation_s: float = 2.0
    """How long each operation takes."""
    queue_s: float = 5.0
    """From the request to the start of provisioning, if there is capacity."""
    boot_s: float = 40.0
    delete_s: float = 30.0
    made: int = 0
    """How many slice requests were ever accepted."""
    requests: dict[str, str] = field(default_factory=dict)
    """Id of a request -> the name of its operation."""

    @classmethod
    def at(cls, clock: Clock) -> Tpu:
        """Return a server on this clock."""
        made = cls(description=description("tpu.v2"), clock=clock)
        here = "tpu.projects.locations"
        made.methods = {
            f"{here}.queuedResources.create": made._create,
            f"{here}.queuedResources.get": made._get,
            f"{here}.queuedResources.list": made._list,
            f"{here}.queuedResources.delete": made._delete,
            f"{here}.nodes.get": made._get_node,
            f"{here}.nodes.list": made._list_nodes,
            f"{here}.nodes.delete": made._delete_node,
            f"{here}.nodes.start": made._start_node,
            f"{here}.operations.get": made._get_operation,
        }
        return made

    def slice(self, name: str) -> Slice:
        """Return the slice of that name, in any zone."""
        with self.lock:
            (found,) = [each for each in self._alive() if each.id == name]
            return found

    def names(self) -> list[str]:
        """Return the names of the slices that exist or are requested."""
        with self.lock:
            return [each.id for each in self._alive()]

    def ready(self) -> list[Slice]:
        """Return the slices whose hosts run."""
        with self.lock:
            return [each for each in self._alive() if self.node_state(each) == "READY"]

    def preempt(self, name: str) -> None:
        """Take a spot slice back: its request is suspended."""
        self.slice(name).suspended_at = self.clock.monotonic()

    def forget_request(self, name: str) -> None:
        """Remove a queued resource and leave its node."""
        self.slice(name).is_node_only = True

    def state(self, each: Slice) -> str:
        """Return the current state of a queued resource."""
        if each.deleted_at is not None:
            return "DELETING"
        if each.failed:
            return "FAILED"
        if each.suspended_at is not None:
            return "SUSPENDED" if self.since(each.suspended_at) >= self.delete_s else "SUSPENDING"
        if each.provisioned_at is None:
            is_new = self.since(each.made_at) < self.operation_s
            return "CREATING" if is_new else "WAITING_FOR_RESOURCES"
        return "ACTIVE" if self.since(each.provisioned_at) >= self.boot_s else "PROVISIONING"

    def node_state(self, each: Slice) -> str:
        """Return the current state of the node of a slice; empty if there is none."""
        if each.provisioned_at is None or each.failed:
            return ""
        if each.suspended_at is not None:
            return "" if self.since(each.suspended_at) >= self.delete_s else "PREEMPTED"
        if each.deleted_at is not None:
            return "DELETING"
        if each.node_state:
            return each.node_state
        return "READY" if self.since(each.provisioned_at) >= self.boot_s else "CREATING"

    def _alive(self) -> list[Slice]:
        """Return every slice that is not deleted yet; waiting ones may have been provisioned."""
        for key, each in list(self.slices.items()):
            if each.deleted_at is not None and self.since(each.deleted_at) >= self.delete_s:
                del self.slices[key]
            elif self.state(each) == "WAITING_FOR_RESOURCES":
                self._provision(each)
        return list(self.slices.values())

    def _provision(self, each: Slice) -> None:
        waited_s = self.since(each.made_at)
        until = each.asked.get("queueingPolicy", {}).get("validUntilDuration", "")
        if until and waited_s >= float(until.removesuffix("s")):
            text = "The request was not fulfilled within the allocation interval"
            each.failed = {"code": 8, "message": f"There is no more capacity in the zone: {text}"}
        elif waited_s >= self.queue_s and self.stock.get(each.zone, 1) > 0:
            each.provisioned_at = self.clock.monotonic()
            if each.zone in self.stock:
                self.stock[each.zone] -= 1

    def _create(self, given: Mapping[str, str], query: Mapping[str, str], body: Json) -> Json:
        zone = self._zone(given["parent"])
        known = self.requests.get(query.get("requestId", ""))
        if known is not None:
            return self._told(known)
        name = query["queuedResourceId"]
        if any(each.id == name and each.zone == zone for each in self._alive()):
            where = f"{given['parent']}/queuedResources/{name}"
            text = f"Resource '{where}' already exists"
            raise ApiError(409, "alreadyExists", text, rpc="ALREADY_EXISTS")
        self._check(given["parent"], body)
        refusal = self.refuses.get(zone, (0, ""))
        if self.room.get(zone, 1) < 1:
            refusal = (
                8,
                f'There is no more capacity in the zone "{zone}"; you can try in another zone',
            )
        elif zone in self.room:
            self.room[zone] -= 1
        if not refusal[0]:
            self.made += 1
            self.slices[zone, name] = Slice(
                id=name, zone=zone, asked=body, made_at=self.clock.monotonic()
            )
        return self._told(self._begin(zone, query, refusal))

    def _check(self, parent: str, body: Json) -> None:
        (spec,) = body["tpu"]["nodeSpec"]
        if spec["parent"] != parent:
            raise _invalid(f"parent {spec['parent']!r} of the node is not {parent!r}")
        if "spot" in body and "guaranteed" in body:
            raise _invalid("tier: oneof field is already set")
        known = lookup(spec["node"]["acceleratorType"])
        if known.provider != "gcp_tpu" or "runtimeVersion" not in spec["node"]:
            raise _invalid("node: acceleratorType and runtimeVersion are required")
        if len(spec["nodeId"]) > 63:
            raise _invalid(f"nodeId {spec['nodeId']!r} is too long")

    def _get(self, given: Mapping[str, str], query: Mapping[str, str], body: Json) -> Json:
        return self._request_resource(self._known(given["name"], is_request=True))

    def _list(self, given: Mapping[str, str], query: Mapping[str, str], body: Json) -> Json:
        found = [each for each in self._shown(given["parent"]) if not each.is_node_only]
        page, token = self.paged(found, query, size="pageSize")
        return {
            "queuedResources": [self._request_resource(each) for each in page],
            **self._rest(token),
        }

    def _delete(self, given: Mapping[str, str], query: Mapping[str, str], body: Json) -> Json:
        each = self._known(given["name"], is_request=True)
        state = self.state(each)
        if state in ("PROVISIONING", "SUSPENDING") or (
            state == "ACTIVE" and query.get("force") != "true"
        ):
            text = f"A queued resource in state {state} cannot be deleted"
            raise ApiError(400, "failedPrecondition", text, rpc="FAILED_PRECONDITION")
        if not self.keeps_deleted:
            each.deleted_at = each.deleted_at or self.clock.monotonic()
        return self._told(self._begin(each.zone, query))

    def _get_node(self, given: Mapping[str, str], query: Mapping[str, str], body: Json) -> Json:
        return self._node_resource(self._known(given["name"], is_request=False))

    def _list_nodes(self, given: Mapping[str, str], query: Mapping[str, str], body: Json) -> Json:
        found = [each for each in self._shown(given["parent"]) if self.node_state(each)]
        page, token = self.paged(found, query, size="pageSize")
        return {"nodes": [self._node_resource(each) for each in page], **self._rest(token)}

    def _delete_node(self, given: Mapping[str, str], query: Mapping[str, str], body: Json) -> Json:
        each = self._known(given["name"], is_request=False)
        if not self.keeps_deleted:
            each.deleted_at = each.deleted_at or self.clock.monotonic()
        return self._told(self._begin(each.zone, query))

    def _start_node(self, given: Mapping[str, str], query: Mapping[str, str], body: Json) -> Json:
        each = self._known(given["name"], is_request=False)
        each.node_state, each.provisioned_at = "", self.clock.monotonic()
        return self._told(self._begin(each.zone, query))

    def _get_operation(
        self, given: Mapping[str, str], query: Mapping[str, str], body: Json
    ) -> Json:
        if given["name"] not in self.operations:
            raise _not_found(given["name"])
        return self._told(given["name"])

    def _shown(self, parent: str) -> list[Slice]:
        zone = parent.rpartition("/")[2]
        if zone != "-":
            self._zone(parent)
        return [
            each
            for each in self._alive()
            if zone in ("-", each.zone)
            and each.zone not in self.unreachable
            and self.since(each.made_at) >= self.lag_s
        ]

    def _rest(self, token: str) -> Json:
        """Return what a page contains besides its entries."""
        silent = [f"projects/{self.project}/locations/{zone}" for zone in sorted(self.unreachable)]
        return ({"unreachable": silent} if silent else {}) | (
            {"nextPageToken": token} if token else {}
        )

    def _zone(self, parent: str) -> str:
        _, project, _, zone = parent.split("/")[:4]
        if project != self.project:
            text = f"Permission denied on resource project {project}."
            raise ApiError(403, "forbidden", text, rpc="PERMISSION_DENIED")
        if zone not in self.zones:
            raise _invalid(f"Cloud TPU is not available in location {zone}")
        if zone in self.unreachable:
            text = f"{zone} is unavailable"
            raise ApiError(503, "backendError", text, rpc="UNAVAILABLE")
        return zone

    def _known(self, path: str, *, is_request: bool) -> Slice:
        zone, name = self._zone(path), path.rpartition("/")[2]
        for each in self._alive():
            has_it = not each.is_node_only if is_request else bool(self.node_state(each))
            if (each.zone, each.id) == (zone, name) and has_it:
                return each
        raise _not_found(path)

    def _request_resource(self, each: Slice) -> Json:
        state = self.state(each)
        told: Json = {"state": state, "stateInitiator": "SERVICE"}
        if each.failed:
            told["failedData"] = {"error": each.failed}
        return {
            **each.asked,
            "name": f"projects/{self.project}/locations/{each.zone}/queuedResources/{each.id}",
            "createTime": stamp(each.made_at),
            "state": told,
        }

    def _node_resource(self, each: Slice) -> Json:
        (spec,) = each.asked["tpu"]["nodeSpec"]
        at = f"projects/{self.project}/locations/{each.zone}"
        state = self.node_state(each)
        hosts = lookup(spec["node"]["acceleratorType"]).hosts if state == "READY" else 0
        return {
            **spec["node"],
            "name": f"{at}/nodes/{spec['nodeId']}",
            "queuedResource": f"{at}/queuedResources/{each.id}",
            "state": state,
            "health": "HEALTHY",
            "createTime": stamp(each.provisioned_at or 0.0),
            "networkEndpoints": [
                {"ipAddress": f"10.0.0.{host + 1}", "port": 8470} for host in range(hosts)
            ],
        }

    def _begin(
        self, zone: str, query: Mapping[str, str], failure: tuple[int, str] = (0, "")
    ) -> str:
        name = f"projects/{self.project}/locations/{zone}/operations/operation-"
        name += str(len(self.operations))
        self.operations[name] = (self.clock.monotonic(), failure)
        if "requestId" in query:
            self.requests[query["requestId"]] = name
        return name

    def _told(self, name: str) -> Json:
        begun_at, (code, message) = self.operations[name]
        if self.since(begun_at) < self.operation_s:
            return {"name": name, "done": False}
        if code:
            return {"name": name, "done": True, "error": {"code": code, "message": message}}
        return {"name": name, "done": True, "response": {}}


def _invalid(message: str) -> ApiError:
    return ApiError(400, "badRequest", message, rpc="INVALID_ARGUMENT")


def _not_found(what: str) -> ApiError:
    return ApiError(404, "notFound", f"Resource '{what}' was not found", rpc="NOT_FOUND")
