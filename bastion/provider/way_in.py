"""
How a person's own tools reach a machine, such as OpenSSH, gcloud, docker, srun and kubectl. Pure.

It requires no open port of a machine. Each cloud has its own way through its own entry point, and
decides who may use it: this module grants no permissions.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping

from bastion.errors import NotFoundError
from bastion.machine import Pool
from bastion.provider.aws.ec2_pool import region_of
from bastion.provider.azure.vm_request import ADMIN
from bastion.provider.containers.docker_request import name_of
from bastion.provider.kubernetes.names import Names as PodNames
from bastion.provider.kubernetes.pod_request import CONTAINER
from bastion.provider.slurm.slurm_request import job_name
from bastion.provider.vm_names import Names
from bastion.value import value

_SHELL = '"${SHELL:-/bin/sh}"'
_OWN_SHELL = f"exec {_SHELL}"

HERE, THERE, LINE, PARAMETERS = "{here}", "{there}", "{line}", "{parameters}"
"""
Placeholders for the user's port, the machine's port, a shell line, and a shell line in the format
of Amazon's session manager.
"""


@value
class Target:
    """The machine to reach."""

    machine: str
    zone: str
    hostname: str
    address: str


@value
class WayIn:
    """Argument lists for programs that the user has."""

    interactive: tuple[str, ...]
    """Opens a shell on the machine."""
    command: tuple[str, ...]
    """Runs a shell line there; `LINE` or `PARAMETERS` is its placeholder."""
    forward: tuple[str, ...]
    """Forwards the local port `HERE` to the machine's port `THERE`; empty: nothing is forwarded."""

    def running(self, line: str) -> tuple[str, ...]:
        """Return `command` for a shell line."""
        said = {LINE: line, PARAMETERS: json.dumps({"command": [line]})}
        return tuple(said.get(word, word) for word in self.command)

    def forwarding(self, here: int, there: int) -> tuple[str, ...]:
        """Return `forward` for two ports."""
        ports = {HERE: str(here), THERE: str(there)}
        return tuple(_filled(word, ports) for word in self.forward)


def way_in(target: Target, pool: Pool, *, bucket: str, host_here: str) -> WayIn:
    """
    Return how to reach `target` from the host `host_here`.

    Raises:
        NotFoundError: No tool reaches machines of this provider.
    """
    match pool.provider:
        case "local":
            return _local(target, host_here)
        case "ssh":
            return _openssh(target.zone, pool.options.get("ssh_config", ""))
        case "gce":
            name = Names(bucket=bucket, pool=pool.name).cloud(target.machine)
            words = ("gcloud", "compute", "ssh", name, *_google(target, pool))
            return _gcloud((*words, "--tunnel-through-iap"))
        case "gcp_tpu":
            names = Names(bucket=bucket, pool=pool.name)
            host = names.parse(target.machine).host or 0
            tool = ("gcloud", "compute", "tpus", "tpu-vm", "ssh", names.cloud(target.machine))
            return _gcloud((*tool, f"--worker={host}", *_google(target, pool)))
        case "ec2":
            return _amazon_session(target, bucket)
        case "azure_vm":
            return _openssh(f"{ADMIN}@{target.address}", "")
        case "docker":
            return _docker(target, pool, bucket)
        case "slurm":
            return _slurm(target, bucket)
        case "kubernetes":
            return _kubernetes(target, pool, bucket)
        case other:
            raise NotFoundError(f"a machine of provider {other} cannot be reached from here")


def _local(target: Target, host_here: str) -> WayIn:
    if target.hostname and target.hostname != host_here:
        return _openssh(target.hostname, "")

    return WayIn(interactive=("sh", "-c", _OWN_SHELL), command=("/bin/sh", "-c", LINE), forward=())


def _openssh(host: str, config: str) -> WayIn:
    ssh = ("ssh", *(("-F", config) if config else ()))
    return WayIn(
        interactive=(*ssh, "-t", host),
        command=(*ssh, host, "--", LINE),
        forward=(*ssh, "-N", "-L", f"{HERE}:localhost:{THERE}", host),
    )


def _google(target: Target, pool: Pool) -> tuple[str, ...]:
    project = pool.options.get("project", "")
    return (f"--zone={target.zone}", *((f"--project={project}",) if project else ()))


def _gcloud(ssh: tuple[str, ...]) -> WayIn:
    return WayIn(
        interactive=ssh,
        command=(*ssh, "--command", LINE),
        forward=(*ssh, "--", "-N", "-L", f"{HERE}:localhost:{THERE}"),
    )


def _amazon_session(target: Target, bucket: str) -> WayIn:
    """Return the way through Amazon's session manager, which knows an instance only by its ID."""
    region = region_of(target.zone)
    find = shlex.join(
        [
            *("aws", "ec2", "describe-instances", "--region", region, "--output", "text"),
            *("--query", "Reservations[].Instances[].InstanceId", "--filters"),
            f"Name=tag:bastion,Values={bucket}",
            f"Name=private-ip-address,Values={target.address}",
            "Name=instance-state-name,Values=running",
        ]
    )
    begin = f'exec aws ssm start-session --region {shlex.quote(region)} --target "$({find})"'
    asked = f"{begin} --document-name AWS-StartInteractiveCommand --parameters"
    ports = f'{{"portNumber":["{THERE}"],"localPortNumber":["{HERE}"]}}'
    return WayIn(
        interactive=("sh", "-c", begin),
        command=("sh", "-c", f'{asked} "$1"', "sh", PARAMETERS),
        forward=(
            *("sh", "-c"),
            f"{begin} --document-name AWS-StartPortForwardingSession --parameters '{ports}'",
        ),
    )


def _docker(target: Target, pool: Pool, bucket: str) -> WayIn:
    engine = pool.options.get("host", "")
    docker = ("docker", *(("--host", engine) if engine else ()), "exec")
    name = name_of(bucket, target.machine)
    return WayIn(
        interactive=(*docker, "-it", name, "/bin/sh"),
        command=(*docker, name, "/bin/sh", "-c", LINE),
        forward=(),
    )


def _slurm(target: Target, bucket: str) -> WayIn:
    """Return a step of the machine's job; a port needs a node that admits users with jobs on it."""
    name = shlex.quote(job_name(bucket, target.machine))
    job = f'"$(squeue --noheader --states=running --format=%A --name={name})"'
    step = f"exec srun --jobid={job} --overlap --nodes=1 --ntasks=1"
    return WayIn(
        interactive=("sh", "-c", f"{step} --pty {_SHELL}"),
        command=("sh", "-c", f'{step} /bin/sh -c "$1"', "sh", LINE),
        forward=_openssh(target.hostname, "").forward,
    )


def _kubernetes(target: Target, pool: Pool, bucket: str) -> WayIn:
    """Return a way into its container, with the user's rights to exec and port forwarding."""
    name = PodNames(bucket=bucket, pool=pool.name).pod(target.machine)
    flags = {key: pool.options.get(key, "") for key in ("context", "namespace")}
    kubectl = ("kubectl", *(f"--{key}={text}" for key, text in flags.items() if text))
    there = (f"--container={CONTAINER}", name, "--", "/bin/sh")
    return WayIn(
        interactive=(*kubectl, "exec", "-it", *there),
        command=(*kubectl, "exec", *there, "-c", LINE),
        forward=(*kubectl, "port-forward", name, f"{HERE}:{THERE}"),
    )


def _filled(word: str, ports: Mapping[str, str]) -> str:
    for name, port in ports.items():
        word = word.replace(name, port)
    return word
