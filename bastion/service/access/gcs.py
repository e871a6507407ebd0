"""
Rights and settings in terms of Google Cloud Storage.

A prefix is a managed folder with its own IAM policy, which inherits the policies of the folders
above it. `objectCreator` can create but not replace: replacing an object requires the permission to
delete it. Every right to read includes the right to list. Without it Google answers 403 instead of
404, and agents poll for objects that do not exist yet.

Bindings are added and never removed, so this is idempotent.

Source: Cloud Storage, "Managed folders", "IAM roles for Cloud Storage", "Soft delete", "Enforce or
restrict the encryption types for a bucket"; `storage.v1.json`.
"""

from __future__ import annotations

import json
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from bastion.errors import StoreError, StoreRefusedError
from bastion.records.keys import layout
from bastion.service.access.grants import Grant, Right
from bastion.service.access.place import Place
from bastion.store.network_fault import fault_of
from bastion.value import value

if TYPE_CHECKING:
    import urllib3
    from google.auth.credentials import Credentials

ENDPOINT = "https://storage.googleapis.com"
SCOPE = "https://www.googleapis.com/auth/devstorage.full_control"
"""Policies cannot be changed with less. Source: Cloud Storage, "OAuth scopes"."""

ROLES = {
    Right.READ: "roles/storage.objectViewer",
    Right.CREATE: "roles/storage.objectCreator",
    Right.WRITE: "roles/storage.objectUser",
}

Json = dict[str, Any]

_FORBIDDEN = {"restrictionMode": "FullyRestricted"}
_TRIES = 3
_DEADLINE_S = 60.0


@value
class Binding:
    """The members that have a role on a folder."""

    folder: str
    """Relative to the bucket, with a trailing slash; empty for the bucket itself."""
    role: str
    members: tuple[str, ...]


def open_access(place: Place) -> GcsAccess:
    """
    Return access to `place` with this machine's or user's own credentials.

    Raises:
        StoreRefusedError: There are no credentials.
    """
    import google.auth
    import google.auth.exceptions

    try:
        credentials, _ = google.auth.default(scopes=[SCOPE])
    except google.auth.exceptions.GoogleAuthError as error:
        raise StoreRefusedError(
            f"there are no Google credentials here: {str(error).splitlines()[0]}",
            hint="run: gcloud auth application-default login",
        ) from error
    return GcsAccess(place, credentials=credentials)


def bindings(place: Place, grants: Iterable[Grant]) -> tuple[Binding, ...]:
    """Return the bindings that give `grants`, sorted by folder."""
    members: dict[tuple[str, str], list[str]] = defaultdict(list)
    for grant in grants:
        key = (place.folder + grant.prefix, ROLES[grant.right])
        if grant.principal not in members[key]:
            members[key].append(grant.principal)
    return tuple(
        Binding(folder=folder, role=role, members=tuple(found))
        for (folder, role), found in sorted(members.items())
    )


def lifecycle(place: Place) -> list[Json]:
    """Return rules that delete replaced versions and abandoned uploads, but no live object."""
    replaced = [place.folder + layout.folder_of(layout.ROOT), place.folder + layout.VIEWS]
    return [
        {
            "action": {"type": "Delete"},
            "condition": {"isLive": False, "daysSinceNoncurrentTime": 1, "matchesPrefix": replaced},
        },
        {"action": {"type": "AbortIncompleteMultipartUpload"}, "condition": {"age": 1}},
    ]


def settings(place: Place, current: Mapping[str, Any]) -> Json:
    """
    Return the changes to the bucket that this root needs; `current` is its current state.

    Soft delete is disabled: it keeps, and bills, every replaced version of root for a week, at one
    per second. The copies of root, and create-only prefixes, protect the data instead.
    Customer-supplied keys are refused: an object written with one is listed, but the bastion could
    not read it.
    """
    rules = list(current.get("lifecycle", {}).get("rule", []))
    rules += [rule for rule in lifecycle(place) if rule not in rules]
    return {
        "iamConfiguration": {
            "uniformBucketLevelAccess": {"enabled": True},
            "publicAccessPrevention": "enforced",
        },
        "softDeletePolicy": {"retentionDurationSeconds": "0"},
        "encryption": {
            **current.get("encryption", {}),
            "customerSuppliedEncryptionEnforcementConfig": _FORBIDDEN,
        },
        "lifecycle": {"rule": rules},
    }


def merged(policy: Json, wanted: Iterable[Binding]) -> Json:
    """Return `policy` with the members of `wanted` added; all of its other bindings stay."""
    found = [dict(binding) for binding in policy.get("bindings", [])]
    for binding in wanted:
        same = next((b for b in found if b["role"] == binding.role and "condition" not in b), None)
        if same is None:
            same = {"role": binding.role, "members": []}
            found.append(same)
        known = same["members"]
        same["members"] = [*known, *(m for m in binding.members if m not in known)]
    return {**policy, "bindings": found}


