"""
The request to Compute Engine: a pool as a description of VMs. Pure.

Source: compute.v1.json (`Instance`, `InstanceProperties`, `BulkInsertInstanceResource`);
cloud.google.com/compute/docs/gpus/create-vm-with-gpus for what each family of machines requires.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from bastion.catalog import lookup
from bastion.errors import SpecError
from bastion.machine import Pool
from bastion.provider.boot import OPTIONS as BOOT_OPTIONS

OPTIONS = (
    "project",
    "machine_type",
    "subnetwork",
    "external_ip",
    "disk_type",
    "placement_policy",
    "preemption_notice",
    *BOOT_OPTIONS,
)
"""Allowed keys of a pool's `options`."""
DEFAULT_IMAGE = "projects/debian-cloud/global/images/family/debian-12"
SCOPE = "https://www.googleapis.com/auth/cloud-platform"
"""A VM's permissions are those of its service account; Google advises restricting them there."""
_N1 = re.compile(r"(n1-standard-\d+)-(t4|v100)-(\d+)")
"""Our name for an N1 with accelerators -> Google's name for it, and what is attached."""
_ATTACHED = {"t4": "nvidia-tesla-t4", "v100": "nvidia-tesla-v100"}
_LEAST_DISK_GIB = 10
NOTICE_ATTRIBUTE = "bastion-preemption-notice-s"
"""Metadata key of a VM: its agent reads how many seconds ahead a preemption is announced."""
_NOTICES = {"120s": 120}
"""The only notice before the usual 30 s that Compute Engine accepts."""
_YES, _NO = "true", "false"
ZONE = re.compile(r"[a-z]+-[a-z]+\d+-[a-z][a-z0-9]*")
ACCOUNT = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")

Json = dict[str, Any]


def problems(pool: Pool) -> tuple[str, ...]:
    """Return what is wrong with a pool of VMs; each problem begins with its field."""
    return (
        *shape_problems(pool),
        *_image_problems(pool),
        *_notice_problems(pool),
        *common_problems(pool, OPTIONS),
    )


def shape_problems(pool: Pool) -> list[str]:
    """Return what is wrong with the shape of a pool of VMs."""
    machine_type = pool.options.get("machine_type", "")
    if not pool.instance_type:
        return (
            []
            if machine_type
            else ["instance_type: missing; say one, or resources and options.machine_type"]
        )
    if machine_type:
        return ["options.machine_type: instance_type says it; leave one out"]
    try:
        known = lookup(pool.instance_type)
    except SpecError as error:
        return list(error.problems)
    if known.provider != "gce":
        return [f"instance_type: {pool.instance_type} is of provider {known.provider}, not gce"]
    return []


def _image_problems(pool: Pool) -> list[str]:
    if not pool.instance_type or pool.image:
        return []
    return [
        f"image: missing; {pool.instance_type} needs one with NVIDIA's driver, such as"
        " projects/PROJECT/global/images/family/FAMILY"
    ]


def _notice_problems(pool: Pool) -> list[str]:
    notice = pool.options.get("preemption_notice", "")
    if notice and notice not in _NOTICES:
        return [f"options.preemption_notice: {notice!r} must be {' or '.join(_NOTICES)}"]
    if notice and pool.terms != "spot":
        return [f"options.preemption_notice: only with terms = 'spot', not {pool.terms!r}"]
    return []


def common_problems(pool: Pool, options: Sequence[str]) -> list[str]:
    """Return what is wrong with fields that all pools of Google's machines have."""
    wrong = [
        f"zones: {zone!r} is not a zone of Google's, such as us-central1-a"
        for zone in pool.zones
        if not ZONE.fullmatch(zone)
    ]
    if pool.terms == "reserved" and not pool.reservation:
        wrong.append("reservation: missing; terms = 'reserved' needs its name")
    if pool.reservation and pool.terms != "reserved":
        wrong.append(f"reservation: only with terms = 'reserved', not {pool.terms!r}")
    if 0 < pool.disk_gib < _LEAST_DISK_GIB:
        wrong.append(f"disk: {pool.disk_gib}GiB is less than {_LEAST_DISK_GIB}GiB")
    if pool.identity and not ACCOUNT.fullmatch(pool.identity):
        wrong.append(f"identity: {pool.identity!r} is not a service account's e-mail address")
    if pool.options.get("external_ip", _YES) not in (_YES, _NO):
        wrong.append(f"options.external_ip: must be {_YES} or {_NO}")
    wrong += [
        f"options.{name}: unknown; a pool of provider {pool.provider} takes {', '.join(options)}"
        for name in pool.options
        if name not in options
    ]
    return wrong


def has_external_ip(pool: Pool) -> bool:
    """Whether machines of `pool` get an address that is reachable from the internet."""
    return pool.options.get("external_ip", _YES) == _YES


def region_of(zone: str) -> str:
    """Return the region of a zone."""
    return zone.rpartition("-")[0]


