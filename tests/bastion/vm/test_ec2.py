"""The bastion's VM at Amazon, on moto."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from bastion.clock import VirtualClock
from bastion.errors import (
    ConflictError,
    NotFoundError,
    ProviderRefusedError,
    ProviderUnavailableError,
    SpecError,
)
from bastion.vm.bastion_vm import BastionVm
from bastion.vm.ec2 import Ec2Vm
from tests.servers.aws.ec2 import PROFILE, REGION, Ec2World, Refusal, connect_to, ec2_server

VM = BastionVm(
    name="shared-bastion",
    root_url="s3://bucket/shared-bastion",
    zone=f"{REGION}a",
    identity=PROFILE,
)


@pytest.fixture
def world() -> Iterator[Ec2World]:
    """Provide a region; moto has the images that Amazon publishes."""
    with ec2_server() as made:
        yield made


def vm(world: Ec2World, **changes: Any) -> Ec2Vm:
    """Return a bastion's VM there."""
    described = replace(VM, **changes)
    return Ec2Vm(described, connect_to(world)(REGION), Ticking(world))


class Ticking(VirtualClock):
    """A clock on which the region's time passes with every wait."""

    def __init__(self, world: Ec2World) -> None:
        super().__init__()
        self._world = world

    def sleep(self, seconds: float) -> None:
        """See `Clock`."""
        super().sleep(seconds)
        self._world.tick()


def test_it_is_made_stopped_started_and_deleted(world: Ec2World) -> None:
    """Its state is EC2's; a second one of its name is refused with what to do."""
    made = vm(world)
    assert made.state() is None
    made.create()
    with pytest.raises(ConflictError, match="there is a VM shared-bastion already"):
        made.create()
    world.tick()
    assert made.state() == "running"
    made.stop()
    assert made.state() == "stopped"
    made.start()
    world.tick()
    assert made.state() == "running"
    made.delete()
    world.tick()
    assert made.state() is None
    with pytest.raises(NotFoundError, match="no VM shared-bastion in the region of us-east-1a"):
        made.start()


def test_an_answer_that_is_lost_makes_no_second_one(world: Ec2World) -> None:
    """The same request is repeated, and EC2 recognizes it before any list shows the VM."""
    world.lost, world.lag = 1, 100
    vm(world).create()
    assert len(world.alive()) == 1


def test_a_command_that_is_repeated_makes_no_second_one(world: Ec2World) -> None:
    """If EC2 answers nothing for long, the outcome is unknown, and the error says what to do."""
    world.lost, world.lag = 1000, 1000
    with pytest.raises(ProviderUnavailableError) as unknown:
        vm(world).create()
    assert unknown.value.hint == (
        "run the same command again: a VM that was created after all is not created twice"
    )
    world.lost = 0
    vm(world).create()
    assert len(world.alive()) == 1


def test_a_deleted_one_is_made_again_by_the_same_command(world: Ec2World) -> None:
    """EC2 remembers the request of a VM for a day after its end."""
    for _ in range(3):
        vm(world).create()
        assert len(world.alive()) == 1
        vm(world).delete()
        world.tick()


def test_an_upgrade_brings_the_newest_script(world: Ec2World) -> None:
    """The user data are replaced while it is stopped, and it starts again."""
    vm(world, digest="old", wheel="wheels/old", quota_url="s3://private/quota.toml").create()
    world.tick()
    now = vm(world, image="123456789012.dkr.ecr.us-east-1.amazonaws.com/bastion:v2").upgrade()
    assert now.quota_url == "s3://private/quota.toml"
    client = connect_to(world)(REGION)
    (made,) = client.describe_instances()["Reservations"][0]["Instances"]
    kept = client.describe_instance_attribute(InstanceId=made["InstanceId"], Attribute="userData")
    assert b"bastion:v2" in base64.b64decode(kept["UserData"]["Value"])
    assert made["MetadataOptions"]["HttpTokens"] == "required"


def test_an_upgrade_of_a_vm_of_another_bucket_leaves_it_on(world: Ec2World) -> None:
    """It is refused before the VM is stopped."""
    vm(world).create()
    world.tick()
    with pytest.raises(SpecError, match="serves s3://bucket/shared-bastion, not s3://other/x"):
        vm(world, root_url="s3://other/x").upgrade()
    assert vm(world).state() == "running"


def test_an_upgrade_that_is_refused_leaves_it_on(world: Ec2World) -> None:
    """The script can only be replaced while the VM is off, when its bastion cannot lead."""
    made = vm(world)
    made.create()
    world.tick()
    world.refusals["ModifyInstanceAttribute"] = Refusal("UnauthorizedOperation", status=403)
    with pytest.raises(ProviderRefusedError, match="upgrade shared-bastion: UnauthorizedOperation"):
        made.upgrade()
    world.tick()
    assert made.state() == "running"
