"""Requests to EC2, checked against botocore's own description."""

from __future__ import annotations

from functools import cache
from typing import Any

import botocore.session
import pytest
from botocore.handlers import base64_encode_user_data
from botocore.validate import ParamValidator

from bastion.machine import Pool
from bastion.provider.aws.batch import batch_of
from bastion.provider.aws.ec2_request import (
    Image,
    image_from,
    image_query,
    own_filters,
    run_request,
    subnet_query,
)
from tests.bastion.provider.aws.pools import batch, pool

RESERVATION = "cr-0123456789abcdef0"
GROUP = "arn:aws:resource-groups:us-east-1:123456789012:group/mine"


@cache
def described() -> Any:
    """Return botocore's description of EC2."""
    return botocore.session.Session().get_service_model("ec2")


def valid(operation: str, request: dict[str, Any]) -> dict[str, Any]:
    """Return a request that fits its description; enums are checked too, which botocore omits."""
    base64_encode_user_data(request)  # as the client does before it checks a request
    shape = described().operation_model(operation).input_shape
    report = ParamValidator().validate(request, shape)
    assert not report.has_errors(), report.generate_report()
    _check_enums(request, shape, operation)
    return request


def _check_enums(value: Any, shape: Any, path: str) -> None:
    if shape.type_name == "structure":
        for name, inner in value.items():
            _check_enums(inner, shape.members[name], f"{path}.{name}")
    elif shape.type_name == "list":
        for inner in value:
            _check_enums(inner, shape.member, f"{path}[]")
    elif shape.type_name == "string" and shape.enum:
        assert value in shape.enum, f"{path}: {value}"


IMAGE = Image(id="ami-0123456789abcdef0", root_device="/dev/sda1")


def request(
    made: Pool,
    *,
    size: int = 1,
    subnet: str = "",
    script: str = "#!/bin/sh",
    image: Image = IMAGE,
) -> Any:
    return run_request(
        made,
        batch_of(batch(size)),
        bucket="bucket",
        token="token",
        zone="us-east-1a",
        image=image,
        subnet=subnet,
        script=script,
    )


POOLS: list[dict[str, Any]] = [
    {},
    {"terms": "spot", "options": {"max_price": "12.50"}},
    {"terms": "reserved"},
    {"terms": "reserved", "reservation": RESERVATION, "options": {"capacity_block": "true"}},
    {"terms": "reserved", "reservation": GROUP},
    {"disk_gib": 500, "options": {"kms_key": "alias/mine", "key_name": "ops"}},
    {"tags": ("team=vision",), "options": {"placement_group": "rack", "security_groups": "sg-1"}},
    {"options": {"efa": "true", "security_groups": "sg-1, sg-2"}},
    {"identity": "arn:aws:iam::123456789012:instance-profile/a"},
]


@pytest.mark.parametrize("changes", POOLS)
def test_a_request_fits_its_description(changes: dict[str, Any]) -> None:
    """Every kind of pool becomes a request that EC2's own description allows."""
    made = pool(**changes)
    valid("RunInstances", request(made, size=3, subnet="subnet-1"))
    valid("DescribeImages", image_query(made))
    query = subnet_query(made, "us-east-1a")
    if query is not None:
        valid("DescribeSubnets", query)


def test_a_batch_is_all_or_none() -> None:
    """The minimum count of a request is its maximum, and it is created in the machines' zone."""
    made = request(pool(), size=5)
    assert (made["MinCount"], made["MaxCount"]) == (5, 5)
    assert made["Placement"]["AvailabilityZone"] == "us-east-1a"


def test_nothing_outlives_its_instance() -> None:
    """A shutdown ends the instance; its encrypted disk and its interfaces end with it."""
    made = request(pool(disk_gib=500, options={"efa": "true"}), subnet="subnet-1")
    assert made["InstanceInitiatedShutdownBehavior"] == "terminate"
    (disk,) = made["BlockDeviceMappings"]
    assert disk == {
        "DeviceName": "/dev/sda1",
        "Ebs": {
            "VolumeType": "gp3",
            "Encrypted": True,
            "DeleteOnTermination": True,
            "VolumeSize": 500,
        },
    }
    assert all(each["DeleteOnTermination"] for each in made["NetworkInterfaces"])


