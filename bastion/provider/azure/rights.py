"""
What the bastion's identity needs in Azure to create and delete VMs, and what it lacks. Pure.

Source: Azure RBAC, "Azure permissions for Compute", "... for Networking", and "Understand Azure
role definitions".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

ACTIONS = (
    "Microsoft.Compute/virtualMachines/read",
    "Microsoft.Compute/virtualMachines/write",
    "Microsoft.Compute/virtualMachines/delete",
    "Microsoft.Compute/virtualMachines/start/action",
    "Microsoft.Compute/virtualMachines/instanceView/read",
    "Microsoft.Compute/locations/operations/read",
    "Microsoft.Compute/disks/write",
    "Microsoft.Compute/disks/delete",
    "Microsoft.Network/networkInterfaces/read",
    "Microsoft.Network/networkInterfaces/write",
    "Microsoft.Network/networkInterfaces/join/action",
    "Microsoft.Network/networkInterfaces/delete",
)
"""Needed in the resource group of the VMs, by each pool."""
BESIDE = (
    "Microsoft.Network/virtualNetworks/subnets/join/action",
    "Microsoft.Network/networkSecurityGroups/join/action",
    "Microsoft.Network/publicIPAddresses/read",
    "Microsoft.Network/publicIPAddresses/write",
    "Microsoft.Network/publicIPAddresses/join/action",
    "Microsoft.Network/publicIPAddresses/delete",
    "Microsoft.ManagedIdentity/userAssignedIdentities/assign/action",
    "Microsoft.Compute/capacityReservationGroups/read",
    "Microsoft.Compute/capacityReservationGroups/deploy/action",
    "Microsoft.Compute/images/read",
    "Microsoft.Compute/galleries/images/versions/read",
)
"""Needed on what a pool names, which may be in other resource groups."""


def lacking(permissions: Iterable[Mapping[str, Any]], group: str) -> tuple[str, ...]:
    """
    Return a line for each of `ACTIONS` that none of `permissions` allows.

    Args:
        permissions: Those of the identity in the resource group, as Azure lists them.
        group: The id of the resource group.
    """
    held = list(permissions)
    missing = [each for each in ACTIONS if not any(_allows(p, each) for p in held)]
    return tuple(f"lacks {each} in {group}" for each in missing)


def _allows(permission: Mapping[str, Any], action: str) -> bool:
    return _matches(permission.get("actions", ()), action) and not _matches(
        permission.get("notActions", ()), action
    )


def _matches(patterns: Sequence[str], action: str) -> bool:
    return any(
        re.fullmatch(re.escape(each).replace(r"\*", ".*"), action, re.IGNORECASE)
        for each in patterns
    )
