"""EC2's provider against an EC2 on loopback."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from bastion.errors import NoCapacityError, ProviderRefusedError, ProviderUnavailableError
from bastion.machine import Pool
from bastion.provider.aws.client import client
from bastion.provider.aws.ec2 import Ec2Provider
from tests.bastion.provider.aws.pools import NVIDIA, POOL, batch, pool
from tests.servers.aws.ec2 import (
    ACCOUNT,
    ZONES,
    Ec2World,
    Refusal,
    connect_to,
    ec2_server,
    user_data,
)


@pytest.fixture
def world() -> Iterator[Ec2World]:
    """Provide a region without instances."""
    with ec2_server() as made:
        made.image(NVIDIA)
        yield made


def provider(world: Ec2World, *, bucket: str = "bucket", of: Pool = POOL) -> Ec2Provider:
    return Ec2Provider(
        of,
        bucket=bucket,
        script=lambda _, name: f"#!/bin/sh\nname=$({name})\n",
        connect=connect_to(world),
    )


def states(of: Ec2Provider) -> dict[str, str]:
    return {listed.name: listed.state for listed in of.list()}


def test_a_batch_runs_once(world: Ec2World) -> None:
    """A batch is one request; each instance is one of its machines, in the requested zone."""
    mine = provider(world)
    mine.create(batch(3), POOL)
    mine.create(batch(3), POOL)
    assert states(mine) == dict.fromkeys(("gpu-7-0", "gpu-7-1", "gpu-7-2"), "creating")
    world.tick()
    assert states(mine) == dict.fromkeys(("gpu-7-0", "gpu-7-1", "gpu-7-2"), "running")
    assert world.calls.count("RunInstances") == 1
    assert {listed.zone for listed in mine.list()} == {ZONES[0]}
    assert all(listed.created_at for listed in mine.list())
    assert user_data(world.requests[0]).startswith(b"#!/bin/sh\nname=$(")


def test_a_batch_that_does_not_fit_makes_nothing(world: Ec2World) -> None:
    """If a zone has two of three, none is created; the other zone creates all."""
    world.stock = {ZONES[0]: 2}
    mine = provider(world)
    with pytest.raises(NoCapacityError, match=r"InsufficientInstanceCapacity.*us-east-1a"):
        mine.create(batch(3), POOL)
    assert world.alive() == ()
    mine.create(batch(3, zone=ZONES[1]), POOL)
    assert len(world.alive()) == 3


def test_a_zone_that_was_sold_out_is_tried_again(world: Ec2World) -> None:
    """After a stockout, the same machines can be created in the same zone."""
    world.stock = {ZONES[0]: 0}
    mine = provider(world)
    with pytest.raises(NoCapacityError):
        mine.create(batch(3), POOL)
    world.stock = {}
    mine.create(batch(3), POOL)
    assert len(world.alive()) == 3


@pytest.mark.parametrize("lag", [0, 3])
def test_a_create_whose_answer_is_lost_is_made_once(world: Ec2World, lag: int) -> None:
    """A create without an answer can be repeated safely, even if the list lags."""
    world.lost, world.lag = 1, lag
    mine = provider(world)
    with pytest.raises(ProviderUnavailableError):
        mine.create(batch(3), POOL)
    mine.create(batch(3), POOL)
    provider(world).create(batch(3), POOL)  # a restarted bastion
    assert len(world.alive()) == 3
    for _ in range(lag):
        world.tick()
    assert set(states(mine)) == {"gpu-7-0", "gpu-7-1", "gpu-7-2"}


def test_a_create_that_was_never_done_is_repeated(world: Ec2World) -> None:
    """A create that was neither done nor answered is done by the next one."""
    world.dropped = 1
    mine = provider(world)
    with pytest.raises(ProviderUnavailableError):
        mine.create(batch(2), POOL)
    assert world.alive() == ()
    mine.create(batch(2), POOL)
    assert len(world.alive()) == 2


def test_part_of_a_batch_in_doubt_is_not_made_again(world: Ec2World) -> None:
    """A batch in doubt with an unwanted machine stays in doubt until it is listed."""
    world.lost, world.lag = 1, 2
    mine = provider(world)
    with pytest.raises(ProviderUnavailableError):
        mine.create(batch(3), POOL)
    with pytest.raises(ProviderUnavailableError, match="may have been carried out"):
        mine.create(batch(3)[:2], POOL)
    world.tick()
    world.tick()
    mine.create(batch(3)[:2], POOL)
    assert len(world.alive()) == 3
    mine.delete("gpu-7-2")
    assert len(world.alive()) == 2


def test_an_image_that_came_out_between_two_tries_makes_nothing_twice(world: Ec2World) -> None:
    """A newer image of the same name changes the request, but no second batch is created."""
    world.lost, world.lag = 1, 2
    mine = provider(world)
    with pytest.raises(ProviderUnavailableError):
        mine.create(batch(2), POOL)
    world.image(NVIDIA.replace("20260101", "20260202"), made_at="2026-02-02")
    with pytest.raises(ProviderUnavailableError, match="may have been carried out"):
        mine.create(batch(2), POOL)
    assert len(world.alive()) == 2


def test_a_half_visible_batch_is_left_alone(world: Ec2World) -> None:
    """If only part of a batch is listed yet, the rest is not created again."""
    mine = provider(world)
    mine.create(batch(3), POOL)
    first, *others = world.instances()
    for each in others:
        world.hide(each)
    assert set(states(mine)) == {"gpu-7-0"}
    mine.create(batch(3), POOL)
    mine.create(batch(3)[1:], POOL)
    assert world.calls.count("RunInstances") == 1
    assert first in world.alive()


def test_a_machine_that_is_over_is_never_made_again(world: Ec2World) -> None:
    """A name is used up, even when EC2 no longer lists the instance that had it."""
    mine = provider(world)
    mine.create(batch(1), POOL)
    mine.delete("gpu-7-0")
    mine.create(batch(1), POOL)
    world.tick()
    assert states(mine) == {"gpu-7-0": "gone"}
    mine.create(batch(1), POOL)
    world.forget_the_dead()
    assert states(mine) == {}
    mine.create(batch(1), POOL)
    assert world.alive() == ()


def test_a_stopped_instance_is_started(world: Ec2World) -> None:
    """An instance that was stopped manually is listed as stopped, and started by a create."""
    mine = provider(world)
    mine.create(batch(2), POOL)
    world.tick()
    world.stop(world.instances()[0])
    mine.create(batch(2), POOL)
    assert "StartInstances" not in world.calls  # it is still stopping
    world.tick()
    assert states(mine)["gpu-7-0"] == "stopped"
    mine.create(batch(2), POOL)
    world.tick()
    assert set(states(mine).values()) == {"running"}
    assert len(world.alive()) == 2


def test_a_delete_is_confirmed_by_the_list(world: Ec2World) -> None:
    """A machine is gone when EC2 says so, not when it was requested; others are left alone."""
    world.stays = True
    mine = provider(world)
    mine.create(batch(2), POOL)
    mine.delete("gpu-7-0")
    for _ in range(3):
        world.tick()
        mine.delete("gpu-7-0")
        assert states(mine) == {"gpu-7-0": "deleting", "gpu-7-1": "running"}
    world.stays = False
    world.tick()
    assert states(mine) == {"gpu-7-0": "gone", "gpu-7-1": "running"}
    assert world.calls.count("TerminateInstances") == 1


def test_a_machine_that_is_not_listed_yet_is_deleted_once_it_is(world: Ec2World) -> None:
    """A delete before the list shows it changes nothing; the next one deletes."""
    world.lag = 2
    mine = provider(world)
    mine.create(batch(1), POOL)
    mine.delete("gpu-7-0")
    assert len(world.alive()) == 1
    world.tick()
    world.tick()
    mine.delete("gpu-7-0")
    assert world.alive() == ()


def test_a_spot_instance_that_is_taken_is_gone_in_amazons_words(world: Ec2World) -> None:
    """EC2's message about the end of an instance is in the list."""
    spot = pool(terms="spot")
    mine = provider(world, of=spot)
    mine.create(batch(2), spot)
    world.tick()
    world.interrupt(world.instances()[1])
    found = {listed.name: listed for listed in mine.list()}
    assert found["gpu-7-0"].state == "running"
    assert found["gpu-7-1"].state == "gone"
    assert "Spot instance termination" in found["gpu-7-1"].text