def test_a_data_volume_of_an_image_ends_with_its_instance() -> None:
    """An image may keep its volumes: each instance would leave one that costs money."""
    ends, stays = {"DeleteOnTermination": True}, {"DeleteOnTermination": False}
    shown = {
        "ImageId": "ami-0123456789abcdef0",
        "RootDeviceName": "/dev/xvda",
        "BlockDeviceMappings": [
            {"DeviceName": "/dev/xvda", "Ebs": {"SnapshotId": "snap-1", **stays}},
            {"DeviceName": "/dev/sdg", "Ebs": {"SnapshotId": "snap-2", **ends}},
            {"DeviceName": "/dev/sdf", "Ebs": {"SnapshotId": "snap-3", **stays}},
            {"DeviceName": "/dev/sdh", "Ebs": {"SnapshotId": "snap-4"}},
            {"DeviceName": "/dev/sdb", "VirtualName": "ephemeral0"},
        ],
    }
    report = ParamValidator().validate(shown, described().shape_for("Image"))
    assert not report.has_errors(), report.generate_report()
    made = request(pool(), image=image_from(shown))
    root, *others = valid("RunInstances", made)["BlockDeviceMappings"]
    assert root["DeviceName"] == "/dev/xvda"
    assert root["Ebs"]["DeleteOnTermination"]
    assert others == [
        {"DeviceName": "/dev/sdf", "Ebs": {"DeleteOnTermination": True}},
        {"DeviceName": "/dev/sdh", "Ebs": {"DeleteOnTermination": True}},
    ]


def test_the_metadata_service_wants_a_session() -> None:
    """Only version 2 of the metadata service answers, and only on the instance itself."""
    assert request(pool())["MetadataOptions"] == {
        "HttpEndpoint": "enabled",
        "HttpTokens": "required",
        "HttpPutResponseHopLimit": 1,
    }


def test_all_that_is_made_carries_tags() -> None:
    """Instances, disks, interfaces and spot requests name bastion, pool, commit and machines."""
    made = request(pool(terms="spot", tags=("team=vision",)), size=3)
    found = {
        each["ResourceType"]: {tag["Key"]: tag["Value"] for tag in each["Tags"]}
        for each in made["TagSpecifications"]
    }
    assert set(found) == {"instance", "volume", "network-interface", "spot-instances-request"}
    for tags in found.values():
        assert tags == {
            "Name": "bastion-bucket-gpu-7",
            "bastion": "bucket",
            "pool": "gpu",
            "commit": "7",
            "machines": "0-2",
            "team": "vision",
        }


def test_a_name_that_the_pool_gives_is_kept() -> None:
    """The name is for people: machines are found by the other tags, which no pool may set."""
    (tags, *_) = [
        {tag["Key"]: tag["Value"] for tag in each["Tags"]}
        for each in request(pool(tags=("Name=vision training",)))["TagSpecifications"]
    ]
    assert (tags["Name"], tags["bastion"], tags["pool"]) == ("vision training", "bucket", "gpu")


def test_a_spot_instance_is_not_asked_for_again() -> None:
    """A spot instance that is interrupted ends, and its request with it."""
    assert request(pool(terms="spot"))["InstanceMarketOptions"] == {
        "MarketType": "spot",
        "SpotOptions": {
            "SpotInstanceType": "one-time",
            "InstanceInterruptionBehavior": "terminate",
        },
    }


def test_reserved_capacity_is_all_that_is_used() -> None:
    """Reserved machines never become on-demand ones, with or without a named reservation."""
    assert request(pool(terms="reserved"))["CapacityReservationSpecification"] == {
        "CapacityReservationPreference": "capacity-reservations-only"
    }
    made = request(
        pool(terms="reserved", reservation=RESERVATION, options={"capacity_block": "true"})
    )
    assert made["CapacityReservationSpecification"] == {
        "CapacityReservationTarget": {"CapacityReservationId": RESERVATION}
    }
    assert made["InstanceMarketOptions"] == {"MarketType": "capacity-block"}


@pytest.mark.parametrize(("kind", "cards"), [("p4d.24xlarge", 4), ("p5.48xlarge", 32)])
def test_efa_is_on_every_network_card(kind: str, cards: int) -> None:
    """A machine has one interface for IP and EFA on each card, with each index used once."""
    made = request(pool(instance_type=kind, options={"efa": "true"}), subnet="subnet-1")
    interfaces = made["NetworkInterfaces"]
    assert "SubnetId" not in made
    assert [each["InterfaceType"] for each in interfaces] == ["interface", *["efa-only"] * cards]
    places = {(each["NetworkCardIndex"], each["DeviceIndex"]) for each in interfaces}
    assert len(places) == cards + 1
    assert {card for card, _ in places} == set(range(cards))


def test_lists_ask_for_what_is_ours() -> None:
    """EC2 itself filters out other buckets and pools."""
    filters = own_filters("bucket", "gpu", seq=7)
    valid("DescribeInstances", {"Filters": filters, "MaxResults": 500})
    assert {each["Name"]: each["Values"] for each in filters} == {
        "tag:bastion": ["bucket"],
        "tag:pool": ["gpu"],
        "tag:commit": ["7"],
    }
