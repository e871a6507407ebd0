"""
What a pool of EC2 machines can specify, checked before anything is created. Pure.

Source: docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html for EFA interfaces;
docs.aws.amazon.com/dlami/latest/devguide/appendix-ami-release-notes.html for images.
"""

from __future__ import annotations

import re

from bastion.catalog import lookup
from bastion.errors import SpecError
from bastion.machine import Pool
from bastion.provider.boot.script import OPTIONS as BOOT_OPTIONS

OPTIONS = (
    *BOOT_OPTIONS,
    "machine_type",
    "security_groups",
    "placement_group",
    "efa",
    "capacity_block",
    "max_price",
    "kms_key",
    "key_name",
)
"""Allowed keys of a pool's `options`."""
YES, NO = "true", "false"

EFA_INTERFACES = {
    "p3dn.24xlarge": 1,
    "p4d.24xlarge": 4,
    "p4de.24xlarge": 4,
    "p5.4xlarge": 1,
    "p5.48xlarge": 32,
    "p5e.48xlarge": 32,
    "p5en.48xlarge": 16,
    "p6-b200.48xlarge": 8,
    "g5.8xlarge": 1,
    "g5.12xlarge": 1,
    "g5.16xlarge": 1,
    "g5.24xlarge": 1,
    "g5.48xlarge": 1,
    "g6.8xlarge": 1,
    "g6.12xlarge": 1,
    "g6.16xlarge": 1,
    "g6.24xlarge": 1,
    "g6.48xlarge": 1,
    "trn1.32xlarge": 8,
    "trn1n.32xlarge": 16,
}
"""Maximum number of EFA interfaces of an instance, by type; types that are missing have none."""

_NVIDIA = "amazon/Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 24.04) ????????"
_NEURON = "amazon/Deep Learning AMI Neuron (Ubuntu 24.04) ????????"
_OWN_DRIVER = frozenset({"v100"})
"""Too old for the driver in Amazon's current image."""
_NEURON_CHIPS = frozenset({"trainium", "inferentia2"})

_ZONE = re.compile(r"([a-z]+(?:-[a-z]+)+-\d+)(?:[a-z]|-[a-z0-9-]+[a-z])", re.ASCII)
_AMI = re.compile(r"ami-[0-9a-f]{8,17}", re.ASCII)
_NAMED_AMI = re.compile(r"(amazon|self|aws-marketplace|\d{12})/(.{3,128})", re.ASCII)
_VPC = re.compile(r"vpc-[0-9a-f]{8,17}", re.ASCII)
_SUBNET = re.compile(r"subnet-[0-9a-f]{8,17}", re.ASCII)
_GROUP = re.compile(r"sg-[0-9a-f]{8,17}", re.ASCII)
_PROFILE = re.compile(r"(arn:[a-z-]+:iam::\d{12}:instance-profile/)?[\w+=,.@/-]{1,512}", re.ASCII)
_RESERVATION = re.compile(r"cr-[0-9a-f]{8,17}|arn:[a-z-]+:resource-groups:.{1,500}", re.ASCII)
_PRICE = re.compile(r"\d{1,4}(\.\d{1,6})?", re.ASCII)
_MOST_TAGS = 40
"""Amazon allows 50 per instance; some are ours."""


def problems(pool: Pool) -> tuple[str, ...]:
    """Return what is wrong with a pool of EC2 machines; each problem begins with its field."""
    return (
        *_shape_problems(pool),
        *_place_problems(pool),
        *_terms_problems(pool),
        *_image_problems(pool),
        *_tag_problems(pool),
        *_option_problems(pool),
    )


def region_of(zone: str) -> str:
    """Return the region of a zone, such as us-east-1 for us-east-1a; empty if it is not a zone."""
    found = _ZONE.fullmatch(zone)
    return found[1] if found else ""


def type_of(pool: Pool) -> str:
    """Return EC2's name for the type of the pool's machines."""
    return pool.instance_type or pool.options.get("machine_type", "")


def image_of(pool: Pool) -> str:
    """Return the pool's image, or the default if it names none; empty if there is no default."""
    if pool.image or not pool.instance_type:
        return pool.image
    sorts = {name for name, _ in pool.resources.items()}
    if sorts & _OWN_DRIVER:
        return ""
    return _NEURON if sorts & _NEURON_CHIPS else _NVIDIA


def named_image(image: str) -> tuple[str, str] | None:
    """Return the owner and pattern of an image given by name; None if it is given by ID."""
    found = _NAMED_AMI.fullmatch(image)
    return (found[1], found[2]) if found else None


def words(text: str) -> tuple[str, ...]:
    """Return the parts of a list that are separated by commas or spaces."""
    return tuple(text.replace(",", " ").split())


