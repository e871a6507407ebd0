"""
The request to EC2: a batch of a pool's machines as one request. Pure.

The request creates all instances of the batch or none. An instance terminates when it shuts down,
and its disks are deleted with it. Its metadata server answers only requests with a session token.

Source: botocore's description of `RunInstances`, against which a test checks every request;
docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html for the interfaces.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bastion.machine import Pool
from bastion.provider.aws.batch import Batch, tags_of
from bastion.provider.aws.ec2_pool import (
    EFA_INTERFACES,
    YES,
    extra_tags,
    image_of,
    named_image,
    type_of,
    wants_efa,
    words,
)
from bastion.provider.boot import user_data
from bastion.value import value

MAX_USER_DATA = 16384
"""Longest user data. Source: botocore's description of `RunInstances`."""

Json = dict[str, Any]


@value
class Image:
    """What a new instance boots."""

    id: str
    root_device: str
    kept_disks: tuple[str, ...] = ()
    """Devices of its other volumes that would outlive their instance and keep incurring costs."""


def image_from(said: Mapping[str, Any]) -> Image:
    """Read one image from an answer."""
    root_device = said.get("RootDeviceName") or "/dev/sda1"
    disks = {each["DeviceName"]: each["Ebs"] for each in _volumes(said)}
    kept = (device for device, ebs in disks.items() if not ebs.get("DeleteOnTermination"))
    return Image(
        id=said["ImageId"],
        root_device=root_device,
        kept_disks=tuple(sorted(set(kept) - {root_device})),
    )


def run_request(
    pool: Pool,
    batch: Batch,
    *,
    bucket: str,
    token: str,
    zone: str,
    image: Image,
    subnet: str,
    script: str,
) -> Json:
    """
    Return the arguments of `RunInstances` for `batch`.

    Args:
        pool: Its fields and options have passed `problems`.
        batch: The machines.
        bucket: The bucket's own name, for tags.
        token: The client token.
        zone: Where they are created.
        image: What they boot.
        subnet: Where the instances get their addresses; empty for the zone's default.
        script: The start-up script.

    Raises:
        ProviderRefusedError: The script is too long, or the batch has too many gaps.
    """
    tags = tags_of(bucket, batch) | extra_tags(pool)  # users can set `Name`, but not our keys
    kinds = ["instance", "volume", "network-interface"]
    if pool.terms == "spot":
        kinds.append("spot-instances-request")
    request: Json = {
        "ClientToken": token,
        "MinCount": len(batch.indices),
        "MaxCount": len(batch.indices),
        "ImageId": image.id,
        "InstanceType": type_of(pool),
        "UserData": user_data(script, most=MAX_USER_DATA, cloud="EC2"),
        "Placement": {"AvailabilityZone": zone},
        "BlockDeviceMappings": _disks(pool, image),
        "InstanceInitiatedShutdownBehavior": "terminate",
        "IamInstanceProfile": {
            "Arn" if pool.identity.startswith("arn:") else "Name": pool.identity
        },
        "MetadataOptions": {
            "HttpEndpoint": "enabled",
            "HttpTokens": "required",
            "HttpPutResponseHopLimit": 1,
        },
        "TagSpecifications": [
            {
                "ResourceType": kind,
                "Tags": [{"Key": key, "Value": tags[key]} for key in sorted(tags)],
            }
            for kind in kinds
        ],
        **_network(pool, subnet),
        **_terms(pool),
    }
    if group := pool.options.get("placement_group", ""):
        request["Placement"]["GroupName"] = group
    if key := pool.options.get("key_name", ""):
        request["KeyName"] = key
    return request


def image_query(pool: Pool) -> Json:
    """Return the arguments of `DescribeImages` that find the pool's image."""
    image = image_of(pool)
    named = named_image(image)
    if named is None:
        return {"ImageIds": [image]}
    owner, pattern = named
    return {
        "Owners": [owner],
        "Filters": [
            {"Name": "name", "Values": [pattern]},
            {"Name": "state", "Values": ["available"]},
        ],
    }


