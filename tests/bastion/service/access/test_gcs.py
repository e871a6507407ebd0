"""Permissions at Google: requests match Google's description, and no permissions are removed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest

from bastion.errors import StoreError, StoreRefusedError
from bastion.records.keys import layout
from bastion.service.access.gcs import Binding, GcsAccess, commands, lifecycle, merged, settings
from bastion.service.access.grants import grants
from bastion.service.access.place import Place
from tests.bastion.service.access.people import MEMBERS, PEOPLE
from tests.rigs.limits import answering
from tests.servers import discovery

PLACE = Place(bucket="bucket", folder="some/bastion/", settings={})
GRANTS = grants(PEOPLE, MEMBERS)


class Policies:
    """A server of buckets' settings and policies that records its requests."""

    def __init__(self) -> None:
        self.bucket: dict[str, Any] = {"name": "bucket"}
        self.policies: dict[str, dict[str, Any]] = {"": {"etag": "0", "bindings": []}}
        self.asked: list[tuple[str, str, dict[str, str], Any]] = []
        self.refuse = 0
        self.conflicts = 0

    def answer(self, method: str, path: str, body: Any) -> tuple[int, dict[str, Any]]:
        """Return the answer of Google."""
        if self.refuse:
            return self.refuse, {"error": {"code": self.refuse, "message": "no", "errors": []}}
        if path.endswith("/iam"):
            folder = unquote(path.split("/managedFolders/")[1][:-4]) if "managed" in path else ""
            if method == "GET":
                return 200, self.policies[folder]
            if self.conflicts:
                self.conflicts -= 1
                return 412, {}
            assert body["etag"] == self.policies[folder]["etag"]
            etag = str(int(body["etag"]) + 1)
            self.policies[folder] = {**body, "etag": etag}
            return 200, self.policies[folder]
        if path.endswith("/managedFolders"):
            if body["name"] in self.policies:
                return 409, {}
            self.policies[body["name"]] = {"etag": "0"}
            return 200, {"name": body["name"]}
        if method == "PATCH":
            self.bucket |= body
        return 200, self.bucket


@pytest.fixture
def google() -> Iterator[tuple[Policies, GcsAccess]]:
    """Run a server, and access over it."""
    policies = Policies()

    class Asked(BaseHTTPRequestHandler):
        def _do(self) -> None:
            parts = urlsplit(self.path)
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body = json.loads(data) if data else None
            policies.asked.append((self.command, parts.path, dict(parse_qsl(parts.query)), body))
            status, said = policies.answer(self.command, parts.path, body)
            out = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(out)))
            self.end_headers()
            self.wfile.write(out)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    for method in ("GET", "PUT", "POST", "PATCH"):
        setattr(Asked, f"do_{method}", Asked._do)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Asked)
    endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    with answering(server):
        yield policies, GcsAccess(PLACE, credentials=None, endpoint=endpoint)


def test_every_request_is_as_google_describes_it(google: tuple[Policies, GcsAccess]) -> None:
    """Methods, parameters and bodies are those of Google's own description of its API."""
    policies, access = google
    list(access.apply(GRANTS))
    kinds = set()
    for method, path, query, body in policies.asked:
        kinds.add((method, path.rsplit("/", 1)[1]))
        assert discovery.request_problems(method, path, query, body) == []
    assert kinds >= {
        ("GET", "bucket"), ("PATCH", "bucket"), ("POST", "managedFolders"), ("PUT", "iam"),
    }  # fmt: skip


def test_each_folder_gets_its_rights(google: tuple[Policies, GcsAccess]) -> None:
    """A user can create and read in their own inbox; only the bastion can write root."""
    policies, access = google
    list(access.apply(GRANTS))
    inbox = policies.policies[PLACE.folder + layout.user_inbox("red", "ann")]["bindings"]
    assert inbox == [
        {"role": "roles/storage.objectCreator", "members": ["A"]},
        {"role": "roles/storage.objectViewer", "members": ["A"]},
    ]
    root = policies.policies[PLACE.folder]["bindings"]
    assert {"role": "roles/storage.objectUser", "members": ["the-bastion"]} in root
    assert policies.policies[""] == {"etag": "0", "bindings": []}, "the bucket's own is untouched"
    assert policies.bucket["softDeletePolicy"] == {"retentionDurationSeconds": "0"}