def commands(place: Place, grants: Iterable[Grant]) -> Iterator[str]:
    """Yield the shell commands for `gcloud` that do what `GcsAccess.apply` does."""
    bucket = f"gs://{place.bucket}"
    rules = json.dumps({"rule": lifecycle(place)})
    yield (
        f"gcloud storage buckets update {bucket} --uniform-bucket-level-access"
        " --public-access-prevention --clear-soft-delete"
    )
    yield f"echo {shlex.quote(rules)} > lifecycle.json"
    yield f"gcloud storage buckets update {bucket} --lifecycle-file=lifecycle.json"
    keys = json.dumps({"csekEnforcement": _FORBIDDEN})
    yield f"echo {shlex.quote(keys)} > keys.json"
    yield f"gcloud storage buckets update {bucket} --encryption-enforcement-file=keys.json"
    wanted = bindings(place, grants)
    for folder in sorted({binding.folder for binding in wanted} - {""}):
        yield f"gcloud storage managed-folders create {shlex.quote(f'{bucket}/{folder}')}"
    for binding in wanted:
        kind = "managed-folders" if binding.folder else "buckets"
        where = shlex.quote(f"{bucket}/{binding.folder}" if binding.folder else bucket)
        for member in binding.members:
            yield (
                f"gcloud storage {kind} add-iam-policy-binding {where}"
                f" --member={shlex.quote(member)} --role={binding.role}"
            )


class GcsAccess:
    """
    Gives rights and changes settings over the JSON API.

    Args:
        credentials: For the requests; None sends anonymous requests.
        endpoint: URL of the server.
    """

    def __init__(
        self, place: Place, *, credentials: Credentials | None, endpoint: str = ENDPOINT
    ) -> None:
        import urllib3

        self._place = place
        self._credentials = credentials
        self._endpoint = endpoint
        self._http = urllib3.PoolManager(retries=False, timeout=urllib3.Timeout(total=_DEADLINE_S))

    def apply(self, grants: Iterable[Grant]) -> Iterator[str]:
        """
        Apply the settings and `grants`, and yield one line for each change.

        Changes before an error stay.

        Raises:
            StoreRefusedError: Google refused: there is no such bucket, or the rights are missing.
            StoreError: Out of reach, or rate limited; run it again.
        """
        bucket = self._bucket_path()
        self._request("PATCH", bucket, settings(self._place, self._request("GET", bucket)))
        yield f"gs://{self._place.bucket}: uniform access, no public access, no soft delete"
        by_folder: dict[str, list[Binding]] = defaultdict(list)
        for binding in bindings(self._place, grants):
            by_folder[binding.folder].append(binding)
        for folder, wanted in by_folder.items():
            if folder:
                self._request("POST", f"{bucket}/managedFolders", {"name": folder}, is_there=409)
            self._bind(folder, wanted)
            roles = ", ".join(f"{b.role} to {' '.join(b.members)}" for b in wanted)
            yield f"gs://{self._place.bucket}/{folder}: {roles}"

    def _bind(self, folder: str, wanted: list[Binding]) -> None:
        """Add `wanted` to the policy of `folder`, with a conditional write."""
        path = self._bucket_path()
        path += f"/managedFolders/{quote(folder, safe='')}/iam" if folder else "/iam"
        for _ in range(_TRIES):
            policy = self._request("GET", path, query={"optionsRequestedPolicyVersion": "3"})
            new = merged(policy, wanted)
            if new == policy or self._request("PUT", path, new, is_there=412):
                return
        raise StoreError(f"gs://{self._place.bucket}/{folder}: its policy keeps changing")

    def _bucket_path(self) -> str:
        return f"/storage/v1/b/{self._place.bucket}"

    def _request(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        *,
        query: Mapping[str, str] | None = None,
        is_there: int = 0,
    ) -> Json:
        """Send one request and return the response; empty if the status is `is_there`."""
        import urllib3

        url = f"{self._endpoint}{path}" + (f"?{urlencode(query)}" if query else "")
        headers = {} if body is None else {"Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        try:
            self._authorize(method, url, headers)
            answer = self._http.request(method, url, body=data, headers=headers)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            fault = fault_of(error, self._endpoint)
            raise StoreError(f"gs://{self._place.bucket}: {fault.what}", hint=fault.hint) from error
        if answer.status == is_there:
            return {}
        if answer.status != 200:
            raise self._failure(method, path, answer)
        done: Json = json.loads(answer.data)
        return done

    def _authorize(self, method: str, url: str, headers: dict[str, str]) -> None:
        if self._credentials is None:
            return
        import google.auth.exceptions
        import google.auth.transport.urllib3

        transport = google.auth.transport.urllib3.Request(self._http)
        try:
            self._credentials.before_request(transport, method, url, headers)
        except google.auth.exceptions.GoogleAuthError as error:
            raise StoreRefusedError(
                f"Google gives no token: {error}",
                hint="run: gcloud auth application-default login",
            ) from error

    def _failure(self, method: str, path: str, answer: urllib3.BaseHTTPResponse) -> StoreError:
        try:
            why = str(json.loads(answer.data)["error"]["message"])
        except (ValueError, KeyError, TypeError):
            why = answer.data[:200].decode(errors="replace").strip()
        text = f"gs://{self._place.bucket}: {method} {path}: {answer.status} {why}"
        if answer.status in (408, 429) or answer.status >= 500:
            return StoreError(text, hint="run it again: the changes so far stay")
        return StoreRefusedError(
            text, hint="this needs roles/storage.admin on the bucket, and the bucket must exist"
        )
