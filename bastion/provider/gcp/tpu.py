"""
Slices of Cloud TPU, each requested as one queued resource.

* The hosts of a slice are machines `<slice>-h<j>` that are created, listed and deleted together.
* A queued resource waits until Google has the slice: its hosts are `waiting`, in Google's words. It
  outlives its slice and uses up quota, as does a node that was taken back. What is left is reported
  as `gone`, so that it is deleted, before the next slice of the pool is requested.
* The slices of a gang are separate requests, so that each can be kept, reused and deleted on its
  own. If one of them is refused immediately, the others that this call requested are cancelled.
* The API cannot filter lists by labels, so this module does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from bastion.errors import NoCapacityError, ProviderError, ProviderRefusedError
from bastion.errors import ProviderUnavailableError as UnavailableError
from bastion.machine import Machine, Pool
from bastion.provider.each_place import in_each
from bastion.provider.gcp.answers import silent_places
from bastion.provider.gcp.api import Api
from bastion.provider.gcp.request_ids import RequestIds
from bastion.provider.gcp.rights import TPUS, lacking
from bastion.provider.gcp.script import Script, host_name
from bastion.provider.gcp.tpu_request import queued_resource
from bastion.provider.gcp.tpu_states import failure_of, is_over, labels_of, state_of
from bastion.provider.gcp.verdicts import Failure, of_rpc, verdict
from bastion.provider.port import Listed
from bastion.provider.vm_names import Names

WAIT_S = 30.0
"""How long a create waits until its request is in the queue or refused."""
_PAGE = 500
_REQUEST_FIELDS = (
    "nextPageToken,unreachable,"
    "queuedResources(name,createTime,state,tpu(nodeSpec(nodeId,node(labels))))"
)
_NODE_FIELDS = (
    "nextPageToken,unreachable,"
    "nodes(name,createTime,state,health,healthDescription,labels,networkEndpoints(ipAddress))"
)


class GcpTpuProvider:
    """
    The slices of one pool.

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
        """Slice -> the zone in which it was last listed, or has been requested since."""
        self._over: frozenset[str] = frozenset()
        """Slices that were taken back and whose remains still use up quota."""
        self._ids = RequestIds()

    @property
    def vouches(self) -> bool:
        """See the port: Google knows which slices exist."""
        return True

    def list(self) -> tuple[Listed, ...]:
        """See the port; two calls for all zones, including those that the pool no longer names."""
        requests = dict(self._ours(self._requests, "queuedResources"))
        nodes = dict(self._ours(self._nodes, "nodes"))
        found: list[Listed] = []
        for name in sorted(requests.keys() | nodes.keys()):
            found += self._hosts(name, requests.get(name, {}), nodes.get(name, {}))
        slices = {self._names.slice(listed.name): listed for listed in found}
        self._zones = {name: listed.zone for name, listed in slices.items()}
        self._over = frozenset(
            self._names.slice(listed.name) for listed in found if listed.leaves_rest
        )
        return tuple(found)

    def account(self) -> str:
        """See `TellsAccount`."""
        return f"project {self._api.project}"

    def lacking(self) -> tuple[str, ...]:
        """See `TellsRights`."""
        return lacking(self._projects, TPUS)

    def create(self, machines: Sequence[Machine], pool: Pool) -> None:
        """See the port."""
        for name in sorted(self._over):
            with suppress(ProviderError):  # makes room for others only; a refusal is reported below
                self._delete_slice(name)
        made: list[str] = []
        for name in dict.fromkeys(self._names.slice(machine.name) for machine in machines):
            self._zones[name] = machines[0].zone
            try:
                if self._ensure(name, machines[0].zone, pool):
                    made.append(name)
            except (NoCapacityError, ProviderRefusedError):
                for other in made:
                    with suppress(ProviderError):  # the list shows it, and it is deleted then
                        self._delete_slice(other)
                raise

    def delete(self, name: str) -> None:
        """See the port: deletes the slice that contains the host."""
        self._delete_slice(self._names.slice(name))

    def _ensure(self, name: str, zone: str, pool: Pool) -> bool:
        """Request a slice that does not exist, or start its agents; return whether it is new."""
        path = self._path(zone, "queuedResources", name)
        what = f"{pool.instance_type} in {zone}"
        shown = self._api.ask(self._requests.get(name=path), what)
        if isinstance(shown, Failure):
            return self._request(name, zone, pool, what)
        match shown.get("state", {}).get("state", ""):
            case "FAILED":
                self._delete_slice(name)
                raise verdict(failure_of(shown), what)
            case "ACTIVE":
                self._start(name, zone, what)
            case _:
                pass
        return False

    def _request(self, name: str, zone: str, pool: Pool, what: str) -> bool:
        parent = self._parent(zone)
        called = self._names.cloud(name)
        key = self._path(zone, "queuedResources", name)
        asked = queued_resource(
            pool,
            parent=parent,
            node=called,
            labels=self._names.labels_of(name),
            script=self._script(pool, host_name(name, hosts=pool.hosts)),
        )
        request = self._requests.create(
            parent=parent,
            queuedResourceId=called,
            requestId=self._ids.id_of(key),
            body=asked,
        )
        answer = self._api.ask(request, what)
        failure = answer if isinstance(answer, Failure) else self._outcome(answer, what)
        if failure is None:
            return True
        if failure.is_conflict:
            return False
        self._ids.answer(key)
        raise verdict(failure, what)

    def _start(self, name: str, zone: str, what: str) -> None:
        """Start the node of a slice if it was stopped."""
        path = self._path(zone, "nodes", name)
        shown = self._api.ask(self._nodes.get(name=path), what)
        if not isinstance(shown, Failure) and shown.get("state") == "STOPPED":
            self._api.call(self._nodes.start(name=path, body={}), what)

    def _delete_slice(self, name: str) -> None:
        known = self._zones.get(name)
        in_each((known,) if known else self._pool.zones, partial(self._delete_in, name))

    def _delete_in(self, name: str, zone: str) -> None:
        what = f"delete {name} in {zone}"
        path = self._path(zone, "queuedResources", name)
        answer = self._api.ask(self._requests.delete(name=path, force=True), what)
        if isinstance(answer, Failure) and answer.is_missing:
            path = self._path(zone, "nodes", name)
            answer = self._api.ask(self._nodes.delete(name=path), what)
        if isinstance(answer, Failure) and not answer.is_missing:
            raise verdict(answer, what)

    def _outcome(self, operation: Mapping[str, Any], what: str) -> Failure | None:
        """Wait for an operation; return its failure, or None if it succeeded or still runs."""
        name = operation["name"]
        operation = self._api.settle(
            operation, lambda: self._operations.get(name=name), what, wait_s=WAIT_S
        )
        error = operation.get("error")
        return None if error is None else of_rpc(error.get("code", 0), error.get("message", ""))

    def _ours(self, resource: Any, kind: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """
        Yield the queued resources or nodes of this pool, by the name of their slice.

        Raises:
            ProviderUnavailableError: A zone of the pool did not answer.
        """
        what = f"list of pool {self._pool.name}"
        pages = self._api.pages(
            resource.list,
            what,
            parent=self._parent("-"),
            pageSize=_PAGE,
            fields=_NODE_FIELDS if kind == "nodes" else _REQUEST_FIELDS,
        )
        for page in pages:
            if mine := silent_places(page.get("unreachable", ()), self._pool.zones):
                raise UnavailableError(f"{what}: no answer of {mine}")
            for each in page.get(kind, ()):
                name = self._names.machine(each["name"].rpartition("/")[2], labels_of(each))
                if name is not None:
                    yield name, each

    def _hosts(
        self, name: str, request: Mapping[str, Any], node: Mapping[str, Any]
    ) -> Iterator[Listed]:
        """Yield every host of one slice."""
        state, text = state_of(request, node)
        endpoints = node.get("networkEndpoints", ())
        shown = request or node
        for host in range(self._pool.hosts):
            is_there = state != "running" or not endpoints or host < len(endpoints)
            yield Listed(
                name=name if self._pool.hosts == 1 else f"{name}-h{host}",
                pool=self._pool.name,
                state=state if is_there else "creating",
                zone=shown["name"].split("/")[3],
                text=text,
                created_at=shown.get("createTime", ""),
                account=self.account(),
                leaves_rest=is_over(request, node),
            )

    def _parent(self, zone: str) -> str:
        return f"projects/{self._api.project}/locations/{zone}"

    def _path(self, zone: str, kind: str, name: str) -> str:
        return f"{self._parent(zone)}/{kind}/{self._names.cloud(name)}"

    @property
    def _requests(self) -> Any:
        return self._api.resource("projects.locations.queuedResources")

    @property
    def _nodes(self) -> Any:
        return self._api.resource("projects.locations.nodes")

    @property
    def _operations(self) -> Any:
        return self._api.resource("projects.locations.operations")
