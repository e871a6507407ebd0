"""The APIs of a project: services, buckets, service accounts, and policies with etags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bastion.clock import Clock
from tests.servers.discovery import description
from tests.servers.google.cloud import ApiError, Cloud, Json


@dataclass
class Project:
    """What four APIs know of one project."""

    enabled: set[str] = field(default_factory=set)
    buckets: dict[str, Json] = field(default_factory=dict)
    accounts: set[str] = field(default_factory=set)
    policies: dict[str, Json] = field(default_factory=dict)
    """By the resource; each change gives a policy a new etag."""
    unknown_for: int = 0
    """How many more times a policy does not know a new account."""
    permissions: set[str] = field(default_factory=set)
    """What callers may do in the project."""
    conflicts: int = 0
    """How many more changes of policies conflict with another one."""
    changes: int = 0


def servers(project: Project, clock: Clock) -> dict[str, Cloud]:
    """Return the servers of the APIs, by name; each starts in its `with` block."""
    return {
        "serviceusage": _server("serviceusage.v1", clock, _Services(project).methods()),
        "storage": _server("storage.v1", clock, _Buckets(project).methods()),
        "iam": _server("iam.v1", clock, _Accounts(project).methods()),
        "cloudresourcemanager": _server(
            "cloudresourcemanager.v1", clock, _Projects(project).methods()
        ),
    }


def _server(api: str, clock: Clock, methods: Json) -> Cloud:
    made = Cloud(description=description(api), clock=clock)
    made.methods = methods
    return made


def _missing(what: str) -> ApiError:
    return ApiError(404, "notFound", f"{what} does not exist", rpc="NOT_FOUND")


@dataclass
class _Services:
    project: Project

    def methods(self) -> Json:
        return {
            "serviceusage.services.batchGet": self._get,
            "serviceusage.services.batchEnable": self._enable,
            "serviceusage.operations.get": self._operation,
        }

    def _get(self, given: Mapping[str, str], query: Mapping[str, str], body: Json) -> Json:
        # The server reads the last of several `names`: the enabled services are reported in any
        # case.
        names = [f"{given['parent']}/services/{name}" for name in sorted(self.project.enabled)]
        return {"services": [{"name": name, "state": "ENABLED"} for name in names]}

    def _enable(self, given: Mapping[str, str], query: Mapping[str, str], body: Json) -> Json:
        self.project.enabled |= set(body["serviceIds"])
        self.project.changes += 1
        return {"name": "operations/acf.1", "done": False}

    def _operation(self, given: Mapping[str, str], query: Mapping[str, str], body: Json) -> Json:
        return {"name": given["name"], "done": True, "response": {}}


@dataclass
class _Buckets:
    project: Project

    def methods(self) -> Json:
        return {"storage.buckets.get": self._get, "storage.buckets.insert": self._insert}

    def _get(self, given: Mapping[str, str], query: Mapping[str, str], body: Json) -> Json:
        if given["bucket"] not in self.project.buckets:
            raise _missing(given["bucket"])
        return self.project.buckets[given["bucket"]]

    def _insert(self, given: Mapping[str, str], query: Mapping[str, str], body: Json) -> Json:
        self.project.buckets[body["name"]] = body
        self.project.changes += 1
        return body


class _Policies:
    """The methods of a resource with a policy."""

    project: Project

    def _read(self, resource: str) -> Json:
        return self.project.policies.setdefault(resource, {"etag": "MA=="})

    def _write(self, resource: str, policy: Json) -> Json:
        if self.project.conflicts:
            self.project.conflicts -= 1
            raise ApiError(409, "aborted", "There were concurrent policy changes", rpc="ABORTED")
        if self.project.unknown_for:
            self.project.unknown_for -= 1
            text = "Service account bastion@acme.iam.gserviceaccount.com does not exist."
            raise ApiError(400, "badRequest", text, rpc="INVALID_ARGUMENT")
        assert policy["etag"] == self._read(resource)["etag"]
        self.project.changes += 1
        made = {**policy, "etag": f"M{self.project.changes}=="}
        self.project.policies[resource] = made
        return made


@dataclass
class _Accounts(_Policies):
    project: Project

    def methods(self) -> Json:
        here = "iam.projects.serviceAccounts"
        return {
            f"{here}.get": self._get,
            f"{here}.create": self._create,
            f"{here}.getIamPolicy": lambda given, query, body: self._read(given["resource"]),
            f"{here}.setIamPolicy": lambda given, query, body: self._write(
                given["resource"], body["policy"]
            ),
        }

    def _get(self, given: Mapping[str, str], query: Mapping[str, str], body: Json) -> Json:
        email = given["name"].rpartition("/")[2]
        if email not in self.project.accounts:
            raise _missing(email)
        return {"name": given["name"], "email": email}

    def _create(self, given: Mapping[str, str], query: Mapping[str, str], body: Json) -> Json:
        of = given["name"].removeprefix("projects/")
        email = f"{body['accountId']}@{of}.iam.gserviceaccount.com"
        self.project.accounts.add(email)
        self.project.changes += 1
        return {"email": email}


@dataclass
class _Projects(_Policies):
    project: Project

    def methods(self) -> Json:
        here = "cloudresourcemanager.projects"
        return {
            f"{here}.testIamPermissions": lambda given, query, body: {
                "permissions": [p for p in body["permissions"] if p in self.project.permissions]
            },
            f"{here}.getIamPolicy": lambda given, query, body: self._read(given["resource"]),
            f"{here}.setIamPolicy": lambda given, query, body: self._write(
                given["resource"], body["policy"]
            ),
        }
