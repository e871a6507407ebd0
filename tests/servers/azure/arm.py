"""
Azure Resource Manager: the VMs of one resource group, operations, stock, quota and faults.

Time is a given clock: between two requests, things only change with that clock.
"""

from __future__ import annotations

import base64
import email
import json
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from bastion.clock import Clock
from tests.rigs.limits import answering
from tests.servers.azure.schema import problems

Json = dict[str, Any]
SUBSCRIPTION = "0b1f6471-1bf0-4dda-aec3-cb9272f09590"
GROUP = "ml"
_PREFIX = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers"
_VMS = f"{_PREFIX}/Microsoft.Compute/virtualMachines"
_OPERATIONS = f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Compute/locations/any/operations"
_VERSIONS = {"Microsoft.Compute": "2024-07-01", "Microsoft.Authorization": "2022-04-01"}


class ArmError(Exception):
    """An error response. Source: "Common API details", error response format."""

    def __init__(
        self, status: int, code: str, message: str, headers: Mapping[str, str] = {}
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers
        self.body: Json = {"error": {"code": code, "message": message}}


class _LostError(Exception):
    """The connection ends without an answer."""


def lost() -> Exception:
    """Return the error of an answer that never arrives."""
    return _LostError()


@dataclass
class Fault:
    """What happens to the next requests whose method and path match."""

    pattern: str
    times: int
    raises: Exception
    is_late: bool = False
    """Whether the request is carried out first."""


@dataclass
class Vm:
    """One VM."""

    name: str
    body: Json
    made_at: float
    power: str = "running"
    failure: tuple[str, str] | None = None
    """(code, message) of why it could not be created."""
    deleted_at: float | None = None


@dataclass
class Operation:
    """What a request started."""

    begun_at: float
    error: tuple[str, str] | None = None


@dataclass
class ArmServer:
    """The resource manager within its `running` block."""

    clock: Clock
    url: str = ""
    token: str = ""
    """The accepted token; empty: every request is accepted."""
    page: int = 2
    """The maximum number of entries on a page."""
    stock: dict[str, int] = field(default_factory=dict)
    """How many more VMs a zone, such as westeurope-1, can create; any number without an entry."""
    sold_out: str = "ZonalAllocationFailed"
    """The code for a zone without stock."""
    limit: int | None = None
    """How many VMs the subscription may have."""
    lag_s: float = 0.0
    """How long lists do not show what was created."""
    keeps_deleted: bool = False
    """Whether deletions are accepted but not carried out."""
    create_s: float = 20.0
    operation_s: float = 5.0
    """When a lack of capacity is reported."""
    delete_s: float = 30.0
    permissions: list[Json] = field(default_factory=list)
    next_host: str = ""
    """The server that links to next pages name; empty: this one."""
    vms: dict[str, Vm] = field(default_factory=dict)
    """By the name in lower case: Azure's names ignore case."""
    operations: dict[str, Operation] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """How requests differed from what Azure publishes; a test asserts that it is empty."""
    calls: Counter[str] = field(default_factory=Counter)
    sent: list[Json] = field(default_factory=list)
    """The descriptions of VMs that were sent."""
    made: int = 0
    """How many VMs were ever created."""
    lock: threading.RLock = field(default_factory=threading.RLock)

    @contextmanager
    def running(self) -> Iterator[ArmServer]:
        """Serve until the end."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), _door(self))
        self.url = f"http://127.0.0.1:{server.server_port}"
        with answering(server):
            yield self

    def fail(
        self, pattern: str, raises: Exception, *, times: int = 1, is_late: bool = False
    ) -> None:
        """Let the next requests fail whose method and path match `pattern`."""
        self.faults.append(Fault(pattern=pattern, times=times, raises=raises, is_late=is_late))

    def vm(self, name: str) -> Vm:
        """Return the VM of that name."""
        with self.lock:
            return self._alive()[name.lower()]

    def names(self) -> list[str]:
        """Return the names of the existing VMs."""
        with self.lock:
            return [vm.name for vm in self._alive().values()]

    def booted(self) -> Iterator[tuple[str, str]]:
        """Yield the name of each running VM, and the shell script in its custom data."""
        for vm in self._alive().values():
            if self.state(vm) == "Succeeded" and vm.power == "running":
                data = base64.b64decode(vm.body["properties"]["osProfile"]["customData"])
                for part in email.message_from_bytes(data).walk():
                    if part.get_content_type() == "text/x-shellscript":
                        text = part.get_payload(decode=True)
                        assert isinstance(text, bytes)
                        yield vm.name, text.decode()

    def evict(self, name: str) -> None:
        """Take a spot VM back: it is deleted, as its policy says."""
        vm = self.vm(name)
        assert vm.body["properties"]["evictionPolicy"] == "Delete"
        vm.deleted_at = self.clock.monotonic()

    def state(self, vm: Vm) -> str:
        """Return the provisioning state of a VM."""
        if vm.deleted_at is not None:
            return "Deleting"
        if vm.failure and self._since(vm.made_at) >= self.operation_s:
            return "Failed"
        return "Creating" if self._since(vm.made_at) < self.create_s else "Succeeded"

    def answer(
        self, method: str, path: str, query: Json, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], Json]:
        """Return status, headers and body of the answer to one request."""
        with self.lock:
            self.calls[method] += 1
            try:
                return self._answer(method, path, query, headers, body)
            except ArmError as error:
                return error.status, error.headers, error.body

    def _answer(
        self, method: str, path: str, query: Json, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], Json]:
        if self.token and headers.get("authorization") != f"Bearer {self.token}":
            raise ArmError(401, "ExpiredAuthenticationToken", "The access token expiry UTC time")
        fault = next((f for f in self.faults if re.search(f.pattern, f"{method} {path}")), None)
        if fault is not None:
            fault.times -= 1
            if fault.times <= 0:
                self.faults.remove(fault)
            if not fault.is_late:
                raise fault.raises
        said = self._carried_out(method, path, query, headers, body)
        if fault is not None:
            raise fault.raises
        return said

    def _carried_out(
        self, method: str, path: str, query: Json, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], Json]:
        self._check_version(path, query)
        if path.startswith(f"{_OPERATIONS}/"):
            return 200, {}, self._operation(path.rpartition("/")[2])
        if path == f"{_PREFIX}/Microsoft.Authorization/permissions":
            return 200, {}, {"value": self.permissions}
        if path == _VMS and method == "GET":
            return 200, {}, self._list(query)
        found = re.fullmatch(f"{re.escape(_VMS)}/([\\w-]{{1,64}})(/\\w+)?", path)
        if found is None:
            self.problems.append(f"{method} {path}: no such operation")
            raise ArmError(404, "InvalidResourceType", "The resource type could not be found")
        name, below = found[1], found[2] or ""
        match method, below:
            case "PUT", "":
                return self._put(name, headers, json.loads(body))
            case "DELETE", "":
                return self._delete(name)
            case "POST", "/start":
                vm = self._existing(name)
                vm.power = "running"
                return 202, self._begin(), {}
            case "GET", "/instanceView":
                return 200, {}, self._view(self._existing(name))
            case _:
                self.problems.append(f"{method} {path}: no such operation")
                raise ArmError(405, "HttpMethodNotAllowed", "not allowed")

    def _check_version(self, path: str, query: Json) -> None:
        kind = next(kind for kind in _VERSIONS if kind in path)
        extra = query.keys() - {"api-version", "$skiptoken"}
        if query.get("api-version") != _VERSIONS[kind] or extra:
            self.problems.append(f"{path}: parameters {query}")

    def _put(
        self, name: str, headers: Mapping[str, str], body: Json
    ) -> tuple[int, Mapping[str, str], Json]:
        self.problems += problems(body)
        self.sent.append(body)
        known = self._alive().get(name.lower())
        if known is not None and known.deleted_at is not None:
            raise ArmError(409, "OperationNotAllowed", f"VM '{name}' is marked for deletion")
        if known is not None and headers.get("if-none-match") == "*":
            raise ArmError(412, "ConditionNotMet", f"VM '{name}' exists")
        assert known is None, "an existing VM would be changed"
        if self.limit is not None and len(self._alive()) >= self.limit:
            raise ArmError(409, "OperationNotAllowed", _QUOTA)
        zone = "-".join([body["location"], *body.get("zones", ())])
        failure = None
        if (left := self.stock.get(zone)) is not None:
            failure = None if left > 0 else (self.sold_out, f"no capacity in {zone}")
            self.stock[zone] = max(0, left - 1)
        vm = Vm(name=name, body=body, made_at=self.clock.monotonic(), failure=failure)
        self.vms[name.lower()] = vm
        self.made += failure is None
        return 201, self._begin(failure), self._shown(vm)

    def _delete(self, name: str) -> tuple[int, Mapping[str, str], Json]:
        vm = self._alive().get(name.lower())
        if vm is None:
            return 204, {}, {}
        if not self.keeps_deleted and vm.deleted_at is None:
            vm.deleted_at = self.clock.monotonic()
        return 202, self._begin(), {}

    def _begin(self, error: tuple[str, str] | None = None) -> Mapping[str, str]:
        name = f"op{len(self.operations)}"
        self.operations[name] = Operation(begun_at=self.clock.monotonic(), error=error)
        asked = urlencode({"api-version": _VERSIONS["Microsoft.Compute"]})
        return {"Azure-AsyncOperation": f"{self.url}{_OPERATIONS}/{name}?{asked}"}

    def _operation(self, name: str) -> Json:
        operation = self.operations[name]
        age_s = self._since(operation.begun_at)
        if operation.error and age_s >= self.operation_s:
            code, message = operation.error
            return {"status": "Failed", "error": {"code": code, "message": message}}
        return {"status": "Succeeded" if age_s >= self.create_s else "InProgress"}

    def _list(self, query: Json) -> Json:
        every = [
            self._shown(vm)
            for vm in self._alive().values()
            if self._since(vm.made_at) >= self.lag_s
        ]
        start = int(query.get("$skiptoken", 0))
        end = start + self.page
        said: Json = {"value": every[start:end]}
        if end < len(every):
            asked = urlencode({**query, "$skiptoken": end})
            said["nextLink"] = f"{self.next_host or self.url}{_VMS}?{asked}"
        return said

    def _shown(self, vm: Vm) -> Json:
        return {
            **vm.body,
            "id": f"{_VMS}/{vm.name}",
            "name": vm.name,
            "properties": {
                **vm.body["properties"],
                "provisioningState": self.state(vm),
                "timeCreated": "2026-01-01T00:00:00+00:00",
            },
        }

    def _view(self, vm: Vm) -> Json:
        state = self.state(vm)
        if state == "Failed" and vm.failure is not None:
            code, message = vm.failure
            return {"statuses": [{"code": f"ProvisioningState/failed/{code}", "message": message}]}
        statuses = [{"code": f"ProvisioningState/{state.lower()}"}]
        if state == "Succeeded":
            statuses.append({"code": f"PowerState/{vm.power}"})
        return {"statuses": statuses}

    def _existing(self, name: str) -> Vm:
        try:
            return self._alive()[name.lower()]
        except KeyError:
            raise ArmError(
                404, "ResourceNotFound", f"The Resource '{name}' was not found"
            ) from None

    def _alive(self) -> dict[str, Vm]:
        """Return every VM that is not deleted yet."""
        for key, vm in list(self.vms.items()):
            if vm.deleted_at is not None and self._since(vm.deleted_at) >= self.delete_s:
                del self.vms[key]
        return self.vms

    def _since(self, at: float) -> float:
        return self.clock.monotonic() - at


_QUOTA = (
    "Operation could not be completed as it results in exceeding approved standardNDSH100v5Family"
    " Cores quota. Current Limit: 0"
)


def _door(server: ArmServer) -> type[BaseHTTPRequestHandler]:
    class Door(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = 1 << 16

        def _serve(self) -> None:
            parts = urlsplit(self.path)
            headers = {name.lower(): text for name, text in self.headers.items()}
            body = self.rfile.read(int(headers.get("content-length", 0)))
            query: Json = dict(parse_qsl(parts.query))
            try:
                status, extra, said = server.answer(self.command, parts.path, query, headers, body)
            except _LostError:
                self.close_connection = True
                return
            data = b"" if status == 204 else json.dumps(said).encode()
            self.send_response(status)
            for name, text in extra.items():
                self.send_header(name, text)
            if status != 204:
                self.send_header("Content-Type", "application/json; charset=utf-8")
                self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815

        def log_message(self, *args: object) -> None:
            pass

    return Door
