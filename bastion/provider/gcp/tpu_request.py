"""
The request to Cloud TPU: a pool as a request for one slice. Pure.

Source: tpu.v2.json (`QueuedResource`, `Node`); cloud.google.com/tpu/docs/queued-resources;
cloud.google.com/tpu/docs/runtimes for the software of each version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bastion.catalog import InstanceType, lookup
from bastion.errors import SpecError
from bastion.machine import Pool
from bastion.provider.boot import OPTIONS as BOOT_OPTIONS
from bastion.provider.gcp.gce_request import SCOPE, common_problems, has_external_ip
from bastion.spec import seconds_of

OPTIONS = ("project", "subnetwork", "external_ip", "valid_for", *BOOT_OPTIONS)
"""Allowed keys of a pool's `options`."""

_RUNTIMES = {
    "v2": "tpu-ubuntu2204-base",
    "v3": "tpu-ubuntu2204-base",
    "v4": "tpu-ubuntu2204-base",
    "v5e": "v2-alpha-tpuv5-lite",
    "v5p": "v2-alpha-tpuv5",
    "v6e": "v2-alpha-tpuv6e",
}
"""The software that Google recommends for PyTorch and JAX, by version."""
_OTHER_NAMES = {"v5e": "v5litepod"}

Json = dict[str, Any]


def problems(pool: Pool) -> tuple[str, ...]:
    """Return what is wrong with a pool of slices; each problem begins with its field."""
    wrong = common_problems(pool, OPTIONS)
    if pool.disk_gib:
        wrong.append("disk: a TPU VM's disk has the size that Google gives it; leave it out")
    if valid_for := pool.options.get("valid_for", ""):
        try:
            seconds_of("options.valid_for", valid_for)
        except ValueError as error:
            wrong.append(str(error))
    if not pool.instance_type:
        return ("instance_type: missing; say a slice, such as tpu-v4-32", *wrong)
    try:
        known = lookup(pool.instance_type)
    except SpecError as error:
        return (*error.problems, *wrong)
    if known.provider != "gcp_tpu":
        kind = known.provider
        wrong.insert(0, f"instance_type: {pool.instance_type} is of provider {kind}, not gcp_tpu")
    return tuple(wrong)


def accelerator_type(known: InstanceType) -> str:
    """Return Google's name for a slice of the catalog, such as `v5litepod-16`."""
    ((version, units),) = known.resources.items()
    return f"{_OTHER_NAMES.get(version, version)}-{units}"


def runtime_version(pool: Pool) -> str:
    """Return the software of a slice of `pool`: its image, or Google's for that version."""
    ((version, _),) = lookup(pool.instance_type).resources.items()
    return pool.image or _RUNTIMES[version]


def queued_resource(
    pool: Pool, *, parent: str, node: str, labels: Mapping[str, str], script: str
) -> Json:
    """Return the request for one slice named `node` in `projects/<project>/locations/<zone>`."""
    made: Json = {
        "acceleratorType": accelerator_type(lookup(pool.instance_type)),
        "runtimeVersion": runtime_version(pool),
        "description": f"a slice of Bastion's pool {pool.name}",
        "labels": dict(labels),
        "metadata": {"startup-script": script},
        "networkConfig": _network(pool),
        "serviceAccount": {"email": pool.identity or "default", "scope": [SCOPE]},
    }
    if pool.tags:
        made["tags"] = list(pool.tags)
    asked: Json = {"tpu": {"nodeSpec": [{"parent": parent, "nodeId": node, "node": made}]}}
    match pool.terms:
        case "spot":
            asked["spot"] = {}
        case "reserved":
            made["schedulingConfig"] = {"reserved": True}
            asked["guaranteed"] = {}
            asked["reservationName"] = (
                pool.reservation
                if "/" in pool.reservation
                else f"{parent}/reservations/{pool.reservation}"
            )
        case "on_demand":
            pass
    if valid_for := pool.options.get("valid_for", ""):
        seconds = int(float(seconds_of("options.valid_for", valid_for)))
        asked["queueingPolicy"] = {"validUntilDuration": f"{seconds}s"}
    return asked


def _network(pool: Pool) -> Json:
    network: Json = {
        "network": pool.network or "default",
        "enableExternalIps": has_external_ip(pool),
    }
    if subnetwork := pool.options.get("subnetwork", ""):
        network["subnetwork"] = subnetwork
    return network
