"""
The dead man's switch: a cloud machine that nothing can reach deletes itself.

Such a machine costs money and does nothing: its bucket was deleted, its rights were revoked, or its
network failed. It is an orphan when its store was unreachable for `orphan_timeout_s` and nothing
runs on it. If something runs, the limit is `BUSY_PATIENCE` times as long, since a job must not die
of an hour without a bucket. Your own hosts and machines on the bastion's host have no switch.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from bastion.agent.cloud.metadata import Metadata, MetadataError, json_of
from bastion.agent.cloud.tpu import tpu_env
from bastion.agent.settings import Cloud

BUSY_PATIENCE = 24
"""A day, with the default of an hour: longer than any outage of a bucket so far."""
AGAIN_S = 300.0
"""Between two tries to delete a machine that still runs."""
_CALL_S = 30.0
_AZURE = {
    "AzurePublicCloud": "https://management.azure.com",
    "AzureUSGovernmentCloud": "https://management.usgovcloudapi.net",
    "AzureChinaCloud": "https://management.chinacloudapi.cn",
}
"""The resource manager of each cloud that the metadata server names."""
_ABOUT = "instance/compute/{}?api-version=2021-02-01&format=text"
_AZURE_VERSION = "2024-07-01"
_HALT = ("shutdown", "-h", "now")
_FIRST: Mapping[Cloud, str] = {
    "slurm": "SLURM_TASK_PID",
    "kubernetes": "BASTION_POD_SCRIPT",
}
"""The variable with the pid of a machine's first process, whose end ends the machine."""


def is_orphan(out_s: float, timeout_s: float, *, is_busy: bool) -> bool:
    """Whether a machine whose store has been unreachable for `out_s` is an orphan; never, if 0."""
    patience = BUSY_PATIENCE if is_busy else 1
    return timeout_s > 0.0 and out_s > timeout_s * patience


def end_orphan(
    cloud: Cloud, metadata: Metadata, environ: Mapping[str, str], say: Callable[[str], None]
) -> None:
    """
    Delete this machine by its own identity, or halt it if that is refused.

    A halted EC2 instance is terminated, since it is created with that setting. A halted Google VM
    still costs its disk, and a halted Azure VM its full price, until the bastion, or an admin,
    deletes it. A Slurm job or a pod ends with
    its first process, which gets a signal to end.
    """
    if end_first(cloud, environ):
        say("this machine is an orphan: its first process ends")
        return
    try:
        if cloud in ("gce", "azure"):
            find = _azure_vm if cloud == "azure" else _google_vm
            _delete(*find(metadata, environ))
            say("this machine is an orphan: it deletes itself")
            return
    except (MetadataError, URLError, OSError, ValueError, KeyError) as error:
        say(f"this machine is an orphan and cannot delete itself: {error}")
    say("this machine is an orphan: it halts")
    path = environ.get("PATH") or os.defpath
    subprocess.run(_HALT, stdin=subprocess.DEVNULL, check=False, env={"PATH": path})


def end_first(cloud: Cloud, environ: Mapping[str, str]) -> bool:
    """End the first process and the machine with it; return False if that process is unknown."""
    script = environ.get(_FIRST.get(cloud, ""), "")
    if not script.isdigit():
        return False
    os.kill(int(script), signal.SIGUSR2)
    return True


def _delete(url: str, token: str) -> None:
    request = Request(  # noqa: S310 - the cloud's, or one that an admin names
        url,
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        method="DELETE",
    )
    with urlopen(request, timeout=_CALL_S) as answer:  # noqa: S310 - see above
        answer.read()


def _google_vm(metadata: Metadata, environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the URL of this machine, and a token of its own identity."""
    said = json_of(metadata.read("instance/service-accounts/default/token"))
    return _resource(metadata, environ), str(said["access_token"])


def _azure_vm(metadata: Metadata, environ: Mapping[str, str]) -> tuple[str, str]:
    """
    Return the same for a VM of Azure.

    Source: "Azure Instance Metadata Service", `resourceId`, `azEnvironment` and tokens.
    """
    name = metadata.read(_ABOUT.format("resourceId"))
    if not name:
        raise ValueError("the metadata server does not tell its resource id")
    named = environ.get("AZURE_RESOURCE_MANAGER_ENDPOINT", "").rstrip("/")
    server = named or _AZURE[metadata.read(_ABOUT.format("azEnvironment"))]
    asked = urlencode({"api-version": "2018-02-01", "resource": f"{server}/"})
    said = json_of(metadata.read(f"identity/oauth2/token?{asked}"))
    return f"{server}{name}?api-version={_AZURE_VERSION}", str(said["access_token"])


def _resource(metadata: Metadata, environ: Mapping[str, str]) -> str:
    """
    Return the URL of the resource to delete: the VM, or the TPU node that the VM is a host of.

    Source: compute.v1.json, `instances.delete`; tpu.v2.json, `projects.locations.nodes.delete`.
    """
    tpu = tpu_env(metadata)
    if tpu:
        base = _base(environ, "tpu")
        node = f"projects/{tpu['CONSUMER_PROJECT_ID']}/locations/{tpu['ZONE']}/nodes"
        return f"{base}/v2/{node}/{tpu['NODE_ID']}"
    project = metadata.read("project/project-id")
    zone = metadata.read("instance/zone").rpartition("/")[2]
    name = metadata.read("instance/name")
    if not (project and zone and name):
        raise ValueError("the metadata server does not tell its project, zone and name")
    base = _base(environ, "compute")
    return f"{base}/compute/v1/projects/{project}/zones/{zone}/instances/{name}"


def _base(environ: Mapping[str, str], api: str) -> str:
    named = environ.get(f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{api.upper()}", "").rstrip("/")
    return named or f"https://{api}.googleapis.com"
