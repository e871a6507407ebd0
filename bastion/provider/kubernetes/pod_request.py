"""
The request to a cluster: a machine of a pool as a pod. Pure.

Source: kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1.
"""

from __future__ import annotations

import re
import shlex
from typing import Any

from bastion.catalog import is_tpu, units_a_chip
from bastion.machine import Machine, Pool
from bastion.provider.boot.script import FOLDER
from bastion.provider.kubernetes.names import MACHINE, ZONE, Names
from bastion.provider.kubernetes.pool_options import (
    ZONE_LABEL,
    Json,
    notice_s,
    overrides,
    selector,
    tolerations,
    words,
)
from bastion.spec.values.quantity import bytes_of

CONTAINER = "machine"
"""The name of a pod's only container."""
FINALIZER = "bastion/end-is-seen"
"""Keeps what is left of a pod until its end was seen: without it a deleted pod leaves no trace."""
GPU, TPU, NEURON = "nvidia.com/gpu", "google.com/tpu", "aws.amazon.com/neuron"

_NOT_DEVICES = ("cpu", "memory")
_NEURONS = ("trainium", "inferentia2")
_UNREACHED = ("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready")
"""
Taints of a node that the cluster cannot reach. Its jobs keep running while they have a permit.
"""


def pod(pool: Pool, machine: Machine, start: str, *, bucket: str) -> Json:
    """
    Return the pod that is `machine`.

    Args:
        pool: Its fields and options have passed `problems`.
        machine: One of the pool.
        start: A shell script that runs as long as the agent does.
        bucket: The bucket's own name.
    """
    names, options = Names(bucket=bucket, pool=pool.name), pool.options
    labels = {"app.kubernetes.io/managed-by": "bastion", **names.labels}
    spec: Json = {
        # The machine comes back like a rebooted one, in the same folder.
        "restartPolicy": "OnFailure",
        "terminationGracePeriodSeconds": notice_s(pool),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "tolerations": [
            *({"key": key, "operator": "Exists", "effect": "NoExecute"} for key in _UNREACHED),
            *tolerations(options.get("tolerations", "")),
        ],
        "containers": [_container(pool, start)],
        "volumes": [
            {"name": "machine", "emptyDir": _limited(pool.disk_gib * 1024**3)},
            {"name": "shm", "emptyDir": {"medium": "Memory", **_limited(_shm(pool))}},
        ],
    }
    nodes = {
        **selector(options.get("node_selector", "")),
        **selector(machine.zone, zone_label=ZONE_LABEL),
    }
    secrets = [{"name": name} for name in words(options.get("image_pull_secrets", ""))]
    given = {
        "nodeSelector": nodes,
        "serviceAccountName": pool.identity,
        "priorityClassName": options.get("priority_class", ""),
        "imagePullSecrets": secrets,
        "hostNetwork": pool.network == "host",
        # Otherwise a pod on the network of its host cannot resolve the names of its cluster.
        "dnsPolicy": "ClusterFirstWithHostNet" if pool.network == "host" else "",
    }
    spec |= {key: said for key, said in given.items() if said}
    made: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": names.pod(machine.name),
            "namespace": options["namespace"],
            "labels": labels,
            "annotations": {MACHINE: machine.name, ZONE: machine.zone},
            "finalizers": [FINALIZER],
        },
        "spec": spec,
    }
    said = overrides(options.get("overrides", ""))
    (ours,), theirs = spec["containers"], said.get("spec", {}).pop("containers", [{}])
    spec["containers"] = [_merged(ours, theirs[0])]
    merged: Json = _merged(made, said)
    merged["metadata"]["labels"] |= labels
    merged["metadata"]["annotations"] |= made["metadata"]["annotations"]
    return merged


def device_of(pool: Pool) -> str:
    """Return what nodes call the accelerators of `pool`."""
    if said := pool.options.get("device", ""):
        return said
    if any(map(is_tpu, pool.resources)):
        return TPU
    return NEURON if any(kind in _NEURONS for kind in pool.resources) else GPU


def _container(pool: Pool, start: str) -> Json:
    options = pool.options
    amounts = _amounts(pool)
    folder = options.get("folder", FOLDER)
    made: Json = {
        "name": CONTAINER,
        "image": pool.image,
        "command": ["/bin/sh", "-c"],
        # Kubernetes expands $(NAME) itself, and treats $$ as $.
        "args": [pod_script(folder, start, notice=notice_s(pool)).replace("$", "$$")],
        "resources": {"requests": amounts, "limits": amounts},
        "volumeMounts": [
            {"name": "machine", "mountPath": folder},
            {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - a pod's own
        ],
    }
    secrets = words(options.get("env_from", ""))
    if secrets:
        made["envFrom"] = [{"secretRef": {"name": name}} for name in secrets]
    return made


def _amounts(pool: Pool) -> dict[str, str]:
    units = dict(pool.resources.items())
    devices = sum(
        count // units_a_chip(name) for name, count in units.items() if name not in _NOT_DEVICES
    )
    said = {name: str(units[name]) for name in _NOT_DEVICES if units.get(name)}
    if devices:
        said[device_of(pool)] = str(devices)
    if pool.disk_gib:
        said["ephemeral-storage"] = f"{pool.disk_gib}Gi"
    return said


def _shm(pool: Pool) -> int:
    """Return as much shared memory as a whole host has. The usual 64 MB break loaders and NCCL."""
    if said := pool.options.get("shm", ""):
        return bytes_of("options.shm", said)
    return dict(pool.resources.items()).get("memory", 0) // 2


def _limited(size: int) -> dict[str, str]:
    return {"sizeLimit": str(size)} if size else {}


def _merged(ours: Any, theirs: Any) -> Any:
    """Return `theirs` merged over `ours`: objects are merged, lists are appended."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        both = {key: _merged(ours[key], theirs[key]) for key in ours.keys() & theirs.keys()}
        return {**ours, **theirs, **both}
    if isinstance(ours, list) and isinstance(theirs, list):
        return [*ours, *theirs]
    return theirs


def pod_script(folder: str, start: str, *, notice: int) -> str:
    """
    Return the first process of a pod.

    It runs `start` in `folder`, and ends with it. When told to end, it reports when that will be,
    and leaves the rest to the agent. `USR2` ends it permanently.

    Args:
        folder: The folder of the machine, unless the environment names another.
        start: A shell script, which runs as long as the agent does.
        notice: Seconds between the signal to end and the end.
    """
    values = {"FOLDER": shlex.quote(folder), "NOTICE": str(notice), "START": start}
    # In a single pass: an inserted text may itself look like a placeholder.
    return re.sub(r"@([A-Z]+)@", lambda found: values[found[1]], _SCRIPT)


_SCRIPT = r"""# A pod of Kubernetes as a machine of Bastion.
[ -n "${BASTION_BOOT_DIR:-}" ] || BASTION_BOOT_DIR=@FOLDER@
BASTION_POD_SCRIPT=$$
export BASTION_BOOT_DIR BASTION_POD_SCRIPT
mkdir -p "$BASTION_BOOT_DIR" && cd "$BASTION_BOOT_DIR" || exit 1
rm -f notice
cat >start <<'END_OF_START'
@START@
END_OF_START
is_over=
trap 'echo "$(($(date +%s) + @NOTICE@))" >notice.new && mv notice.new notice' TERM
trap is_over=yes USR2
sh start </dev/null &
while :; do
  wait "$!"
  code=$?
  [ -z "$is_over" ] || exit 0
  kill -0 "$!" 2>/dev/null || exit "$code"
done
"""
