"""
`open_provider`: from a pool to its provider; the only place that chooses between adapters.

Adapters are imported here when they are chosen, so unused cloud SDKs are not imported.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bastion.bucket_name import is_from_url
from bastion.clock import SystemClock
from bastion.errors import SpecError
from bastion.machine import Pool
from bastion.provider.port import Provider

PROVIDERS = (
    *("local", "ssh", "gce", "gcp_tpu", "ec2", "azure_vm", "docker", "slurm", "kubernetes", "fake"),
)
"""The providers that a pool can name."""

CLUSTERS = ("slurm", "kubernetes")
"""Those that may report a machine as ended although its node cannot be reached."""

CLOUDS = frozenset({"gce", "gcp_tpu", "ec2", "azure_vm"})
"""Those that rent machines."""

INSTALLS = CLOUDS | {"docker", "slurm", "kubernetes"}
"""Those whose new machines install Bastion from the bucket, by `bastion.provider.boot`."""

OPTIONS = {"ssh": ("folder", "python", "ssh_config")}
"""
Allowed keys of a pool's `options`, by provider; those of clouds are defined in their adapters.
"""


_BEGUN = ("ssh",)
"""Providers that do not create machines, but whose agents still start one."""
_OF_CLOUDS = ("reservation", "image", "disk_gib", "network", "tags", "identity", "setup")
"""Pool fields that describe how a new machine is created."""


def problems_of(pool: Pool) -> tuple[str, ...]:
    """
    Return what is wrong with `pool` for its provider; each problem begins with its field.

    It does not call a provider: a pool is checked before anything is created.
    """
    match pool.provider:
        case "fake":
            return ()  # anything that a test needs
        case "gce":
            from bastion.provider.gcp.gce_request import problems as of_gce

            return of_gce(pool)
        case "gcp_tpu":
            from bastion.provider.gcp.tpu_request import problems as of_tpu

            return of_tpu(pool)
        case "ec2":
            from bastion.provider.aws.ec2_pool import problems as of_ec2

            return of_ec2(pool)
        case "azure_vm":
            from bastion.provider.azure.vm_pool import problems as of_azure

            return of_azure(pool)
        case "docker":
            from bastion.provider.containers.docker_request import problems as of_docker

            return of_docker(pool)
        case "slurm":
            from bastion.provider.slurm.slurm_request import problems as of_slurm

            return of_slurm(pool)
        case "kubernetes":
            from bastion.provider.kubernetes.pool_options import problems as of_kubernetes

            return of_kubernetes(pool)
        case _:
            return _problems_of_given(pool)


def _problems_of_given(pool: Pool) -> tuple[str, ...]:
    """Return what is wrong with a pool of machines that it does not create."""
    made = Pool(name="", provider="", resources=pool.resources, max_machines=0)
    wrong = [
        f"{field.removesuffix('_gib')}: a {pool.provider} pool does not make its machines;"
        " leave it out"
        for field in (*_OF_CLOUDS, "terms")
        if not (field == "setup" and pool.provider in _BEGUN)
        and getattr(pool, field) != getattr(made, field)
    ]
    is_looked_at = pool.watches_devices or pool.burn or pool.respects_foreign
    if is_looked_at and pool.provider not in _BEGUN:
        wrong.append(f"health: a {pool.provider} pool does not check its machines; leave it out")
    known = OPTIONS.get(pool.provider, ())
    wrong += [
        f"options.{name}: unknown; a pool of provider {pool.provider} takes"
        f" {', '.join(known) or 'none'}"
        for name in pool.options
        if name not in known
    ]
    return tuple(wrong)


def open_provider(pool: Pool, *, root_url: str, bucket: str, machines_dir: Path) -> Provider:
    """
    Return the provider of `pool`; pools of one provider share its machines by name.

    Args:
        pool: A pool of `config/bastion.toml`.
        root_url: The bucket that its machines' agents serve.
        bucket: The bucket's own name, which is part of its machines' names or labels.
        machines_dir: Folder of a local provider's machines, of this bucket and of others.

    Raises:
        SpecError: There is no such provider.
    """
    match pool.provider:
        case "local":
            from bastion.provider.build import build_digest
            from bastion.provider.local import LocalProvider

            place = machines_dir if is_from_url(bucket) else machines_dir / bucket
            return LocalProvider(
                root_url,
                place / pool.name,
                SystemClock(),
                build=build_digest(),
                keep_work_s=pool.keep_work_s,
                run_as=pool.run_as,
            )
        case "ssh":
            from bastion.provider.build import build_digest
            from bastion.provider.own_hosts.ssh import SshProvider

            return SshProvider(root_url, pool, bucket=bucket, build=build_digest())
        case "gce" | "gcp_tpu":
            return _open_google(pool, root_url=root_url, bucket=bucket)
        case "ec2":
            from bastion.provider.aws.ec2 import Ec2Provider

            return Ec2Provider(pool, bucket=bucket, script=_user_data(root_url, bucket))
        case "azure_vm":
            return _open_azure(pool, root_url=root_url, bucket=bucket)
        case "docker":
            from bastion.provider.containers.docker import DockerProvider

            return DockerProvider(
                pool,
                bucket=bucket,
                root_url=root_url,
                script=_script(root_url, bucket, stays=True),
                clock=SystemClock(),
            )
        case "slurm" | "kubernetes":
            return _open_cluster(pool, root_url=root_url, bucket=bucket)
        case "fake":
            from bastion.provider.fake import FakeProvider

            return FakeProvider(SystemClock())
        case _:
            raise SpecError(
                f"pools.{pool.name}.provider: {pool.provider!r} is unknown;"
                f" must be one of {', '.join(PROVIDERS)}"
            )


def _open_google(pool: Pool, *, root_url: str, bucket: str) -> Provider:
    """Return the provider of a pool of Google's machines."""
    from bastion.provider.gcp.api import Api
    from bastion.provider.gcp.gce import GceProvider
    from bastion.provider.gcp.tpu import GcpTpuProvider

    project, script = pool.options.get("project", ""), _script(root_url, bucket)
    projects = Api("cloudresourcemanager", project=project, clock=SystemClock())
    if pool.provider == "gce":
        compute = Api("compute", project=project, clock=SystemClock())
        return GceProvider(pool, bucket=bucket, script=script, api=compute, projects=projects)
    tpu = Api("tpu", project=project, clock=SystemClock())
    return GcpTpuProvider(pool, bucket=bucket, script=script, api=tpu, projects=projects)


