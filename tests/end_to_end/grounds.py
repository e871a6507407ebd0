"""
The possible pools, one ground for each provider: `local` to `gcp_tpu`.

A ground is the pool's table of the configuration and what the bastion needs to reach the provider.
Its machines are real agents, started in the provider's way: the start-up script of a cloud, an
installation over ssh, a container, a pod. The clouds are servers on loopback.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from bastion.clock import SystemClock
from tests.end_to_end.programs import REPOSITORY, until
from tests.servers.aws.ec2 import PROFILE, ec2_server
from tests.servers.aws.hosts import Hosts
from tests.servers.aws.region_time import ticking
from tests.servers.azure import ArmServer
from tests.servers.azure.arm import GROUP, SUBSCRIPTION
from tests.servers.dockerd import IMAGE, dockerd
from tests.servers.engine import FakeEngine
from tests.servers.google import Compute, Tpu
from tests.servers.google.hosts import hosts
from tests.servers.kubernetes.kubelet import IMAGE as POD_IMAGE
from tests.servers.kubernetes.pods import OVER
from tests.servers.kubernetes.server import NAMESPACE, Kubernetes, kubernetes
from tests.servers.s3 import KEYS
from tests.servers.slurm import FakeSlurm
from tests.servers.slurmctld import slurm
from tests.servers.sshd import hosts as ssh_hosts


@dataclass(frozen=True, kw_only=True)
class Ground:
    """A provider to run on."""

    pool: str
    """Its lines of the pool's table, without `max_machines` and `idle_timeout`."""
    env: Mapping[str, str] = field(default_factory=dict)
    """What only the bastion gets."""
    check_end: Callable[[], None] | None = lambda: None
    """
    Asserts what must hold once idle machines have left the records; None: that is tested elsewhere,
    and not waited for.
    """


@contextmanager
def local_ground(folder: Path) -> Iterator[Ground]:
    """Provide machines on the bastion's own host."""
    pool = '\nprovider = "local"\nresources = { cpu = 2, memory = "48GiB" }'
    yield Ground(pool=pool, check_end=None)


@contextmanager
def ssh_ground(folder: Path) -> Iterator[Ground]:
    """Provide two hosts, each a real sshd."""
    with ssh_hosts(folder, "gpu1", "gpu2") as config:
        yield Ground(
            pool=f"""
provider = "ssh"
hosts = ["gpu1", "gpu2"]
resources = {{ cpu = 2, memory = "48GiB" }}
options = {{ ssh_config = "{config}", python = "{sys.executable}" }}""",
            check_end=None,
        )


@contextmanager
def fake_docker_ground(folder: Path) -> Iterator[Ground]:
    """Provide containers of a test engine, which are processes that see every file."""
    engine = FakeEngine(folder / "docker.socket", images={IMAGE}, folders=folder / "box")
    engine.open()
    try:
        yield Ground(pool=_docker_pool(folder, f"unix://{engine.path}", ""))
    finally:
        engine.end()


@contextmanager
def docker_ground(folder: Path) -> Iterator[Ground]:
    """Provide containers of a real engine: the image has only a shell, and mounts have Python."""
    # Addresses of sockets are short, and an engine has some deep below its folder.
    with TemporaryDirectory(prefix="engine") as short, dockerd(Path(short)) as made:
        made.load_image()
        system = ["/usr", "/lib", "/lib64", "/etc/passwd"]
        needed = [*system, sys.base_prefix, sys.prefix, str(REPOSITORY)]
        there = [path for path in dict.fromkeys(needed) if Path(path).exists()]
        mounts = ",".join(f"{path}:{path}:ro" for path in there)
        yield Ground(pool=_docker_pool(folder, made.daemon, mounts))
        for container in made.docker("ps", "-aq").split():
            sys.stdout.write(made.docker("logs", container))
            made.docker("rm", "-f", container)


def _docker_pool(folder: Path, host: str, mounts: str) -> str:
    return f"""
provider = "docker"
image = "{IMAGE}"
network = "host"
resources = {{ cpu = 1, memory = "48GiB" }}

[pools.ground.options]
host = "{host}"
folder = "{folder}/box"
python = "{sys.executable}"
mounts = "{mounts}" """


@contextmanager
def fake_slurm_ground(folder: Path) -> Iterator[Ground]:
    """Provide nodes of a test Slurm, which are this machine."""
    fake = FakeSlurm(folder)
    try:
        path = f"{fake.programs()}:{os.environ['PATH']}"
        yield Ground(pool=_SLURM_POOL, env={"PATH": path}, check_end=lambda: _left_slurm(fake))
    finally:
        fake.end()


@contextmanager
def slurm_ground(folder: Path) -> Iterator[Ground]:
    """Provide nodes of a real Slurm, all on this machine."""
    # Addresses of sockets are short.
    with TemporaryDirectory(prefix="slurm") as short, slurm(Path(short)) as made:
        yield Ground(pool=_SLURM_POOL, env={**made.env, "TMPDIR": short})


_SLURM_POOL = f"""
provider = "slurm"
zones = ["main", "more"]
resources = {{ cpu = 2, memory = "48GiB" }}
options = {{ gres = "none", time = "1:00:00", python = "{sys.executable}" }}"""


