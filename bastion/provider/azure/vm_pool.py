"""
What a pool of Azure VMs can specify, checked before anything is created. Pure.

Source: "Naming rules and restrictions for Azure resources"; "Use tags to organize your Azure
resources"; Compute API, `VirtualMachine`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from bastion.catalog import lookup
from bastion.errors import SpecError
from bastion.machine import Pool
from bastion.provider.boot.script import OPTIONS as BOOT_OPTIONS
from quota.choice import choose

OPTIONS = (
    *BOOT_OPTIONS,
    "subscription",
    "resource_group",
    "machine_type",
    "ssh_key",
    "security_group",
    "external_ip",
    "disk_type",
    "max_price",
    "endpoint_url",
)
"""Allowed keys of a pool's `options`."""
DISK_TYPES = ("StandardSSD_LRS", "StandardSSD_ZRS", "Premium_LRS", "Premium_ZRS", "Standard_LRS")
"""Those that can hold an operating system. The first is the default, and fits all sizes."""
YES, NO = "true", "false"
DEFAULT_IMAGE = "Canonical:ubuntu-24_04-lts:server:latest"

_ZONE = re.compile(r"([a-z][a-z0-9]{1,49})(?:-([1-9]))?", re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_GROUP = re.compile(r"[\w().-]{0,89}[\w()-]", re.ASCII)
_URN = re.compile(r"[\w.-]+:[\w.-]+:[\w.-]+:[\w.-]+", re.ASCII)
_NAME = re.compile(r"[\w.-]{1,128}", re.ASCII)
_ID = re.compile(r"/subscriptions/[^/]+/resourceGroups/[^/]+/providers/[^?#\s]+", re.ASCII)
_SSH_KEY = re.compile(r"(ssh-rsa|ssh-ed25519) [A-Za-z0-9+/=]+( .*)?", re.ASCII)
_SERVER = re.compile(r"https?://[^/\s]+/?", re.ASCII)
_PRICE = re.compile(r"\d{1,4}(\.\d{1,5})?", re.ASCII)
_TAG = re.compile(r"(?!(?:bastion|pool|commit)=)[^=<>%&\\?/]{1,512}=.{0,256}", re.IGNORECASE)
_MOST_TAGS = 40
"""Azure allows 50 for each resource; some are ours."""


def problems(pool: Pool) -> tuple[str, ...]:
    """Return what is wrong with a pool of Azure VMs; each problem begins with its field."""
    return (
        *_shape_problems(pool),
        *_place_problems(pool),
        *_terms_problems(pool),
        *_image_problems(pool),
        *_identity_problems(pool),
        *_tag_problems(pool),
        *_option_problems(pool),
    )


def place_of(zone: str) -> tuple[str, str]:
    """
    Return the region and the number of a zone, such as (westeurope, 1) for westeurope-1.

    The number is empty for a whole region, and the region for what is not a zone.
    """
    found = _ZONE.fullmatch(zone)
    return (found[1], found[2] or "") if found else ("", "")


def size_of(pool: Pool) -> str:
    """Return Azure's name for the size of the pool's machines."""
    return pool.instance_type or pool.options.get("machine_type", "")


def id_of(pool: Pool, kind: str, name: str) -> str:
    """Return the id of a resource, which is in the pool's resource group unless `name` is an id."""
    if name.startswith("/"):
        return name
    options = pool.options
    group = f"/subscriptions/{options['subscription']}/resourceGroups/{options['resource_group']}"
    return f"{group}/providers/{kind}/{name}"


def subnet_of(pool: Pool) -> str:
    """Return the id of the subnet of the pool's machines."""
    name, _, subnet = pool.network.partition("/")
    if not name:
        return pool.network
    return id_of(pool, "Microsoft.Network/virtualNetworks", f"{name}/subnets/{subnet}")


def image_of(pool: Pool) -> Mapping[str, str]:
    """Return the pool's image as Azure's `ImageReference`."""
    image = pool.image or DEFAULT_IMAGE
    if image.startswith("/"):
        return {"id": image}
    return dict(zip(("publisher", "offer", "sku", "version"), image.split(":"), strict=True))


def extra_tags(pool: Pool) -> dict[str, str]:
    """Return the additional tags that the pool specifies, by key."""
    return {key: text for key, _, text in (tag.partition("=") for tag in pool.tags)}


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
    if known.provider != "azure_vm":
        name = pool.instance_type
        return [f"instance_type: {name} is of provider {known.provider}, not azure_vm"]
    return []


def _place_problems(pool: Pool) -> Iterator[str]:
    for zone in pool.zones:
        if not place_of(zone)[0]:
            yield (
                f"zones: {zone!r} is neither a region of Azure's nor a zone of one, such as"
                " westeurope or westeurope-1"
            )
    regions = sorted({place_of(zone)[0] for zone in pool.zones} - {""})
    if len(regions) > 1:
        yield f"zones: of several regions ({', '.join(regions)}); a pool has one region"
    parts = pool.network.split("/")
    is_named = len(parts) == 2 and all(map(_NAME.fullmatch, parts))
    if not pool.network:
        yield "network: missing; name a subnet, as NETWORK/SUBNET or by its id"
    elif not is_named and not (_ID.fullmatch(pool.network) and "/subnets/" in pool.network):
        yield f"network: {pool.network!r} is neither NETWORK/SUBNET nor the id of a subnet"


def _terms_problems(pool: Pool) -> Iterator[str]:
    if pool.terms == "reserved" and not pool.reservation:
        yield "reservation: missing; terms = 'reserved' needs a capacity reservation group"
    if pool.reservation and pool.terms != "reserved":
        yield f"reservation: only with terms = 'reserved', not {pool.terms!r}"
    if pool.reservation and not _is_name_or_id(pool.reservation):
        yield (
            f"reservation: {pool.reservation!r} is not a name or id of a capacity reservation group"
        )
    price = pool.options.get("max_price", "")
    if price and pool.terms != "spot":
        yield f"options.max_price: only with terms = 'spot', not {pool.terms!r}"
    if price and not _PRICE.fullmatch(price):
        yield f"options.max_price: {price!r} is not a price in dollars per hour, such as 12.50"


def _image_problems(pool: Pool) -> Iterator[str]:
    if pool.instance_type and not pool.image:
        yield (
            f"image: missing; {pool.instance_type} needs one with NVIDIA's driver, such as"
            " microsoft-dsvm:ubuntu-hpc:2204:latest"
        )
    elif pool.image and not (_URN.fullmatch(pool.image) or _ID.fullmatch(pool.image)):
        yield f"image: {pool.image!r} is neither PUBLISHER:OFFER:SKU:VERSION nor the id of an image"


def _identity_problems(pool: Pool) -> Iterator[str]:
    if not pool.identity:
        yield "identity: missing; name a user-assigned managed identity that may use the bucket"
    elif not _is_name_or_id(pool.identity):
        yield (
            f"identity: {pool.identity!r} is not a name or id of a user-assigned managed identity"
        )


def _tag_problems(pool: Pool) -> Iterator[str]:
    for tag in pool.tags:
        if not _TAG.fullmatch(tag):
            yield (
                f"tags: {tag!r} must be KEY=VALUE, not one of Bastion's own keys, and KEY has none"
                " of <>%&\\?/"
            )
    if len(pool.tags) > _MOST_TAGS:
        yield f"tags: {len(pool.tags)} are more than {_MOST_TAGS}"


def _option_problems(pool: Pool) -> Iterator[str]:
    options = pool.options
    for name in options:
        if name not in OPTIONS:
            yield (
                f"options.{name}: unknown; a pool of provider azure_vm takes {', '.join(OPTIONS)}"
            )
    subscription, group = options.get("subscription", ""), options.get("resource_group", "")
    if not _UUID.fullmatch(subscription):
        yield f"options.subscription: {subscription!r} is not the id of a subscription"
    if not _GROUP.fullmatch(group):
        yield f"options.resource_group: {group!r} is not the name of a resource group"
    if not _SSH_KEY.fullmatch(options.get("ssh_key", "")):
        yield (
            "options.ssh_key: must be a public key, ssh-rsa or ssh-ed25519, which Azure requires"
            " for each VM"
        )
    if not _is_name_or_id(options.get("security_group", "any")):
        yield (
            f"options.security_group: {options['security_group']!r} is not a name or id of a"
            " network security group"
        )
    if options.get("external_ip", NO) not in (YES, NO):
        yield f"options.external_ip: must be {YES} or {NO}"
    kind = options.get("disk_type", DISK_TYPES[0])
    if kind not in DISK_TYPES:
        yield f"options.disk_type: {kind!r} is unknown, {choose(kind, DISK_TYPES)}"
    server = options.get("endpoint_url", "")
    if server and not _SERVER.fullmatch(server):
        yield (
            f"options.endpoint_url: {server!r} is not the URL of a server, such as"
            " https://management.usgovcloudapi.net"
        )


def _is_name_or_id(text: str) -> bool:
    return bool(_NAME.fullmatch(text) or _ID.fullmatch(text))
