"""The possible settings of a pool of EC2 machines."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import moto
import pytest

from bastion.provider.aws.ec2_pool import EFA_INTERFACES, image_of, problems, region_of
from quota.amounts import Amounts
from tests.bastion.provider.aws.pools import pool

CPU = {"instance_type": "", "resources": Amounts({"cpu": 16})}
UBUNTU = "099720109477/ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-*"


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"terms": "spot", "options": {"max_price": "12.50"}},
        {"terms": "reserved"},
        {"terms": "reserved", "reservation": "cr-0123456789abcdef0"},
        {
            "terms": "reserved",
            "reservation": "cr-0123456789abcdef0",
            "options": {"capacity_block": "true"},
        },
        {"network": "vpc-0123456789abcdef0", "options": {"efa": "true"}},
        {"network": "subnet-0123456789abcdef0, subnet-0123456789abcdef1"},
        {"image": "ami-0123456789abcdef0", "tags": ("team=vision", "cost-centre=")},
        {"image": "self/trainers-*", "identity": "arn:aws:iam::123456789012:instance-profile/a"},
        {**CPU, "image": UBUNTU, "options": {"machine_type": "m7i.4xlarge"}},
    ],
)
def test_a_good_pool_has_no_problem(changes: dict[str, Any]) -> None:
    """Everything that the guide shows is accepted."""
    assert problems(pool(**changes)) == ()


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"zones": ("us-east-1",)}, "zones: 'us-east-1' is not a zone"),
        ({"zones": ("",)}, "zones: '' is not a zone"),
        ({"zones": ("us-east-1a", "us-west-2a")}, "zones: of several regions (us-east-1, us-west"),
        ({"instance_type": ""}, "instance_type: missing"),
        ({"options": {"machine_type": "p5.48xlarge"}}, "instance_type: options.machine_type says"),
        ({"instance_type": "a3-highgpu-8g"}, "instance_type: a3-highgpu-8g is of provider gce"),
        ({"instance_type": "p3.2xlarge"}, "image: missing; p3.2xlarge needs one"),
        ({**CPU, "options": {"machine_type": "m7i.large"}}, "image: missing; m7i.large needs one"),
        ({"image": "ubuntu"}, "image: 'ubuntu' is neither"),
        ({"reservation": "cr-0123456789abcdef0"}, "reservation: only with terms = 'reserved'"),
        ({"terms": "reserved", "reservation": "mine"}, "reservation: 'mine' is neither"),
        ({"options": {"capacity_block": "true"}}, "reservation: missing"),
        ({"options": {"capacity_block": "yes"}}, "options.capacity_block: must be true or false"),
        ({"options": {"max_price": "1.0"}}, "options.max_price: only with terms = 'spot'"),
        (
            {"terms": "spot", "options": {"max_price": "$1"}},
            "options.max_price: '$1' is not a price",
        ),
        ({"network": "default"}, "network: 'default' is neither"),
        ({"identity": ""}, "identity: missing"),
        ({"identity": "a b"}, "identity: 'a b' is not a name"),
        ({"tags": ("team",)}, "tags: 'team' must be KEY=VALUE"),
        ({"tags": ("bastion=x",)}, "tags: 'bastion=x' must be KEY=VALUE"),
        ({"tags": ("aws:x=y",)}, "tags: 'aws:x=y' must be"),
        ({"options": {"security_groups": "default"}}, "options.security_groups: 'default' is no"),
        ({"options": {"spot": "yes"}}, "options.spot: unknown; a pool of provider ec2 takes"),
        (
            {"instance_type": "g6.4xlarge", "options": {"efa": "true"}},
            "options.efa: g6.4xlarge has no EFA interface",
        ),
    ],
)
def test_a_wrong_pool_is_told(changes: dict[str, Any], problem: str) -> None:
    """The error begins with its field and comes before anything is created."""
    (found,) = problems(pool(**changes))
    assert found.startswith(problem)


def test_every_problem_is_told_at_once() -> None:
    """A pool with several errors has all of them reported."""
    wrong = pool(zones=("x",), identity="", image="x", network="x", tags=("x",))
    assert len(problems(wrong)) == 5


@pytest.mark.parametrize(
    ("zone", "region"),
    [
        ("us-east-1a", "us-east-1"),
        ("us-gov-west-1b", "us-gov-west-1"),
        ("ap-southeast-4c", "ap-southeast-4"),
        ("us-west-2-lax-1a", "us-west-2"),
        ("us-east-1", ""),
        ("us-central1-a", ""),
    ],
)
def test_a_zone_has_a_region(zone: str, region: str) -> None:
    """The region is read from the zone; local zones belong to their region."""
    assert region_of(zone) == region


def test_the_default_image_has_the_driver() -> None:
    """GPUs and Amazon's own chips boot the image with their driver."""
    assert "Nvidia" in image_of(pool())
    assert "Neuron" in image_of(pool(instance_type="trn1.32xlarge"))
    assert "Neuron" in image_of(pool(instance_type="inf2.xlarge"))
    assert image_of(pool(image="ami-0123456789abcdef0")) == "ami-0123456789abcdef0"


def test_efa_interfaces_are_as_ec2_describes() -> None:
    """The number of EFA interfaces is EC2's own, for every type in the catalog."""
    from bastion.catalog import _EC2

    text = (Path(moto.__file__).parent / "ec2/resources/instance_types.json.gz").read_bytes()
    described = json.loads(gzip.decompress(text))
    found = {
        name: described[name]["NetworkInfo"]["EfaInfo"]["MaximumEfaInterfaces"]
        for name, *_ in _EC2
        if "EfaInfo" in described.get(name, {}).get("NetworkInfo", {})
    }
    assert found == EFA_INTERFACES