def _left_slurm(fake: FakeSlurm) -> None:
    """Two jobs were created, and nothing of them is left on their nodes."""
    assert fake.made() == 2
    until(lambda: not list(fake.folder.glob("n*/bastion-*/*/*")), "the folders of machines go")


@contextmanager
def kubernetes_ground(folder: Path) -> Iterator[Ground]:
    """Provide pods of a test cluster, which are processes that see every file."""
    with kubernetes(folder) as cluster:
        try:
            yield Ground(
                pool=f"""
provider = "kubernetes"
zones = ["main", "more"]
image = "{POD_IMAGE}"
resources = {{ cpu = 2, memory = "48GiB" }}

[pools.ground.options]
namespace = "{NAMESPACE}"
kubeconfig = "{cluster.config()}"
python = "{sys.executable}" """,
                check_end=lambda: _left_kubernetes(cluster),
            )
        finally:
            cluster.kubelet.logs()
        assert cluster.misfits == []


def _left_kubernetes(cluster: Kubernetes) -> None:
    """Two pods were created, and are over or forgotten."""
    assert cluster.pods.made == 2
    pods = cluster.pods.of.values()
    until(lambda: all(each["status"]["phase"] in OVER for each in pods), "the pods end")


@contextmanager
def ec2_ground(folder: Path) -> Iterator[Ground]:
    """Provide instances of a region on loopback, whose user data is run."""
    with ec2_server() as world, ticking(world):
        machines = Hosts(world, folder / "instances")

        def check_end() -> None:
            assert world.calls.count("RunInstances") == 1
            assert len(world.instances()) == 2
            until(lambda: not world.alive(), "idle instances end")

        try:
            yield Ground(
                pool=f"""
provider = "ec2"
zones = ["us-east-1a", "us-east-1b"]
resources = {{ cpu = 2, memory = "48GiB" }}
image = "{world.image("ours", owner="self")}"
identity = "{PROFILE}"
options = {{ machine_type = "m7i.large", python = "{sys.executable}" }}""",
                env={**KEYS, "AWS_ENDPOINT_URL_EC2": world.endpoint},
                check_end=check_end,
            )
        finally:
            machines.close()


@contextmanager
def gce_ground(folder: Path) -> Iterator[Ground]:
    """Provide VMs on loopback, in the second zone, because the first has room for only one."""
    with Compute.at(SystemClock()) as server:
        server.operation_s, server.boot_s, server.delete_s = 0.2, 0.5, 0.5
        server.stock = {"us-central1-a": 1}

        def check_end() -> None:
            assert server.made == 2
            until(lambda: not server.names(), "the machines are deleted")

        with hosts(server, folder / "vms"):
            yield Ground(
                pool=f"""
provider = "gce"
zones = ["us-central1-a", "us-central1-b"]
resources = {{ cpu = 2, memory = "48GiB" }}
options = {{ project = "acme", machine_type = "n2-standard-2", python = "{sys.executable}" }}""",
                env={"CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": server.url},
                check_end=check_end,
            )
        assert server.problems == []


@contextmanager
def azure_vm_ground(folder: Path) -> Iterator[Ground]:
    """Provide VMs on loopback, in the second zone, because the first has room for only one."""
    with ArmServer(clock=SystemClock()).running() as server:
        server.operation_s, server.create_s, server.delete_s = 0.2, 0.5, 0.5
        server.stock = {"westeurope-1": 1}

        def check_end() -> None:
            assert server.made == 3
            until(lambda: not server.names(), "the machines are deleted")

        with hosts(server, folder / "vms"):
            yield Ground(
                pool=f"""
provider = "azure_vm"
zones = ["westeurope-1", "westeurope-2"]
resources = {{ cpu = 2, memory = "48GiB" }}
network = "net/machines"
identity = "bastion-gpu"

[pools.ground.options]
subscription = "{SUBSCRIPTION}"
resource_group = "{GROUP}"
endpoint_url = "{server.url}"
machine_type = "Standard_D4s_v5"
ssh_key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ admin"
python = "{sys.executable}" """,
                check_end=check_end,
            )
        assert server.problems == []


@contextmanager
def gcp_tpu_ground(folder: Path, kind: str = "tpu-v5e-1") -> Iterator[Ground]:
    """Provide slices on loopback, whose hosts have no chips."""
    with Tpu.at(SystemClock()) as server:
        server.operation_s, server.queue_s, server.boot_s, server.delete_s = 0.2, 0.2, 0.5, 0.5

        def check_end() -> None:
            assert server.made == 2
            until(lambda: not server.names(), "the slices are deleted")

        with hosts(server, folder / "slices"):
            yield Ground(
                pool=f"""
provider = "gcp_tpu"
zones = ["us-central2-b"]
instance_type = "{kind}"
health = {{ devices = false }}
options = {{ project = "acme", python = "{sys.executable}" }}""",
                env={"CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU": server.url},
                check_end=check_end,
            )
        assert server.problems == []


def show_boot_logs(folder: Path) -> None:
    """Print the logs of every start-up script below `folder`; pytest shows them on failure."""
    for log in folder.rglob("boot.log"):
        sys.stdout.write(f"--- {log}\n{log.read_text()}")


MakesGround = Callable[[Path], AbstractContextManager[Ground]]
