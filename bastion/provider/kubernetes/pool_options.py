"""
The options of a pool of pods, and what is wrong with them. Pure.

Source: kubernetes.io/docs/concepts/overview/working-with-objects/names and .../labels;
kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from bastion.errors import SpecError
from bastion.machine import Pool
from bastion.provider.boot.script import OPTIONS as BOOT_OPTIONS
from bastion.spec.values.quantity import bytes_of
from bastion.spec.where import CONTAINERS

OPTIONS = (
    *("namespace", "kubeconfig", "context", "node_selector", "tolerations", "priority_class"),
    *("image_pull_secrets", "env_from", "device", "shm", "notice", "overrides", *BOOT_OPTIONS),
)
"""Allowed keys of a pool's `options`."""
NOTICE_S = 120
"""How much time a pod has to end when others delete it."""
ZONE_LABEL = "topology.kubernetes.io/zone"
ANY = "*"

_PART = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_DNS = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_KEY = re.compile(rf"([a-z0-9]([-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_PART}", re.ASCII)
_VALUE = re.compile(rf"({_PART})?", re.ASCII)
_DEVICE = re.compile(rf"[a-z0-9]([-a-z0-9.]{{0,251}}[a-z0-9])?/{_PART}", re.ASCII)
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NONE = ("reservation", "tags")
"""Fields of a pool that a pod does not have."""
_FIXED = (
    *(("apiVersion",), ("kind",), ("status",)),
    *(("metadata", key) for key in ("name", "generateName", "namespace", "finalizers")),
    *(("spec", key) for key in ("restartPolicy", "nodeName", "terminationGracePeriodSeconds")),
    *(("spec", "containers", key) for key in ("name", "image", "command", "args")),
)
"""Fields that overrides must not change."""

Json = dict[str, Any]


def problems(pool: Pool) -> tuple[str, ...]:
    """Return what is wrong with a pool of pods; each problem begins with its field."""
    options = pool.options
    wrong = [f"{field}: a pod has none; leave it out" for field in _NONE if getattr(pool, field)]
    if pool.terms != "on_demand":
        wrong.append("terms: a pod has none; name the nodes that it may have in zones")
    if pool.hosts > 1:
        wrong.append("instance_type: a slice of several hosts is not made; name one of one host")
    if not pool.image:
        wrong.append("image: missing; name one that has a shell, such as python:3.12")
    if pool.network not in ("", "host"):
        wrong.append(f"network: {pool.network!r} must be host, or be left out")
    if CONTAINERS in pool.labels:
        wrong.append("containers: a pod runs no images; leave it out")
    if pool.identity and not _DNS.fullmatch(pool.identity):
        wrong.append(f"identity: {pool.identity!r} is not the name of a service account")
    wrong += [
        f"options.{name}: unknown; the service account of a pod is identity of the pool"
        if name.replace("_", "").lower().startswith("serviceaccount")
        else f"options.{name}: unknown; a pool of provider kubernetes takes {', '.join(OPTIONS)}"
        for name in options
        if name not in OPTIONS
    ]
    wrong += _name_problems(options)
    for zone in pool.zones:
        wrong += _selector_problems("zones", zone, zone_label=ZONE_LABEL)
    wrong += _selector_problems("options.node_selector", options.get("node_selector", ""))
    wrong += _toleration_problems(options.get("tolerations", ""))
    if shm := options.get("shm", ""):
        try:
            bytes_of("options.shm", shm)
        except SpecError as error:
            wrong += error.problems
    notice = options.get("notice", "")
    if notice and not (notice.isascii() and notice.isdigit() and 2 < int(notice) <= 3600):
        wrong.append(f"options.notice: {notice!r} must be seconds from 3 to 3600")
    return (*wrong, *_override_problems(options.get("overrides", "")))


def words(text: str) -> tuple[str, ...]:
    """Return the parts of a list that are separated by commas or spaces."""
    return tuple(text.replace(",", " ").split())