def test_a_root_without_a_folder_is_the_bucket(google: tuple[Policies, GcsAccess]) -> None:
    """In that case, the bastion's permission is in the bucket's own policy."""
    policies, access = google
    whole = GcsAccess(
        Place(bucket="bucket", folder="", settings={}), credentials=None, endpoint=access._endpoint
    )
    list(whole.apply(GRANTS))
    assert policies.policies[""]["bindings"] == [
        {"role": "roles/storage.objectUser", "members": ["the-bastion"]},
        {"role": "roles/storage.objectViewer", "members": ["root"]},
    ]


def test_doing_it_twice_changes_nothing(google: tuple[Policies, GcsAccess]) -> None:
    """The second time it only reads the policies, and applies the same settings."""
    policies, access = google
    list(access.apply(GRANTS))
    once = json.dumps(policies.policies), json.dumps(policies.bucket)
    policies.asked.clear()
    list(access.apply(GRANTS))
    assert (json.dumps(policies.policies), json.dumps(policies.bucket)) == once
    assert not [method for method, *_ in policies.asked if method == "PUT"]


def test_what_others_put_there_stays() -> None:
    """Other members, other roles, conditions, and other lifecycle rules are kept."""
    theirs: dict[str, Any] = {"role": "roles/storage.objectViewer", "members": ["x"]}
    conditional = {**theirs, "condition": {"expression": "false"}}
    standing = {"etag": "e", "version": 3, "bindings": [conditional, theirs]}
    wanted = [Binding(folder="f/", role=theirs["role"], members=("x", "y"))]
    assert merged(standing, wanted) == {
        **standing,
        "bindings": [conditional, {**theirs, "members": ["x", "y"]}],
    }
    rule = {"action": {"type": "Delete"}, "condition": {"age": 9}}
    kept = settings(PLACE, {"lifecycle": {"rule": [rule]}})["lifecycle"]["rule"]
    assert kept == [rule, *lifecycle(PLACE)]


def test_keys_that_come_with_a_request_are_refused(google: tuple[Policies, GcsAccess]) -> None:
    """An object that the bastion could list but not read is refused; the default key stays."""
    policies, access = google
    policies.bucket["encryption"] = {"defaultKmsKeyName": "theirs"}
    list(access.apply(GRANTS))
    assert policies.bucket["encryption"] == {
        "defaultKmsKeyName": "theirs",
        "customerSuppliedEncryptionEnforcementConfig": {"restrictionMode": "FullyRestricted"},
    }
    assert any(line.endswith("--encryption-enforcement-file=keys.json") for line in _lines())


def _lines() -> list[str]:
    return list(commands(PLACE, GRANTS))


def test_no_rule_of_ours_deletes_what_is_live() -> None:
    """Only replaced versions and parts of abandoned uploads are deleted."""
    for rule in lifecycle(PLACE):
        is_parts = rule["action"]["type"] == "AbortIncompleteMultipartUpload"
        assert is_parts or rule["condition"]["isLive"] is False


def test_a_policy_that_moved_is_read_again(google: tuple[Policies, GcsAccess]) -> None:
    """A conflict is retried with the current policy; endless conflicts are an error."""
    policies, access = google
    policies.conflicts = 2
    list(access.apply(GRANTS))
    assert not policies.conflicts
    policies.policies[PLACE.folder] = {"etag": "0"}
    policies.conflicts = 99
    with pytest.raises(StoreError, match="its policy keeps changing"):
        list(access.apply(GRANTS))


@pytest.mark.parametrize(
    ("status", "kind", "hint"),
    [(403, StoreRefusedError, "roles/storage.admin"), (429, StoreError, "run it again")],
)
def test_a_refusal_is_an_error_with_a_hint(
    status: int, kind: type[StoreError], hint: str, google: tuple[Policies, GcsAccess]
) -> None:
    """The error has Google's own words, and says what to do."""
    policies, access = google
    policies.refuse = status
    with pytest.raises(kind, match=f"{status} no") as told:
        list(access.apply(GRANTS))
    assert hint in told.value.hint


def test_the_commands_do_the_same() -> None:
    """Every binding and every folder is one gcloud command line, ready for a shell."""
    lines = list(commands(PLACE, GRANTS))
    assert lines[0].endswith("--public-access-prevention --clear-soft-delete")
    inbox = "gs://bucket/some/bastion/inbox/red/ann/"
    assert f"gcloud storage managed-folders create {inbox}" in lines
    assert (
        f"gcloud storage managed-folders add-iam-policy-binding {inbox} --member=A"
        " --role=roles/storage.objectCreator"
    ) in lines
