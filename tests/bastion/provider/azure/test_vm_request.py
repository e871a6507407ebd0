"""A pool's machines as descriptions of VMs that fit the fields that Azure publishes."""

from __future__ import annotations

import base64
import gzip
import random
from typing import Any

import pytest

from bastion.errors import ProviderRefusedError
from bastion.machine import Pool
from bastion.provider.azure.vm_request import MAX_CUSTOM_DATA, vm_request
from tests.bastion.provider.azure.rig import POOL, pool, script
from tests.servers.azure.arm import GROUP, SUBSCRIPTION
from tests.servers.azure.schema import problems

PROVIDERS = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers"
OTHER = "/subscriptions/s/resourceGroups/other/providers"


def made(of: Pool = POOL, *, zone: str = "westeurope-1", text: str = "#!/bin/sh\n") -> Any:
    """Return a request that fits what Azure publishes."""
    request = vm_request(of, "vm", zone=zone, labels={"bastion": "b"}, script=text)
    assert problems(request) == []
    return request


def test_nothing_outlives_its_vm() -> None:
    """The disk, the interface and the public address are deleted with the VM."""
    request = made(pool(options={"external_ip": "true"}))["properties"]
    assert request["storageProfile"]["osDisk"]["deleteOption"] == "Delete"
    (interface,) = request["networkProfile"]["networkInterfaceConfigurations"]
    assert interface["properties"]["deleteOption"] == "Delete"
    (address,) = interface["properties"]["ipConfigurations"]
    public = address["properties"]["publicIPAddressConfiguration"]
    assert public["properties"]["deleteOption"] == "Delete"
    assert "publicIPAddressConfiguration" not in str(made())


@pytest.mark.parametrize(
    ("zone", "region", "zones"),
    [("westeurope-2", "westeurope", ["2"]), ("eastus2", "eastus2", None)],
    ids=["zone", "region"],
)
def test_a_zone_is_a_region_and_a_number(zone: str, region: str, zones: list[str] | None) -> None:
    """A whole region has no number."""
    request = made(zone=zone)
    assert request["location"] == region
    assert request.get("zones") == zones


def test_names_are_in_the_resource_group_and_ids_anywhere() -> None:
    """What a pool names is completed to an id."""
    request = made(pool(options={"security_group": "closed"}))
    identity = f"{PROVIDERS}/Microsoft.ManagedIdentity/userAssignedIdentities/bastion-gpu"
    assert request["identity"]["userAssignedIdentities"] == {identity: {}}
    assert f"{PROVIDERS}/Microsoft.Network/virtualNetworks/net/subnets/machines" in str(request)
    assert f"{PROVIDERS}/Microsoft.Network/networkSecurityGroups/closed" in str(request)
    subnet = f"{OTHER}/Microsoft.Network/virtualNetworks/n/subnets/s"
    image = f"{OTHER}/Microsoft.Compute/images/mine"
    request = made(pool(network=subnet, image=image))
    assert subnet in str(request)
    assert request["properties"]["storageProfile"]["imageReference"] == {"id": image}


def test_terms_are_azures() -> None:
    """A spot VM is deleted when it is evicted, and a reserved one has its reservation group."""
    assert "priority" not in made()["properties"]
    spot = made(pool(terms="spot"))["properties"]
    assert (spot["priority"], spot["evictionPolicy"]) == ("Spot", "Delete")
    assert spot["billingProfile"] == {"maxPrice": -1.0}
    capped = made(pool(terms="spot", options={"max_price": "12.5"}))["properties"]
    assert capped["billingProfile"] == {"maxPrice": 12.5}
    reserved = made(pool(terms="reserved", reservation="held"))["properties"]
    group = f"{PROVIDERS}/Microsoft.Compute/capacityReservationGroups/held"
    assert reserved["capacityReservation"] == {"capacityReservationGroup": {"id": group}}


def test_users_add_tags_but_not_ours() -> None:
    """A pool's tags and Bastion's own stand side by side."""
    assert made(pool(tags=("team=a", "cost=")))["tags"] == {
        "team": "a",
        "cost": "",
        "bastion": "b",
    }


def test_a_script_fits_into_custom_data() -> None:
    """The script of a real machine fits; a longer one is compressed, or refused."""
    text = script(POOL, "printf %s gpu-7-0")
    data = made(text=text)["properties"]["osProfile"]["customData"]
    assert base64.b64decode(data).decode() == text
    long = "#!/bin/sh\n" + "echo hello\n" * 20000
    packed = base64.b64decode(made(text=long)["properties"]["osProfile"]["customData"])
    assert gzip.decompress(packed).decode() == long
    noise = random.Random(1).randbytes(2 * MAX_CUSTOM_DATA).hex()
    with pytest.raises(ProviderRefusedError, match="Azure takes 65535"):
        made(text=noise)