def in_project(kind: str, name: str) -> str:
    """Return `name` as a path below a project, unless it already is one."""
    return name if "/" in name else f"{kind}/{name}"


def properties(pool: Pool, *, zone: str, labels: Mapping[str, str], script: str) -> Json:
    """Return the `InstanceProperties` of VMs of `pool`; they name types without their zone."""
    machine_type, accelerators = _shape(pool)
    made: Json = {
        "machineType": machine_type,
        "description": f"a machine of Bastion's pool {pool.name}",
        "disks": [_disk(pool)],
        "networkInterfaces": [_network(pool, region_of(zone))],
        "scheduling": _scheduling(pool, has_accelerators=bool(pool.instance_type)),
        "serviceAccounts": [{"email": pool.identity or "default", "scopes": [SCOPE]}],
        "labels": dict(labels),
        "metadata": {"items": [{"key": "startup-script", "value": script}]},
    }
    if accelerators:
        made["guestAccelerators"] = accelerators
    if notice_s := _NOTICES.get(pool.options.get("preemption_notice", "")):
        made["scheduling"]["preemptionNoticeDuration"] = {"seconds": str(notice_s)}
        made["metadata"]["items"].append({"key": NOTICE_ATTRIBUTE, "value": str(notice_s)})
    if pool.tags:
        made["tags"] = {"items": list(pool.tags)}
    if pool.reservation:
        made["reservationAffinity"] = {
            "consumeReservationType": "SPECIFIC_RESERVATION",
            "key": "compute.googleapis.com/reservation-name",
            "values": [pool.reservation],
        }
    policy = pool.options.get("placement_policy", "")
    if policy:
        made["resourcePolicies"] = [policy]
    return made


def instance(made: Json, name: str, *, zone: str) -> Json:
    """Return the `Instance` called `name` with `properties`: it names types by their paths."""
    one = {**made, "name": name, "machineType": f"zones/{zone}/machineTypes/{made['machineType']}"}
    if "guestAccelerators" in made:
        one["guestAccelerators"] = [
            {**each, "acceleratorType": f"zones/{zone}/acceleratorTypes/{each['acceleratorType']}"}
            for each in made["guestAccelerators"]
        ]
    (disk,) = made["disks"]
    given = disk["initializeParams"]
    if "diskType" in given:
        kind = f"zones/{zone}/diskTypes/{given['diskType']}"
        one["disks"] = [{**disk, "initializeParams": {**given, "diskType": kind}}]
    if "resourcePolicies" in made:
        region = region_of(zone)
        one["resourcePolicies"] = [
            in_project(f"regions/{region}/resourcePolicies", each)
            for each in made["resourcePolicies"]
        ]
    return one


def bulk(made: Json, names: Sequence[str]) -> Json:
    """Return the request for all of `names` or none, with `properties`."""
    return {
        "count": str(len(names)),
        "minCount": str(len(names)),
        "instanceProperties": made,
        "perInstanceProperties": {name: {} for name in names},
    }


def _shape(pool: Pool) -> tuple[str, list[Json]]:
    """Return Google's name for the machine type, and the accelerators to attach, if any."""
    found = _N1.fullmatch(pool.instance_type)
    if found is None:
        # Accelerator-optimized machine families include their accelerators.
        return pool.instance_type or pool.options["machine_type"], []
    machine_type, kind, count = found.groups()
    return machine_type, [{"acceleratorType": _ATTACHED[kind], "acceleratorCount": int(count)}]


def _disk(pool: Pool) -> Json:
    given: Json = {"sourceImage": pool.image or DEFAULT_IMAGE}
    if pool.disk_gib:
        given["diskSizeGb"] = str(pool.disk_gib)
    if kind := pool.options.get("disk_type", ""):
        given["diskType"] = kind
    return {"boot": True, "autoDelete": True, "type": "PERSISTENT", "initializeParams": given}


def _network(pool: Pool, region: str) -> Json:
    interface: Json = {"network": in_project("global/networks", pool.network or "default")}
    if subnetwork := pool.options.get("subnetwork", ""):
        interface["subnetwork"] = in_project(f"regions/{region}/subnetworks", subnetwork)
    if has_external_ip(pool):
        interface["accessConfigs"] = [{"type": "ONE_TO_ONE_NAT", "name": "External NAT"}]
    return interface


def _scheduling(pool: Pool, *, has_accelerators: bool) -> Json:
    """Return the scheduling: accelerators rule out migration; a preempted spot VM is deleted."""
    if pool.terms == "spot":
        return {
            "provisioningModel": "SPOT",
            "instanceTerminationAction": "DELETE",
            "automaticRestart": False,
            "onHostMaintenance": "TERMINATE",
        }
    if has_accelerators:
        return {"automaticRestart": True, "onHostMaintenance": "TERMINATE"}
    return {"automaticRestart": True}
