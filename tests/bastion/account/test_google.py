"""A Google project gets what a bastion needs, once, by calls in Google's description."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from bastion.account import google
from bastion.account.needs import Needs
from bastion.clock import VirtualClock
from bastion.errors import SpecError
from tests.servers.google.accounts import Project, servers

BASTION = "serviceAccount:bastion@acme.iam.gserviceaccount.com"
NEEDS = Needs(
    bucket="acme-bastions",
    location="us-central1",
    bastion=BASTION,
    agents=("serviceAccount:bastion-gpus@acme.iam.gserviceaccount.com",),
    providers=("gce", "gcp_tpu"),
)


@pytest.fixture
def project(monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """Run an empty project on servers that are checked against Google's descriptions."""
    made = Project()
    with ExitStack() as stack:
        every = servers(made, VirtualClock())
        for name, server in every.items():
            stack.enter_context(server)
            monkeypatch.setenv(f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{name.upper()}", server.url)
        yield made
        assert [problem for server in every.values() for problem in server.problems] == []


def taken(needs: Needs = NEEDS) -> list[str]:
    """Return what was done, step by step."""
    return [done for step in google.steps(needs, VirtualClock()) if (done := step.take())]


def test_everything_is_made_once(project: Project) -> None:
    """The second run changes nothing, because everything is in place."""
    assert taken() == [
        "enabled storage.googleapis.com, iam.googleapis.com, compute.googleapis.com,"
        " tpu.googleapis.com",
        "made bucket gs://acme-bastions in us-central1",
        "made service account bastion@acme.iam.gserviceaccount.com",
        "made service account bastion-gpus@acme.iam.gserviceaccount.com",
        f"project acme: roles/compute.instanceAdmin.v1 to {BASTION}",
        f"project acme: roles/tpu.admin to {BASTION}",
        "service account bastion-gpus@acme.iam.gserviceaccount.com: roles/iam.serviceAccountUser to"
        f" {BASTION}",
    ]
    changes = project.changes
    assert taken() == []
    assert project.changes == changes


def test_a_policy_that_changes_meanwhile_is_read_again(project: Project) -> None:
    """A policy that does not know a new account yet is read again too."""
    project.conflicts, project.unknown_for = 1, 2
    assert len(taken()) == 7
    assert project.policies["acme"]["bindings"] == [
        {"role": "roles/compute.instanceAdmin.v1", "members": [BASTION]},
        {"role": "roles/tpu.admin", "members": [BASTION]},
    ]


def test_others_keep_what_they_have(project: Project) -> None:
    """Bindings of others stay, and one with a condition is not ours."""
    role = "roles/tpu.admin"
    others = [
        {"role": role, "members": ["user:ada@acme.org"]},
        {"role": role, "members": [BASTION], "condition": {"expression": "false"}},
    ]
    project.policies["acme"] = {"etag": "MA==", "bindings": others}
    taken()
    found = project.policies["acme"]["bindings"]
    assert found[0] == {"role": role, "members": ["user:ada@acme.org", BASTION]}
    assert found[1] == others[1]


def test_the_commands_do_the_same() -> None:
    """Each checks before it creates, so all of them can be repeated; no login is needed."""
    commands = [line for step in google.steps(NEEDS, VirtualClock()) for line in step.commands]
    assert [" ".join(line.split()[1:4]) for line in commands] == [
        "services enable storage.googleapis.com",
        "storage buckets describe",
        "iam service-accounts describe",
        "iam service-accounts describe",
        "projects add-iam-policy-binding acme",
        "projects add-iam-policy-binding acme",
        "iam service-accounts add-iam-policy-binding",
    ]


def test_what_google_would_refuse_is_told_first() -> None:
    """A name that is too short is refused, and so is an identity without a project."""
    short = "serviceAccount:gpus@acme.iam.gserviceaccount.com"
    with pytest.raises(SpecError, match="'gpus': not the name of a service account"):
        list(google.steps(replace(NEEDS, agents=(short,)), VirtualClock()))
    with pytest.raises(SpecError, match="--cloud_project: missing"):
        list(google.steps(Needs(bucket="b", bastion="user:ada@acme.org"), VirtualClock()))