def test_a_list_has_every_page(world: Ec2World) -> None:
    """A list that EC2 divides into pages is complete, or raises."""
    mine = provider(world)
    for seq in range(7):
        mine.create(batch(2, seq=seq), POOL)
    world.page = 3
    assert len(mine.list()) == 14
    assert world.calls[-3:] == ["DescribeInstances"] * 3
    world.fail_after("DescribeInstances", 1)
    with pytest.raises(ProviderUnavailableError):
        mine.list()


def test_a_bucket_sees_only_its_own(world: Ec2World) -> None:
    """Machines of the same name of another bucket or pool are neither listed nor deleted."""
    mine, theirs = provider(world), provider(world, bucket="other")
    mine.create(batch(1), POOL)
    theirs.create(batch(1), POOL)
    assert len(world.alive()) == 2
    theirs.delete("gpu-7-0")
    assert states(mine) == {"gpu-7-0": "creating"}
    assert provider(world, of=replace(POOL, name="gp")).list() == ()


def test_the_account_is_told(world: Ec2World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The instances and, if a list has none, Amazon's own answer show it."""
    mine = provider(world)
    mine.create(batch(1), POOL)
    assert [listed.account for listed in mine.list()] == [f"account {ACCOUNT}"]
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", world.endpoint)
    assert mine.account() == f"account {ACCOUNT}"
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:9")
    assert provider(world).account() == "", "no answer is none"


def test_a_copy_made_by_hand_is_told_and_deleted_with_it(world: Ec2World) -> None:
    """An instance that was launched with the tags of another is no second machine."""
    mine = provider(world)
    mine.create(batch(1), POOL)
    (first,) = world.instances()
    connect_to(world)("us-east-1").run_instances(
        MinCount=1,
        MaxCount=1,
        ImageId=first.image_id,
        InstanceType=first.instance_type,
        Placement={"AvailabilityZone": ZONES[0]},
        TagSpecifications=[
            {
                "ResourceType": "instance",
                "Tags": [{"Key": tag["key"], "Value": tag["value"]} for tag in first.get_tags()],
            }
        ],
    )
    (listed,) = mine.list()
    assert listed.odd.startswith("2 instances carry its tags: i-")
    mine.delete("gpu-7-0")
    assert world.alive() == ()


@pytest.mark.parametrize(
    "removed", [["bastion"], ["Name", "bastion", "pool", "commit", "machines"]]
)
def test_an_instance_whose_tags_are_removed_is_told_and_no_leak(
    world: Ec2World, removed: list[str]
) -> None:
    """It runs on, so it is not gone; it is ended with its machine, and forgotten after that."""
    mine = provider(world)
    mine.create(batch(2), POOL)
    world.tick()
    assert states(mine) == {"gpu-7-0": "running", "gpu-7-1": "running"}
    first, _ = world.instances()
    world.backend.delete_tags([first.id], dict.fromkeys(removed))
    for _ in range(2):
        told, other = mine.list()
        assert (told.name, told.state, other.odd) == ("gpu-7-0", "running", "")
    assert told.odd.endswith(
        f"aws ec2 create-tags --resources {first.id} --tags Key=bastion,Value=bucket"
        " Key=pool,Value=gpu Key=commit,Value=7 Key=machines,Value=0-1"
    )
    assert states(provider(world)) == {"gpu-7-1": "running"}, "one that starts anew does not know"
    mine.delete("gpu-7-0")
    world.tick()
    assert [each.id for each in world.alive()] == [world.instances()[1].id]
    assert states(mine) == {"gpu-7-0": "gone", "gpu-7-1": "running"}
    world.forget_the_dead()
    assert states(mine) == {"gpu-7-1": "running"}


def test_an_instance_with_strange_tags_is_left_alone(world: Ec2World) -> None:
    """What cannot be one of our machines is not listed, and so never deleted."""
    mine = provider(world)
    mine.create(batch(1), POOL)
    world.instances()[0].add_tags({"machines": "seven"})
    assert mine.list() == ()


def test_a_wrong_setting_makes_nothing(world: Ec2World) -> None:
    """An image, a profile or a subnet that does not exist is refused in EC2's words."""
    for changes, told in (
        ({"image": "ami-00000000000000000"}, "ami-00000000000000000"),
        ({"image": "self/nothing-*"}, "EC2 has no 'self/nothing-\\*' in us-east-1"),
        ({"identity": "nobody"}, "nobody"),
        ({"network": "vpc-00000000000000000"}, "has no subnet in us-east-1a"),
    ):
        wrong = pool(**changes)
        with pytest.raises(ProviderRefusedError, match=told):
            provider(world, of=wrong).create(batch(1), wrong)
    assert world.alive() == ()


@pytest.mark.parametrize(
    ("refusal", "error"),
    [
        (Refusal("UnauthorizedOperation", status=403), ProviderRefusedError),
        (Refusal("RequestExpired"), ProviderRefusedError),
        (Refusal("ExpiredToken"), ProviderRefusedError),
        (Refusal("RequestLimitExceeded", status=503), ProviderUnavailableError),
        (Refusal("InternalError", status=500), ProviderUnavailableError),
    ],
)
def test_a_refused_call_changes_nothing(
    world: Ec2World, refusal: Refusal, error: type[Exception]
) -> None:
    """Permissions, credentials and rate limits have different errors, and can be fixed."""
    mine = provider(world)
    mine.create(batch(1, seq=1), POOL)
    world.refusals["*"] = refusal
    for act in (mine.list, lambda: mine.create(batch(2), POOL), lambda: mine.delete("gpu-1-0")):
        with pytest.raises(error):
            act()
    world.refusals.clear()
    assert len(world.alive()) == 1
    mine.create(batch(2), POOL)
    assert len(world.alive()) == 3


def test_a_limit_of_the_account_is_a_limit(world: Ec2World) -> None:
    """A quota of the account is reported as such, with EC2's own words."""
    world.refusals["RunInstances"] = Refusal("VcpuLimitExceeded", "you asked for 192 vCPU")
    with pytest.raises(NoCapacityError, match="192 vCPU") as caught:
        provider(world).create(batch(1), POOL)
    assert caught.value.is_limit


def test_the_newest_image_of_a_name_is_taken(world: Ec2World) -> None:
    """Of several images of a name and owner the newest is used, and none of another owner."""
    newest = world.image(NVIDIA.replace("20260101", "20260303"), made_at="2026-03-03")
    world.image(NVIDIA.replace("20260101", "20260202"), made_at="2026-02-02")
    world.image(NVIDIA.replace("20260101", "20260404"), owner="self", made_at="2026-04-04")
    provider(world).create(batch(1), POOL)
    assert world.requests[0]["ImageId"] == newest


def test_the_subnet_is_of_the_zone(world: Ec2World) -> None:
    """In a VPC, the subnet in the machine's zone with most free addresses is used."""
    vpc = world.backend.create_vpc("10.0.0.0/16")
    wanted = world.backend.create_subnet(vpc.id, "10.0.0.0/20", availability_zone=ZONES[1])
    world.backend.create_subnet(vpc.id, "10.0.64.0/28", availability_zone=ZONES[1])
    world.backend.create_subnet(vpc.id, "10.0.128.0/20", availability_zone=ZONES[0])
    mine = pool(network=vpc.id)
    provider(world, of=mine).create(batch(2, zone=ZONES[1]), mine)
    assert world.requests[0]["SubnetId"] == wanted.id
    with pytest.raises(NoCapacityError, match="free addresses"):
        provider(world, of=mine).create(batch(5000, zone=ZONES[1], seq=8), mine)


def test_efa_takes_the_default_subnet(world: Ec2World) -> None:
    """Without a named network, EFA interfaces are created in the zone's default subnet."""
    fast = pool(instance_type="p4d.24xlarge", options={"efa": "true"})
    provider(world, of=fast).create(batch(2), fast)
    (request,) = world.requests
    assert request["NetworkInterface.1.SubnetId"].startswith("subnet-")
    assert request["NetworkInterface.5.InterfaceType"] == "efa-only"
    assert len(world.alive()) == 2


def test_a_zone_of_another_region_has_no_capacity(world: Ec2World) -> None:
    """A machine in a zone that left the pool with its region is not created elsewhere."""
    with pytest.raises(NoCapacityError, match="no zone 'eu-west-1a' any more"):
        provider(world).create(batch(1, zone="eu-west-1a"), POOL)


def test_an_endpoint_that_is_away_is_out_of_reach(world: Ec2World) -> None:
    """A failed connection, and an answer that is not XML, leave the outcome unknown."""
    away = Ec2World(endpoint="http://127.0.0.1:9")
    with pytest.raises(ProviderUnavailableError, match="refuses connections"):
        provider(away).list()
    world.refusals["*"] = Refusal("", status=500)
    world.garbled = True
    with pytest.raises(ProviderUnavailableError):
        provider(world).list()


def test_a_region_that_does_not_answer_keeps_no_delete_from_the_others(world: Ec2World) -> None:
    """The machine is deleted in its own region, and the one that is away is reported."""
    provider(world).create(batch(1), POOL)
    world.tick()
    away = connect_to(Ec2World(endpoint="http://127.0.0.1:9"))
    both = Ec2Provider(
        replace(POOL, zones=("eu-west-1a", *POOL.zones)),
        bucket="bucket",
        script=lambda *_: "",
        connect=lambda region: (away if region == "eu-west-1" else connect_to(world))(region),
    )
    with pytest.raises(ProviderUnavailableError, match="refuses connections"):
        both.delete("gpu-7-0")
    assert states(provider(world))["gpu-7-0"] == "deleting"


def test_missing_credentials_are_refused(world: Ec2World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of a bastion without credentials says which command to run."""
    mine = provider(world)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(ProviderRefusedError, match="credentials") as caught:
        mine.list()
    assert "get-caller-identity" in caught.value.hint


def test_calls_are_sent_once_and_have_a_deadline(world: Ec2World) -> None:
    """The client itself neither repeats a call nor waits forever."""
    config = client("us-east-1").meta.config
    assert config.retries["total_max_attempts"] == 1
    assert 0 < config.connect_timeout < config.read_timeout <= 60


def test_the_sdk_is_loaded_by_the_first_call() -> None:
    """Creating the provider loads no SDK, so a bastion without EC2 pays nothing."""
    line = (
        "import sys; from bastion.machine import Pool; from quota.amounts import Amounts;"
        " from bastion.provider.aws.ec2 import Ec2Provider;"
        " pool = Pool(name='gpu', provider='ec2', resources=Amounts({}), max_machines=1);"
        " Ec2Provider(pool, bucket='b', script=lambda *_: '');"
        " assert 'boto3' not in sys.modules and 'botocore' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", line], check=True)


def test_rights_are_told_without_making_anything(world: Ec2World) -> None:
    """EC2 says what it would answer: nothing is created or ended, and refusals are reported."""
    mine = provider(world)
    assert mine.lacking() == ()
    assert world.instances() == ()
    mine.create(batch(1), POOL)
    world.tick()
    assert mine.lacking() == ()
    forbidden = Refusal("UnauthorizedOperation", "You are not authorized", status=403)
    world.refusals["TerminateInstances"] = forbidden
    world.refusals["RunInstances"] = forbidden
    create, delete = mine.lacking()
    assert create.startswith("create: ") and "UnauthorizedOperation" in create
    assert delete.startswith("delete: ")
    world.refusals.clear()
    assert states(mine) == {"gpu-7-0": "running"}