def subnet_query(pool: Pool, zone: str) -> Json | None:
    """Return the arguments of `DescribeSubnets` for the pool's network; None if none are needed."""
    networks = words(pool.network)
    filters = [{"Name": "availability-zone", "Values": [zone]}]
    if not networks:
        if not wants_efa(pool):
            return None
        filters.append({"Name": "default-for-az", "Values": ["true"]})
    elif networks[0].startswith("vpc-"):
        filters.append({"Name": "vpc-id", "Values": list(networks)})
    else:
        filters.append({"Name": "subnet-id", "Values": list(networks)})
    return {"Filters": filters}


def own_filters(bucket: str, pool: str, *, seq: int | None = None) -> list[Json]:
    """Return the `DescribeInstances` filters for a bucket's pool, or for one of its commits."""
    wanted = {"bastion": bucket, "pool": pool} | ({} if seq is None else {"commit": str(seq)})
    return [{"Name": f"tag:{key}", "Values": [text]} for key, text in wanted.items()]


def _volumes(said: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [each for each in said.get("BlockDeviceMappings", ()) if "Ebs" in each]


def _disks(pool: Pool, image: Image) -> list[Json]:
    """
    Return the root disk, and the image's other volumes, which are deleted with the instance.

    Source: EC2 User Guide, "Add block device mappings to Amazon EC2 instance": the mappings of a
    request are merged with those of the image.
    """
    ends: Json = {"DeleteOnTermination": True}
    others: list[Json] = [{"DeviceName": each, "Ebs": ends} for each in image.kept_disks]
    return [{"DeviceName": image.root_device, "Ebs": _disk(pool)}, *others]


def _disk(pool: Pool) -> Json:
    disk: Json = {"VolumeType": "gp3", "Encrypted": True, "DeleteOnTermination": True}
    if pool.disk_gib:
        disk["VolumeSize"] = pool.disk_gib
    if key := pool.options.get("kms_key", ""):
        disk["KmsKeyId"] = key
    return disk


def _network(pool: Pool, subnet: str) -> Json:
    groups = list(words(pool.options.get("security_groups", "")))
    if wants_efa(pool):
        return {"NetworkInterfaces": _interfaces(EFA_INTERFACES[type_of(pool)], subnet, groups)}
    found: Json = {"SubnetId": subnet} if subnet else {}
    return found | ({"SecurityGroupIds": groups} if groups else {})


def _interfaces(cards: int, subnet: str, groups: list[str]) -> list[Json]:
    """
    Return one interface for IP, and one for EFA only on each network card.

    A machine then takes one address of its subnet, not one per card.
    """
    places = [
        (0, 0, "interface"),
        (0, 1, "efa-only"),
        *((i, 0, "efa-only") for i in range(1, cards)),
    ]
    return [
        {
            "NetworkCardIndex": card,
            "DeviceIndex": device,
            "InterfaceType": kind,
            "DeleteOnTermination": True,
            "SubnetId": subnet,
            **({"Groups": groups} if groups else {}),
        }
        for card, device, kind in places
    ]


def _terms(pool: Pool) -> Json:
    if pool.terms == "spot":
        spot: Json = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
        if price := pool.options.get("max_price", ""):
            spot["MaxPrice"] = price
        return {"InstanceMarketOptions": {"MarketType": "spot", "SpotOptions": spot}}
    if pool.terms == "on_demand":
        return {}
    if not pool.reservation:
        preference = {"CapacityReservationPreference": "capacity-reservations-only"}
        return {"CapacityReservationSpecification": preference}
    field = (
        "CapacityReservationResourceGroupArn"
        if pool.reservation.startswith("arn:")
        else "CapacityReservationId"
    )
    found: Json = {
        "CapacityReservationSpecification": {"CapacityReservationTarget": {field: pool.reservation}}
    }
    if pool.options.get("capacity_block") == YES:
        found["InstanceMarketOptions"] = {"MarketType": "capacity-block"}
    return found
