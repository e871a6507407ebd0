"""A pool that Azure would refuse is refused when it is written."""

from __future__ import annotations

from typing import Any

import pytest

from bastion.provider.open import problems_of
from tests.bastion.provider.azure.rig import pool

GOOD: dict[str, dict[str, Any]] = {
    "plain": {},
    "region": {"zones": ("swedencentral",)},
    "spot": {"terms": "spot", "options": {"max_price": "12.50"}},
    "reserved": {"terms": "reserved", "reservation": "held"},
    "cpu": {"instance_type": "", "image": "", "options": {"machine_type": "Standard_D4s_v5"}},
    "tags": {"tags": ("team=a", "empty=")},
    "cloud": {"options": {"endpoint_url": "https://management.usgovcloudapi.net"}},
    "ids": {
        "network": "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network"
        "/virtualNetworks/n/subnets/s",
        "identity": "/subscriptions/s/resourceGroups/g/providers/Microsoft.ManagedIdentity"
        "/userAssignedIdentities/i",
        "image": "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/images/i",
    },
}


@pytest.mark.parametrize("changes", GOOD.values(), ids=list(GOOD))
def test_a_pool_is_accepted(changes: dict[str, Any]) -> None:
    """These pools have no problem."""
    assert problems_of(pool(**changes)) == ()


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no-size": ({"instance_type": ""}, "instance_type: missing"),
    "two-sizes": ({"options": {"machine_type": "x"}}, "instance_type: options.machine_type"),
    "other-cloud": (
        {"instance_type": "p5.48xlarge"},
        "instance_type: p5.48xlarge is of provider ec2, not azure_vm",
    ),
    "unknown-size": ({"instance_type": "Standard_X"}, "instance_type: 'Standard_X' is not"),
    "zone": ({"zones": ("West Europe",)}, "zones: 'West Europe' is neither"),
    "regions": ({"zones": ("eastus-1", "westus-1")}, "zones: of several regions"),
    "no-network": ({"network": ""}, "network: missing"),
    "network": ({"network": "net"}, "network: 'net' is neither NETWORK/SUBNET"),
    "no-reservation": ({"terms": "reserved"}, "reservation: missing"),
    "reservation": ({"reservation": "held"}, "reservation: only with terms"),
    "price": ({"options": {"max_price": "1"}}, "options.max_price: only with terms"),
    "wrong-price": (
        {"terms": "spot", "options": {"max_price": "-1"}},
        "options.max_price: '-1' is not a price",
    ),
    "no-image": ({"image": ""}, "image: missing; Standard_ND96isr_H100_v5 needs one"),
    "image": ({"image": "ubuntu"}, "image: 'ubuntu' is neither"),
    "no-identity": ({"identity": ""}, "identity: missing"),
    "identity": ({"identity": "a b"}, "identity: 'a b' is not a name or id"),
    "tag": ({"tags": ("bastion=x",)}, "tags: 'bastion=x' must be KEY=VALUE"),
    "many-tags": ({"tags": tuple(f"t{n}=" for n in range(41))}, "tags: 41 are more than 40"),
    "unknown": ({"options": {"spot": "1"}}, "options.spot: unknown; a pool of provider azure_vm"),
    "subscription": ({"options": {"subscription": "mine"}}, "options.subscription: 'mine'"),
    "group": ({"options": {"resource_group": ""}}, "options.resource_group: ''"),
    "key": ({"options": {"ssh_key": "x"}}, "options.ssh_key: must be a public key"),
    "closed": ({"options": {"security_group": "a b"}}, "options.security_group: 'a b'"),
    "address": ({"options": {"external_ip": "yes"}}, "options.external_ip: must be true or"),
    "disk": ({"options": {"disk_type": "UltraSSD_LRS"}}, "options.disk_type: 'UltraSSD_LRS'"),
    "server": ({"options": {"endpoint_url": "azure"}}, "options.endpoint_url: 'azure'"),
}


@pytest.mark.parametrize(("changes", "problem"), BAD.values(), ids=list(BAD))
def test_a_pool_is_refused(changes: dict[str, Any], problem: str) -> None:
    """Each problem begins with its field."""
    (found,) = problems_of(pool(**changes))
    assert found.startswith(problem)
