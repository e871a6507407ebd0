"""The properties of the bastion's own VM, checked before anything is created. Pure."""

from __future__ import annotations

import re
from typing import Literal
from urllib.parse import urlsplit

from bastion.provider.gcp.gce_request import ZONE as GOOGLE_ZONE
from bastion.value import value

SUFFIX = "-bastion"
_NAME = re.compile(r"[a-z][-a-z0-9]{0,54}-bastion", re.ASCII)
"""A name that every cloud accepts, of at most 63 characters. Source: RFC 1035."""
_IMAGE = re.compile(r"[a-z0-9][\w.:/@-]{0,400}", re.ASCII)
_ADDRESS = re.compile(r"[\w.:-]{1,255}", re.ASCII)
_CLOUDS = {"gs": "Google", "s3": "Amazon"}

State = Literal["starting", "running", "stopping", "stopped"]


@value
class BastionVm:
    """
    One small VM.

    `image` is a container image with this program; without one, the VM installs the wheel that
    `wheel` names in the bucket.
    """

    name: str
    root_url: str
    zone: str
    image: str = ""
    wheel: str = ""
    """Key of the wheel in the bucket."""
    digest: str = ""
    """Its SHA-256."""
    machine_type: str = ""
    """Empty for a small one: 2 vCPUs and 2 GiB."""
    identity: str = ""
    """The identity of the bastion: a service account, an instance profile."""
    quota_url: str = ""
    """Where the quota file is, if it is not in the root."""
    network: str = ""
    subnet: str = ""
    project: str = ""
    """Google's; empty for the project of the credentials."""
    disk_gib: int = 20
    metrics_port: int | None = None
    """Where the bastion answers Prometheus; None: nowhere."""
    metrics_host: str = ""
    """The address for that; empty: loopback."""

    @property
    def is_google(self) -> bool:
        """Whether it is a VM at Google; otherwise it is one at Amazon."""
        return GOOGLE_ZONE.fullmatch(self.zone) is not None


def _cloud_of(vm: BastionVm) -> str:
    return "Google" if vm.is_google else "Amazon"


def _zone_problems(vm: BastionVm, scheme: str) -> tuple[str, ...]:
    if not vm.zone:
        return ("--zone: missing; such as us-central1-a, or us-east-1a",)
    if not vm.is_google and not re.fullmatch(r"[a-z]+(-[a-z]+)+-\d[a-z]", vm.zone, re.ASCII):
        return (f"--zone: {vm.zone!r} is not a zone; such as us-central1-a, or us-east-1a",)
    if vm.image or _CLOUDS.get(scheme, _cloud_of(vm)) == _cloud_of(vm):
        return ()
    return (
        f"--zone: {vm.zone} is {_cloud_of(vm)}'s, and the root {_CLOUDS[scheme]}'s, where the VM's"
        " identity is unknown; choose a zone of the root's cloud, or an --image that contains"
        " credentials",
    )


def problems(vm: BastionVm) -> tuple[str, ...]:
    """Return what is wrong with `vm`; each problem begins with its flag."""
    wrong = []
    if not vm.name:
        wrong.append(f"--name: missing; such as shared{SUFFIX}")
    elif not _NAME.fullmatch(vm.name):
        wrong.append(
            f"--name: {vm.name!r} is not allowed; at most 63 small letters, digits and dashes that"
            f" end in {SUFFIX}, such as shared{SUFFIX}"
        )
    scheme = urlsplit(vm.root_url).scheme
    if scheme not in _CLOUDS:
        wrong.append(
            f"--root: {vm.root_url!r} is not in a cloud where Bastion can create its VM; must be"
            " gs:// or s3://"
        )
    wrong += _zone_problems(vm, scheme)
    if vm.image and not _IMAGE.fullmatch(vm.image):
        wrong.append(
            f"--image: {vm.image!r} is not a valid name of an image, such as REGISTRY/bastion:TAG"
        )
    if not vm.identity:
        wrong.append(
            "--identity: missing; the service account or instance profile that the bastion acts as:"
            " bastion setup prints what it needs"
        )
    if vm.disk_gib < 10:
        wrong.append(f"--disk: {vm.disk_gib} GiB is not enough; 10 or more")
    port = vm.metrics_port
    if port is not None and not 1 <= port <= 65535:
        wrong.append(f"--metrics_port: {port} is not allowed; 1 to 65535")
    if vm.metrics_host and port is None:
        wrong.append("--metrics_host: is the address of --metrics_port, which is missing")
    elif vm.metrics_host and not _ADDRESS.fullmatch(vm.metrics_host):
        wrong.append(f"--metrics_host: {vm.metrics_host!r} is not an address, such as 0.0.0.0")
    return tuple(wrong)
