"""
The objects of the API server: pods, as requests and the kubelet change them.

Source: kubernetes.io/docs/reference/using-api/api-concepts; pkg/registry/core/pod and
staging/src/k8s.io/apiserver/pkg/registry of Kubernetes 1.32.
"""

from __future__ import annotations

import base64
import json
import re
import threading
import uuid
from collections.abc import Iterator, Mapping
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.servers.kubernetes.schema import problems

Json = dict[str, Any]
OVER = ("Succeeded", "Failed")
PAGE = 500
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)
_LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", re.ASCII)


class ApiError(Exception):
    """An error answer."""

    def __init__(
        self, code: int, reason: str, message: str, details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "details": dict(details or {}),
            "code": code,
        }


def forbidden(name: str, why: str) -> ApiError:
    """Return the answer of admission."""
    said = {"name": name, "kind": "pods"}
    return ApiError(403, "Forbidden", f'pods "{name}" is forbidden: {why}', said)


def now(*, plus_s: float = 0.0) -> str:
    """Return the time, as the API writes it."""
    return f"{datetime.now(UTC) + timedelta(seconds=plus_s):%Y-%m-%dT%H:%M:%SZ}"


class Pods:
    """
    The pods of some namespaces, and what admission checks.

    All calls hold `lock`. Each pod is as the API shows it.
    """

    def __init__(self, namespaces: tuple[str, ...]) -> None:
        self.lock = threading.RLock()
        self.namespaces = namespaces
        self.of: dict[tuple[str, str], Json] = {}
        self.events: list[Json] = []
        self.accounts = {"default"}
        self.priorities: set[str] = set()
        self.quota: int | None = None
        """How many pods a namespace may have; None: any number."""
        self.webhook = ""
        """Why a webhook denies every pod; empty: none does."""
        self.made = 0
        """How many pods were ever created."""
        self.listed = 0
        """The version of the newest list."""
        self.page = PAGE
        """The maximum length of a page of a list."""
        self._version = 100

    def create(self, namespace: str, said: Json, *, is_dry: bool) -> Json:
        """Create a pod."""
        metadata = said.get("metadata", {})
        name = metadata.get("name", "")
        if namespace not in self.namespaces:
            where = {"name": namespace, "kind": "namespaces"}
            raise ApiError(404, "NotFound", f'namespaces "{namespace}" not found', where)
        self._admit(namespace, name, said)
        if (namespace, name) in self.of:
            details = {"name": name, "kind": "pods"}
            raise ApiError(409, "AlreadyExists", f'pods "{name}" already exists', details)
        made = deepcopy(said)
        made["metadata"] |= {
            "namespace": namespace,
            "uid": str(uuid.uuid4()),
            "creationTimestamp": now(),
        }
        spec = made["spec"]
        spec.setdefault("restartPolicy", "Always")
        spec.setdefault("terminationGracePeriodSeconds", 30)
        spec.setdefault("serviceAccountName", "default")
        spec.setdefault("schedulerName", "default-scheduler")
        made["status"] = {"phase": "Pending", "qosClass": "Guaranteed"}
        self.touch(made)
        if not is_dry:
            self.of[namespace, name] = made
            self.made += 1
        return made

    def get(self, namespace: str, name: str) -> Json:
        """Return one pod."""
        try:
            return self.of[namespace, name]
        except KeyError:
            details = {"name": name, "kind": "pods"}
            raise ApiError(404, "NotFound", f'pods "{name}" not found', details) from None

    def list(self, namespace: str, asked: Mapping[str, str]) -> Json:
        """Return a page of pods with the requested labels and fields."""
        after = ""
        if token := asked.get("continue", ""):
            after = json.loads(base64.b64decode(token))["after"]
        chosen = [
            pod
            for (where, name), pod in sorted(self.of.items())
            if where == namespace and name > after and _has(pod, asked)
        ]
        limit = min(int(asked.get("limit") or self.page), self.page)
        page, rest = chosen[:limit], chosen[limit:]
        self.listed = self._version
        metadata: Json = {"resourceVersion": str(self._version)}
        if rest:
            last = {"after": page[-1]["metadata"]["name"]}
            metadata["continue"] = base64.b64encode(json.dumps(last).encode()).decode()
            metadata["remainingItemCount"] = len(rest)
        # Entries of a list do not name their kind.
        plain = ({k: v for k, v in pod.items() if k not in ("kind", "apiVersion")} for pod in page)
        return {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": [*plain]}

    def replace(self, namespace: str, name: str, said: Json) -> Json:
        """Replace the metadata of a pod; its spec cannot change."""
        pod = self.get(namespace, name)
        for key in ("uid", "resourceVersion"):
            if said["metadata"].get(key, pod["metadata"][key]) != pod["metadata"][key]:
                raise ApiError(
                    409,
                    "Conflict",
                    f'Operation cannot be fulfilled on pods "{name}": the object has been modified;'
                    " please apply your changes to the latest version and try again",
                    {"name": name, "kind": "pods"},
                )
        if said["spec"] != pod["spec"]:
            raise _invalid(name, "spec", "Forbidden: pod updates may not change fields")
        for key in ("labels", "annotations", "finalizers"):
            pod["metadata"].pop(key, None)
            if said["metadata"].get(key):
                pod["metadata"][key] = said["metadata"][key]
        self.touch(pod)
        self._may_go(pod)
        return pod

    def delete(self, namespace: str, name: str, said: Json) -> Json:
        """Start the deletion of a pod."""
        pod = self.get(namespace, name)
        metadata = pod["metadata"]
        for key, wanted in said.get("preconditions", {}).items():
            if wanted != metadata[key]:
                what = {"uid": "UID", "resourceVersion": "ResourceVersion"}[key]
                raise ApiError(
                    409,
                    "Conflict",
                    f'Operation cannot be fulfilled on pods "{name}": Precondition failed: {what}'
                    f" in precondition: {wanted}, {what} in object meta: {metadata[key]}",
                    {"name": name, "kind": "pods"},
                )
        grace = said.get("gracePeriodSeconds", pod["spec"]["terminationGracePeriodSeconds"])
        if not pod["spec"].get("nodeName") or pod["status"]["phase"] in OVER:
            grace = 0
        before = metadata.get("deletionGracePeriodSeconds")
        if before is None or grace < before:
            metadata["deletionTimestamp"] = now(plus_s=grace)
            metadata["deletionGracePeriodSeconds"] = grace
            self.touch(pod)
        self._may_go(pod)
        return pod

    def tell(self, pod: Json, reason: str, message: str, *, kind: str = "Normal") -> None:
        """Make an event of a pod, as its kubelet does; one that is told again is counted."""
        metadata = pod["metadata"]
        about = {
            "kind": "Pod",
            "apiVersion": "v1",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
            "fieldPath": "spec.containers{machine}",
        }
        for event in self.events:
            if event["involvedObject"] == about and event["reason"] == reason:
                event["count"] += 1
                event["lastTimestamp"] = now()
                return
        self.events.append(
            {
                "metadata": {
                    "name": f"{metadata['name']}.{len(self.events):x}",
                    "namespace": metadata["namespace"],
                },
                "involvedObject": about,
                "reason": reason,
                "message": message,
                "type": kind,
                "count": 1,
                "firstTimestamp": now(),
                "lastTimestamp": now(),
                "source": {"component": "kubelet", "host": pod["spec"]["nodeName"]},
            }
        )

    def list_events(self, namespace: str, asked: Mapping[str, str]) -> Json:
        """The events that have the fields that are asked for."""
        found = [
            each
            for each in self.events
            if each["metadata"]["namespace"] == namespace
            and all(_field(each, key) == text for key, text in _pairs(asked["fieldSelector"]))
        ]
        metadata = {"resourceVersion": str(self._version)}
        return {"kind": "EventList", "apiVersion": "v1", "metadata": metadata, "items": found}

    def touch(self, pod: Json) -> None:
        """Give a changed pod its new version."""
        self._version += 1
        pod["metadata"]["resourceVersion"] = str(self._version)

    def ended(self, pod: Json) -> None:
        """Record that nothing of a pod runs any longer, as its kubelet says."""
        if "deletionTimestamp" in pod["metadata"]:
            pod["metadata"]["deletionGracePeriodSeconds"] = 0
        self._may_go(pod)

    def collect(self, pod: Json) -> None:
        """Record that the node of a pod is gone, as the garbage collector does."""
        pod["status"]["phase"] = "Failed"
        pod["status"].setdefault("conditions", []).append(
            {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "DeletionByPodGC",
                "message": "PodGC: node no longer exists",
                "lastTransitionTime": now(),
            }
        )
        pod["metadata"] |= {"deletionTimestamp": now(), "deletionGracePeriodSeconds": 0}
        self.touch(pod)
        self._may_go(pod)

    def _may_go(self, pod: Json) -> None:
        metadata = pod["metadata"]
        if metadata.get("deletionGracePeriodSeconds") == 0 and not metadata.get("finalizers"):
            self.of.pop((metadata["namespace"], metadata["name"]), None)

    def _admit(self, namespace: str, name: str, said: Json) -> None:
        wrong = problems(said)
        if wrong:
            told = (
                f'Pod in version "v1" cannot be handled as a Pod: strict decoding error: {wrong[0]}'
            )
            raise ApiError(400, "BadRequest", told)
        if not _NAME.fullmatch(name):
            raise _invalid(name, "metadata.name", f'Invalid value: "{name}"')
        for key, text in said["metadata"].get("labels", {}).items():
            if not _LABEL.fullmatch(text):
                raise _invalid(name, "metadata.labels", f'Invalid value: "{text}" of {key}')
        account = said["spec"].get("serviceAccountName", "default")
        if account not in self.accounts:
            missing = f'serviceaccount "{account}" not found'
            why = f"error looking up service account {namespace}/{account}: {missing}"
            raise forbidden(name, why)
        priority = said["spec"].get("priorityClassName", "")
        if priority and priority not in self.priorities:
            raise forbidden(name, f"no PriorityClass with name {priority} was found")
        if self.webhook:
            why = f'admission webhook "policy.example" denied the request: {self.webhook}'
            raise ApiError(403, "Forbidden", why, {})
        used = sum(
            where == namespace and pod["status"]["phase"] not in OVER
            for (where, _), pod in self.of.items()
        )
        if self.quota is not None and used >= self.quota:
            raise forbidden(
                name,
                f"exceeded quota: compute, requested: pods=1, used: pods={used}, limited:"
                f" pods={self.quota}",
            )


def _invalid(name: str, field: str, why: str) -> ApiError:
    cause = {"reason": "FieldValueInvalid", "message": why, "field": field}
    details = {"name": name, "kind": "Pod", "causes": [cause]}
    return ApiError(422, "Invalid", f'Pod "{name}" is invalid: {field}: {why}', details)


def _has(pod: Json, asked: Mapping[str, str]) -> bool:
    labels = pod["metadata"].get("labels", {})
    return all(
        labels.get(key) == text for key, text in _pairs(asked.get("labelSelector", ""))
    ) and (all(_field(pod, key) == text for key, text in _pairs(asked.get("fieldSelector", ""))))


def _pairs(selector: str) -> Iterator[tuple[str, str]]:
    for part in filter(None, selector.split(",")):
        key, _, text = part.partition("=")
        yield key, text.removeprefix("=")


def _field(pod: Json, path: str) -> Any:
    inner: Any = pod
    for key in path.split("."):
        inner = inner.get(key, "")
    return inner