def extra_tags(pool: Pool) -> dict[str, str]:
    """Return the additional tags that the pool specifies, by key."""
    return {key: text for key, _, text in (tag.partition("=") for tag in pool.tags)}


def wants_efa(pool: Pool) -> bool:
    """Whether the pool's machines get their EFA interfaces."""
    return pool.options.get("efa") == YES


def _shape_problems(pool: Pool) -> list[str]:
    machine_type = pool.options.get("machine_type", "")
    if bool(machine_type) == bool(pool.instance_type):
        return [
            "instance_type: options.machine_type says it too; leave one out"
            if machine_type
            else "instance_type: missing; name one, or resources and options.machine_type"
        ]
    if not pool.instance_type:
        return []
    try:
        known = lookup(pool.instance_type)
    except SpecError as error:
        return list(error.problems)
    if known.provider != "ec2":
        return [f"instance_type: {pool.instance_type} is of provider {known.provider}, not ec2"]
    return []


def _place_problems(pool: Pool) -> list[str]:
    wrong = [
        f"zones: {zone!r} is not a zone of Amazon's, such as us-east-1a"
        for zone in pool.zones
        if not region_of(zone)
    ]
    regions = sorted({region_of(zone) for zone in pool.zones} - {""})
    if len(regions) > 1:
        wrong.append(f"zones: of several regions ({', '.join(regions)}); a pool has one region")
    networks = words(pool.network)
    is_vpc = len(networks) == 1 and _VPC.fullmatch(networks[0])
    if networks and not is_vpc and not all(map(_SUBNET.fullmatch, networks)):
        wrong.append(f"network: {pool.network!r} is neither a vpc-... nor subnet-... of each zone")
    return wrong


def _terms_problems(pool: Pool) -> list[str]:
    wrong = []
    if pool.reservation and pool.terms != "reserved":
        wrong.append(f"reservation: only with terms = 'reserved', not {pool.terms!r}")
    if pool.reservation and not _RESERVATION.fullmatch(pool.reservation):
        wrong.append(
            f"reservation: {pool.reservation!r} is neither a cr-... nor the ARN of a resource group"
        )
    if pool.options.get("capacity_block") == YES and not pool.reservation:
        wrong.append("reservation: missing; name the capacity block's, with terms = 'reserved'")
    price = pool.options.get("max_price", "")
    if price and pool.terms != "spot":
        wrong.append(f"options.max_price: only with terms = 'spot', not {pool.terms!r}")
    if price and not _PRICE.fullmatch(price):
        wrong.append(
            f"options.max_price: {price!r} is not a price in dollars per hour, such as 12.50"
        )
    return wrong


def _image_problems(pool: Pool) -> list[str]:
    if type_of(pool) and not image_of(pool):
        return [
            f"image: missing; {type_of(pool)} needs one, by id or as OWNER/NAME,"
            " such as 099720109477/ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-*"
        ]
    if pool.image and not _AMI.fullmatch(pool.image) and named_image(pool.image) is None:
        return [
            f"image: {pool.image!r} is neither an ami-... nor OWNER/NAME with amazon, self or an"
            " account's twelve digits for its owner"
        ]
    return []


def _tag_problems(pool: Pool) -> list[str]:
    wrong = [
        f"tags: {tag!r} must be KEY=VALUE, not one of Bastion's own keys, and not begin with aws:"
        for tag in pool.tags
        if not re.fullmatch(r"(?!aws:|(?:bastion|pool|commit|machines)=)[^=]{1,127}=.{0,256}", tag)
    ]
    if len(pool.tags) > _MOST_TAGS:
        wrong.append(f"tags: {len(pool.tags)} are more than {_MOST_TAGS}")
    return wrong


def _option_problems(pool: Pool) -> list[str]:
    options = pool.options
    wrong = [
        f"options.{name}: unknown; a pool of provider ec2 takes {', '.join(OPTIONS)}"
        for name in options
        if name not in OPTIONS
    ]
    wrong += [
        f"options.{name}: must be {YES} or {NO}"
        for name in ("efa", "capacity_block")
        if options.get(name, NO) not in (YES, NO)
    ]
    if wants_efa(pool) and type_of(pool) not in EFA_INTERFACES:
        wrong.append(f"options.efa: {type_of(pool)} has no EFA interface")
    wrong += [
        f"options.security_groups: {group!r} is not an sg-..."
        for group in words(options.get("security_groups", ""))
        if not _GROUP.fullmatch(group)
    ]
    if not pool.identity:
        wrong.append("identity: missing; name an instance profile whose role may use the bucket")
    elif not _PROFILE.fullmatch(pool.identity):
        wrong.append(f"identity: {pool.identity!r} is not a name or ARN of an instance profile")
    return wrong
