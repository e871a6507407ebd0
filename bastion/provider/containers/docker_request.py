"""
The request to a docker engine: a machine of a pool as a container. Pure.

Source: docs.docker.com/reference/api/engine/version/v1.41, ContainerCreate; CDI names as in
github.com/cncf-tags/container-device-interface, SPEC.md.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from bastion.errors import ProviderRefusedError, SpecError
from bastion.machine import Pool
from bastion.provider.boot.script import OPTIONS as BOOT_OPTIONS
from bastion.spec.values.quantity import bytes_of
from bastion.spec.where import CONTAINERS

OPTIONS = ("host", "gpus", "cdi", "mounts", "shm", "env", *BOOT_OPTIONS)
"""Allowed keys of a pool's `options`."""
BUCKET, POOL, MACHINE, DEVICES = "bastion", "pool", "machine", "bastion.devices"
"""Keys of the labels."""
GONE = "bastion-gone-"
"""Prefix of the container name of a deleted machine; the time of the deletion follows."""

_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,200}", re.ASCII)
_HOST = re.compile(r"(unix|tcp|ssh|http|https)://\S+")
_RANGE = re.compile(r"(\d{1,3})-(\d{1,3})", re.ASCII)
_DEVICE = re.compile(r"\d{1,3}|(GPU|MIG)-[\w-]+", re.ASCII)
_CDI = re.compile(r"[a-zA-Z0-9][\w.-]*/[a-zA-Z0-9][\w.-]*=[a-zA-Z0-9][\w.:-]*", re.ASCII)
_MOUNT = re.compile(r"(/[^:,]*):(/[^:,]*)(:ro|:rw)?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_NOT_DEVICES = ("cpu", "memory")
_LOGS = {"Type": "json-file", "Config": {"max-size": "10m", "max-file": "2"}}

Json = dict[str, Any]


def problems(pool: Pool) -> tuple[str, ...]:
    """Return what is wrong with a pool of containers; each problem begins with its field."""
    options = pool.options
    wrong = [
        f"{field.removesuffix('_gib')}: a container has none; leave it out"
        for field in ("reservation", "disk_gib", "identity", "tags")
        if getattr(pool, field)
    ]
    if pool.terms != "on_demand":
        wrong.append("terms: a container has none; leave it out")
    if pool.zones != ("",):
        wrong.append("zones: a pool has one engine, which options.host names; leave it out")
    if not pool.image:
        wrong.append("image: missing; name one that has a shell, such as python:3.12")
    if CONTAINERS in pool.labels:
        wrong.append("containers: a container runs no images; leave it out")
    wrong += [
        f"options.{name}: unknown; a pool of provider docker takes {', '.join(OPTIONS)}"
        for name in options
        if name not in OPTIONS
    ]
    if (host := options.get("host", "")) and not _HOST.fullmatch(host):
        wrong.append(f"options.host: {host!r} is not an engine's address, such as ssh://gpu1")
    wrong += [
        f"options.mounts: {mount!r} must be /FROM:/TO or /FROM:/TO:ro"
        for mount in words(options.get("mounts", ""))
        if not _MOUNT.fullmatch(mount)
    ]
    wrong += [
        f"options.env: {name!r} is not a valid name of a variable"
        for name in words(options.get("env", ""))
        if not _VARIABLE.fullmatch(name)
    ]
    if shm := options.get("shm", ""):
        try:
            bytes_of("options.shm", shm)
        except SpecError as error:
            wrong += error.problems
    return (*wrong, *_device_problems(pool))


def devices_wanted(pool: Pool) -> int:
    """Return the number of devices of a machine of the pool."""
    return sum(units for name, units in pool.resources.items() if name not in _NOT_DEVICES)


def devices_of(pool: Pool) -> tuple[str, ...]:
    """Return every device of the engine that the pool can assign, in order."""
    found: list[str] = []
    for word in words(pool.options.get("gpus", "")):
        span = _RANGE.fullmatch(word)
        found += map(str, range(int(span[1]), int(span[2]) + 1)) if span else [word]
    return tuple(dict.fromkeys([*found, *words(pool.options.get("cdi", ""))]))


def name_of(bucket: str, machine: str, *, gone_at: float | None = None) -> str:
    """Return the name of a machine's container, or of what is left of it."""
    name = f"bastion-{bucket}-{machine}"
    if not _NAME.fullmatch(name):
        digest = hashlib.sha256(name.encode()).hexdigest()[:12]
        name = f"{re.sub(r'[^a-zA-Z0-9_.-]', '-', name)[:150]}-{digest}"
    if gone_at is None:
        return name
    return f"{GONE}{int(gone_at)}-{name.removeprefix('bastion-')}"


def gone_at(name: str) -> float | None:
    """Return when the machine of this container was deleted; None if it was not."""
    found = re.match(rf"/?{GONE}(\d{{1,15}})-", name, re.ASCII)
    return float(found[1]) if found else None


def words(text: str) -> tuple[str, ...]:
    """Return the parts of a list that are separated by commas or spaces."""
    return tuple(text.replace(",", " ").split())


def container_of(
    pool: Pool,
    machine: str,
    *,
    bucket: str,
    root_url: str,
    script: str,
    devices: tuple[str, ...],
    environ: Mapping[str, str],
) -> Json:
    """
    Return the container that is `machine`, in the engine's format.

    Args:
        pool: Its fields and options have passed `problems`.
        machine: The machine's name.
        bucket: The bucket's own name, for labels.
        root_url: A folder is mounted at the same path.
        script: Its first process is a shell that runs this.
        devices: The devices of the pool that it gets.
        environ: The bastion's own variables, some of which `options.env` names.

    Raises:
        ProviderRefusedError: A variable is not set.
    """
    labels = {BUCKET: bucket, POOL: pool.name, MACHINE: machine}
    if devices:
        labels[DEVICES] = ",".join(devices)
    host: Json = {
        "Init": True,
        "RestartPolicy": {"Name": "no"},
        "LogConfig": _LOGS,
        "Mounts": _mounts(pool, root_url),
        **_limits(pool),
    }
    if devices:
        host["DeviceRequests"] = [_device_request(pool, devices)]
    if pool.network:
        host["NetworkMode"] = pool.network
    body: Json = {
        "Image": pool.image,
        "User": "0",
        "Entrypoint": ["/bin/sh", "-c"],
        "Cmd": [script],
        "Env": _environment(pool, environ),
        "Labels": labels,
        "HostConfig": host,
    }
    if not pool.network.startswith(("host", "container:")):
        body["Hostname"] = re.sub(r"[^a-zA-Z0-9-]", "-", machine)[-63:].lstrip("-")
    return body


def _limits(pool: Pool) -> Json:
    """Return what a machine can use, if the pool states what it has."""
    found: Json = {}
    units = dict(pool.resources.items())
    if cpu := units.get("cpu", 0):
        found["NanoCpus"] = cpu * 10**9
    if memory := units.get("memory", 0):
        found["Memory"] = memory
        # As much as the kernel gives a whole host. The engine's 64 MB break data loaders and NCCL.
        found["ShmSize"] = memory // 2
    if shm := pool.options.get("shm", ""):
        found["ShmSize"] = bytes_of("options.shm", shm)
    return found


def _mounts(pool: Pool, root_url: str) -> list[Json]:
    found = []
    for word in words(pool.options.get("mounts", "")):
        mount = _MOUNT.fullmatch(word)
        assert mount is not None
        found.append((mount[1], mount[2], mount[3] == ":ro"))
    root = urlsplit(root_url)
    if root.scheme == "file":
        found.append((unquote(root.path), unquote(root.path), False))
    return [
        {"Type": "bind", "Source": source, "Target": target, "ReadOnly": is_read_only}
        for source, target, is_read_only in found
    ]


def _device_request(pool: Pool, devices: tuple[str, ...]) -> Json:
    if pool.options.get("cdi"):
        return {"Driver": "cdi", "DeviceIDs": list(devices)}
    return {"Driver": "nvidia", "DeviceIDs": list(devices), "Capabilities": [["gpu"]]}


def _environment(pool: Pool, environ: Mapping[str, str]) -> list[str]:
    """Return the variables that the pool names; one that begins with AGENT_ is meant for agents."""
    found = []
    for name in words(pool.options.get("env", "")):
        text = environ.get(f"AGENT_{name}", environ.get(name))
        if text is None:
            raise ProviderRefusedError(f"options.env: {name} is not set for the bastion")
        found.append(f"{name}={text}")
    return found


def _device_problems(pool: Pool) -> list[str]:
    wanted = devices_wanted(pool)
    gpus, cdi = words(pool.options.get("gpus", "")), words(pool.options.get("cdi", ""))
    wrong = [
        f"options.gpus: {word!r} is not a number, range or UUID of a GPU"
        for word in gpus
        if not _DEVICE.fullmatch(word) and not _RANGE.fullmatch(word)
    ]
    wrong += [
        f"options.cdi: {word!r} is not a CDI name, such as nvidia.com/gpu=0"
        for word in cdi
        if not _CDI.fullmatch(word)
    ]
    if gpus and cdi:
        wrong.append("options.gpus: options.cdi names the devices too; leave one out")
    elif wanted and not gpus and not cdi:
        wrong.append(
            "options.gpus: missing; say which devices its machines may have, such as 0-7"
            " (or options.cdi)"
        )
    elif wanted * pool.max_machines > len(devices_of(pool)) and not wrong:
        wrong.append(
            f"max_machines: {pool.max_machines} machines with {wanted} devices each are more than"
            f" the {len(devices_of(pool))} named"
        )
    return wrong
