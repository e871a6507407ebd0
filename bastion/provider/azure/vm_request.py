"""
The request to Azure: a machine of a pool as the description of a VM. Pure.

The VM's disk, network interface and public address are part of the request, and are deleted with
the VM.

Source: Compute API 2024-07-01, `VirtualMachine`, against whose fields a test checks each request.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from bastion.machine import Pool
from bastion.provider.azure.vm_pool import (
    DISK_TYPES,
    NO,
    YES,
    extra_tags,
    id_of,
    image_of,
    place_of,
    size_of,
    subnet_of,
)
from bastion.provider.boot import user_data

VERSION = "2024-07-01"
"""The version of the Compute API."""
VMS = "/providers/Microsoft.Compute/virtualMachines"
MAX_CUSTOM_DATA = 65535
"""Longest custom data, before base64. Source: `OSProfile.customData`."""
ADMIN = "bastion"
"""The user of a VM who can log in with the pool's `ssh_key`."""
_NETWORK_VERSION = "2020-11-01"
"""Source: `NetworkProfile.networkApiVersion`."""

Json = dict[str, Any]


def vm_request(pool: Pool, name: str, *, zone: str, labels: Mapping[str, str], script: str) -> Json:
    """
    Return the description of the VM `name`.

    Args:
        pool: Its fields and options have passed `problems`.
        name: Azure's name for the VM.
        zone: Where it is created.
        labels: The tags by which people find it; users can add others.
        script: The start-up script.

    Raises:
        ProviderRefusedError: The script is too long.
    """
    region, number = place_of(zone)
    identity = id_of(pool, "Microsoft.ManagedIdentity/userAssignedIdentities", pool.identity)
    made: Json = {
        "location": region,
        "tags": extra_tags(pool) | dict(labels),
        "identity": {"type": "UserAssigned", "userAssignedIdentities": {identity: {}}},
        "properties": {
            "hardwareProfile": {"vmSize": size_of(pool)},
            "storageProfile": {"imageReference": dict(image_of(pool)), "osDisk": _disk(pool)},
            "osProfile": _system(pool, name, script),
            "networkProfile": {
                "networkApiVersion": _NETWORK_VERSION,
                "networkInterfaceConfigurations": [_interface(pool, name)],
            },
            **_terms(pool),
        },
    }
    if number:
        made["zones"] = [number]
    return made


def _disk(pool: Pool) -> Json:
    kind = pool.options.get("disk_type", DISK_TYPES[0])
    disk: Json = {
        "createOption": "FromImage",
        "deleteOption": "Delete",
        "caching": "ReadWrite",
        "managedDisk": {"storageAccountType": kind},
    }
    if pool.disk_gib:
        disk["diskSizeGB"] = pool.disk_gib
    return disk


def _system(pool: Pool, name: str, script: str) -> Json:
    data = user_data(script, most=MAX_CUSTOM_DATA, cloud="Azure")
    key = {
        "path": f"/home/{ADMIN}/.ssh/authorized_keys",
        "keyData": pool.options["ssh_key"],
    }
    return {
        "computerName": name,
        "adminUsername": ADMIN,
        "customData": base64.b64encode(data).decode(),
        "linuxConfiguration": {
            "disablePasswordAuthentication": True,
            "ssh": {"publicKeys": [key]},
        },
    }


def _interface(pool: Pool, name: str) -> Json:
    address: Json = {"subnet": {"id": subnet_of(pool)}, "primary": True}
    if pool.options.get("external_ip", NO) == YES:
        address["publicIPAddressConfiguration"] = {
            "name": f"{name}-ip",
            "sku": {"name": "Standard"},
            "properties": {"deleteOption": "Delete", "publicIPAllocationMethod": "Static"},
        }
    properties: Json = {
        "primary": True,
        "deleteOption": "Delete",
        "ipConfigurations": [{"name": "main", "properties": address}],
    }
    if group := pool.options.get("security_group", ""):
        kind = "Microsoft.Network/networkSecurityGroups"
        properties["networkSecurityGroup"] = {"id": id_of(pool, kind, group)}
    return {"name": f"{name}-nic", "properties": properties}


def _terms(pool: Pool) -> Json:
    if pool.terms == "spot":
        # -1: never evicted for its price, at most the price on demand is paid.
        price = float(pool.options.get("max_price", "") or -1)
        return {
            "priority": "Spot",
            "evictionPolicy": "Delete",
            "billingProfile": {"maxPrice": price},
        }
    if pool.terms == "reserved":
        group = id_of(pool, "Microsoft.Compute/capacityReservationGroups", pool.reservation)
        return {"capacityReservation": {"capacityReservationGroup": {"id": group}}}
    return {}
