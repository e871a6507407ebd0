"""
The fields of a VM that Azure publishes, as far as Bastion sends them; no other field is allowed.

Source: Azure/azure-rest-api-specs, Microsoft.Compute, ComputeRP.json of 2024-07-01, definition
`VirtualMachine` and those that it refers to. Names, kinds, choices and limits are those of the
specification; what is not listed is also valid there.
"""

from __future__ import annotations

import base64
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

Json = dict[str, Any]

_TEXT: Json = {"type": "string", "minLength": 1}
_FLAG: Json = {"type": "boolean"}
_MAX_CUSTOM_DATA = 65535
_DISKS = (
    *("Standard_LRS", "Premium_LRS", "StandardSSD_LRS", "UltraSSD_LRS", "Premium_ZRS"),
    *("StandardSSD_ZRS", "PremiumV2_LRS"),
)


def _one_of(*choices: str) -> Json:
    return {"enum": list(choices)}


def _list(each: Json) -> Json:
    return {"type": "array", "items": each, "minItems": 1}


def _object(*required: str, **fields: Json) -> Json:
    return {
        "type": "object",
        "properties": fields,
        "required": list(required),
        "additionalProperties": False,
    }


_DELETE = _one_of("Delete", "Detach")
_RESOURCE = _object("id", id={"type": "string", "pattern": "^/subscriptions/"})
_ADDRESS = _object(
    "name",
    name=_TEXT,
    sku=_object(name=_one_of("Basic", "Standard"), tier=_one_of("Regional", "Global")),
    properties=_object(deleteOption=_DELETE, publicIPAllocationMethod=_one_of("Dynamic", "Static")),
)
_IP = _object(
    "name",
    name=_TEXT,
    properties=_object(subnet=_RESOURCE, primary=_FLAG, publicIPAddressConfiguration=_ADDRESS),
)
_INTERFACE = _object(
    "name",
    name=_TEXT,
    properties=_object(
        "ipConfigurations",
        primary=_FLAG,
        deleteOption=_DELETE,
        ipConfigurations=_list(_IP),
        networkSecurityGroup=_RESOURCE,
    ),
)
_STORAGE = _object(
    imageReference=_object(publisher=_TEXT, offer=_TEXT, sku=_TEXT, version=_TEXT, id=_TEXT),
    osDisk=_object(
        "createOption",
        createOption=_one_of("FromImage", "Empty", "Attach", "Copy", "Restore"),
        deleteOption=_DELETE,
        caching=_one_of("None", "ReadOnly", "ReadWrite"),
        diskSizeGB={"type": "integer", "maximum": 1023 * 32},
        managedDisk=_object(storageAccountType=_one_of(*_DISKS)),
    ),
)
_SYSTEM = _object(
    computerName={"type": "string", "maxLength": 64},
    adminUsername=_TEXT,
    customData=_TEXT,
    linuxConfiguration=_object(
        disablePasswordAuthentication=_FLAG,
        ssh=_object(publicKeys=_list(_object(path=_TEXT, keyData=_TEXT))),
    ),
)
_VM = _object(
    "location",
    location=_TEXT,
    tags={"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 50},
    zones={**_list(_TEXT), "maxItems": 1},
    identity=_object(
        type=_one_of("SystemAssigned", "UserAssigned", "SystemAssigned, UserAssigned", "None"),
        userAssignedIdentities={
            "type": "object",
            "propertyNames": {"pattern": "^/subscriptions/"},
            "additionalProperties": _object(),
        },
    ),
    properties=_object(
        hardwareProfile=_object(vmSize=_TEXT),
        storageProfile=_STORAGE,
        osProfile=_SYSTEM,
        networkProfile=_object(
            networkApiVersion=_one_of("2020-11-01"),
            networkInterfaceConfigurations=_list(_INTERFACE),
        ),
        priority=_one_of("Regular", "Low", "Spot"),
        evictionPolicy=_one_of("Deallocate", "Delete"),
        billingProfile=_object(maxPrice={"type": "number"}),
        capacityReservation=_object(capacityReservationGroup=_RESOURCE),
    ),
)


def problems(body: Json) -> list[str]:
    """Return what is wrong with the description of a VM."""
    found = [
        f"{'.'.join(map(str, each.absolute_path))}: {each.message[:300]}"
        for each in _validator().iter_errors(body)
    ]
    data = body.get("properties", {}).get("osProfile", {}).get("customData", "")
    if len(base64.b64decode(data, validate=True)) > _MAX_CUSTOM_DATA:
        found.append("customData: more than 65535 bytes")
    return found


@cache
def _validator() -> Draft202012Validator:
    return Draft202012Validator(_VM)