def selector(written: str, *, zone_label: str = "") -> dict[str, str]:
    """
    Return the labels that nodes must have, written as `gpu=h100, spot=true`.

    Args:
        written: It has passed `problems`.
        zone_label: The key of a value without a key.
    """
    found = {}
    for word in words(written):
        key, sign, text = word.partition("=")
        found[key if sign else zone_label] = text if sign else key
    return found


def tolerations(written: str) -> list[Json]:
    """Return the tolerated taints, written as `team=vision:NoSchedule, nvidia.com/gpu`."""
    found = []
    for word in words(written):
        named, _, effect = word.partition(":")
        key, sign, text = named.partition("=")
        toleration: Json = {"operator": "Equal" if sign else "Exists"}
        if named != ANY:
            toleration["key"] = key
        if sign:
            toleration["value"] = text
        found.append({**toleration, **({"effect": effect} if effect else {})})
    return found


def overrides(written: str) -> Json:
    """Return what is merged into each pod."""
    return dict(json.loads(written)) if written else {}


def notice_s(pool: Pool) -> int:
    """Return how much time a pod of `pool` has to end when others delete it."""
    return int(pool.options.get("notice", NOTICE_S))


def _name_problems(options: Mapping[str, str]) -> Iterator[str]:
    namespace = options.get("namespace", "")
    if not namespace:
        yield "options.namespace: missing; name the namespace that its pods live in"
    elif not _NAMESPACE.fullmatch(namespace):
        yield f"options.namespace: {namespace!r} is not the name of a namespace"
    for name in ("priority_class", "image_pull_secrets", "env_from"):
        for word in words(options.get(name, "")):
            if not _DNS.fullmatch(word):
                yield f"options.{name}: {word!r} is not a name of Kubernetes's"
    if len(words(options.get("priority_class", ""))) > 1:
        yield "options.priority_class: a pod has one"
    device = options.get("device", "")
    if device and not _DEVICE.fullmatch(device):
        yield f"options.device: {device!r} is not a resource of nodes, such as nvidia.com/gpu"


def _selector_problems(field: str, written: str, *, zone_label: str = "") -> Iterator[str]:
    for word in words(written):
        key, sign, text = word.partition("=")
        if not sign and zone_label:
            key, text = zone_label, key
        elif not sign:
            yield f"{field}: {word!r} must be a label of nodes, such as gpu=h100"
            continue
        if not _KEY.fullmatch(key) or not _VALUE.fullmatch(text):
            yield f"{field}: {word!r} is not a label that a node can have, such as gpu=h100"


def _toleration_problems(written: str) -> Iterator[str]:
    for word in words(written):
        named, sign, effect = word.partition(":")
        key, _, text = named.partition("=")
        if named != ANY and (not _KEY.fullmatch(key) or not _VALUE.fullmatch(text)):
            yield f"options.tolerations: {word!r} is not a taint, such as nvidia.com/gpu:NoSchedule"
        elif sign and effect not in _EFFECTS:
            allowed = ", ".join(_EFFECTS)
            yield f"options.tolerations: {effect!r} in {word!r} must be one of {allowed}"


def _override_problems(written: str) -> Iterator[str]:
    if not written:
        return
    try:
        said = json.loads(written)
    except (ValueError, RecursionError) as error:
        yield f"options.overrides: not JSON: {error}"
        return
    if not isinstance(said, dict):
        yield "options.overrides: must be a JSON object, such as a pod has"
        return
    if not all(isinstance(said.get(key, {}), dict) for key in ("metadata", "spec")):
        yield "options.overrides: metadata and spec must be JSON objects"
        return
    containers = said.get("spec", {}).get("containers", [{}])
    if not (isinstance(containers, list) and [type(each) for each in containers] == [dict]):
        yield (
            "options.overrides: spec.containers must be a list of one object, for Bastion's"
            " container"
        )
        return
    seen = {**said, "spec": {**said.get("spec", {}), "containers": containers[0]}}
    for path in _FIXED:
        inner: Any = seen
        for key in path[:-1]:
            inner = inner.get(key, {})
        if path[-1] in inner:
            yield f"options.overrides: {'.'.join(path)} is set by Bastion; leave it out"