def _open_azure(pool: Pool, *, root_url: str, bucket: str) -> Provider:
    """Return the provider of a pool of Azure's machines."""
    from bastion.provider.azure.arm import Arm
    from bastion.provider.azure.vms import AzureVmProvider

    arm = Arm(
        subscription=pool.options["subscription"],
        resource_group=pool.options["resource_group"],
        clock=SystemClock(),
        endpoint=pool.options.get("endpoint_url", ""),
    )
    script = _user_data(root_url, bucket)
    return AzureVmProvider(pool, bucket=bucket, script=script, arm=arm)


def _open_cluster(pool: Pool, *, root_url: str, bucket: str) -> Provider:
    """Return the provider of a pool of nodes, or pods, of a cluster."""
    script = _script(root_url, bucket, stays=True)
    if pool.provider == "slurm":
        from bastion.provider.slurm.slurm import SlurmProvider

        return SlurmProvider(pool, bucket=bucket, script=script)
    from bastion.provider.kubernetes.kubernetes import KubernetesProvider

    return KubernetesProvider(pool, bucket=bucket, script=script, clock=SystemClock())


def _script(root_url: str, bucket: str, *, stays: bool = False) -> Callable[[Pool, str], str]:
    """
    Return the function that writes the start-up scripts of new machines.

    The wheel of this program, whose digest they name, is built when the first script is written.
    """
    from bastion.provider.boot import Boot, startup_script

    def script(pool: Pool, machine: str) -> str:
        boot = Boot.here(root_url, bucket, stays=stays)
        return startup_script(pool, boot, machine=machine)

    return script


def _user_data(root_url: str, bucket: str) -> Callable[[Pool, str], str]:
    """Return the same function for machines whose scripts are run by cloud-init."""
    from bastion.provider.boot import cloud_init

    script = _script(root_url, bucket)
    return lambda pool, machine: cloud_init(script(pool, machine))
