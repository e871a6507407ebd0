"""The bastion's VM at Google, with a server checked against Google's description."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from bastion.clock import VirtualClock
from bastion.errors import (
    ConflictError,
    NoCapacityError,
    NotFoundError,
    ProviderRefusedError,
)
from bastion.provider.gcp.api import Api
from bastion.vm.gce import GceVm
from tests.bastion.vm.shared import VM
from tests.servers.google import Compute
from tests.servers.google.cloud import lost


@pytest.fixture
def server() -> Iterator[Compute]:
    """Run Compute Engine, on a virtual clock."""
    with Compute.at(VirtualClock()) as made:
        yield made
        assert made.problems == []


def vm(server: Compute, **changes: Any) -> GceVm:
    """Return a bastion's VM there."""
    api = Api("compute", project=server.project, clock=server.clock, endpoint=server.url)
    return GceVm(replace(VM, **changes), api)


def script_of(server: Compute) -> str:
    """Return the VM's start-up script."""
    (item,) = server.vm(VM.name).fields["metadata"]["items"]
    assert item["key"] == "startup-script"
    return str(item["value"])


def test_it_is_made_stopped_started_and_deleted(server: Compute) -> None:
    """Its state is Google's; a second one of its name is refused with what to do."""
    made = vm(server)
    assert made.state() is None
    made.create()
    with pytest.raises(ConflictError, match="there is a VM shared-bastion already"):
        made.create()
    server.clock.sleep(60)
    assert made.state() == "running"
    made.stop()
    assert made.state() == "stopped"
    made.start()
    server.clock.sleep(60)
    assert made.state() == "running"
    made.delete()
    server.clock.sleep(60)
    assert made.state() is None
    with pytest.raises(NotFoundError, match="no VM shared-bastion in us-central1-a"):
        made.start()


def test_an_answer_that_is_lost_is_no_conflict(server: Compute) -> None:
    """Google's client sends the request again, and Google recognizes it."""
    server.fail("instances.insert", lost(), is_late=True)
    vm(server).create()
    assert server.made == 1


def test_a_deleted_one_is_made_again(server: Compute) -> None:
    """Google remembers requests for a while: each command is a request of its own."""
    for _ in range(2):
        vm(server).create()
        server.clock.sleep(60)
        assert vm(server).state() == "running"
        vm(server).delete()
        server.clock.sleep(60)


def test_it_is_least_privileged_and_small(server: Compute) -> None:
    """It uses the named account, boots with Secure Boot, and runs serve for its root."""
    vm(server).create()
    script = script_of(server)
    assert "--root=gs://bucket/shared-bastion" in script
    assert "--name=shared-bastion" in script


def test_an_upgrade_brings_the_newest_script(server: Compute) -> None:
    """The script is replaced, the VM restarts, and other metadata stays."""
    vm(server, digest="old", wheel="wheels/old").create()
    metadata = server.vm(VM.name).fields["metadata"]
    metadata["items"].append({"key": "own", "value": "stays"})
    server.clock.sleep(60)
    now = vm(server, image="europe-docker.pkg.dev/acme/images/bastion:v2").upgrade()
    assert now.image.endswith(":v2")
    items = {each["key"]: each["value"] for each in server.vm(VM.name).fields["metadata"]["items"]}
    assert "bastion:v2" in items["startup-script"]
    assert items["own"] == "stays"
    assert vm(server).state() == "starting"


def test_a_zone_that_is_sold_out_is_told(server: Compute) -> None:
    """The error has Google's words, and nothing is left behind."""
    server.stock["us-central1-a"] = 0
    with pytest.raises(NoCapacityError, match="does not have enough"):
        vm(server).create()
    assert vm(server).state() is None


def test_a_vm_of_its_name_that_is_none_of_ours_is_left_alone(server: Compute) -> None:
    """Many projects have a login host with that name: it is not changed."""
    made = vm(server)
    made.create()
    theirs = server.vm(VM.name)
    theirs.fields["labels"] = {"team": "ops"}
    server.clock.sleep(60)
    before = repr(theirs)
    for change in (made.create, made.start, made.stop, made.upgrade, made.delete, made.state):
        with pytest.raises(ProviderRefusedError, match="not made by bastion create"):
            change()
    assert repr(theirs) == before
