"""The same gang on every provider: only the pool differs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bastion.records.keys import layout
from tests.end_to_end.grounds import (
    Ground,
    MakesGround,
    azure_vm_ground,
    docker_ground,
    ec2_ground,
    fake_docker_ground,
    fake_slurm_ground,
    gce_ground,
    gcp_tpu_ground,
    kubernetes_ground,
    local_ground,
    show_boot_logs,
    slurm_ground,
    ssh_ground,
)
from tests.end_to_end.programs import DEADLINE_S, REPOSITORY, Programs, until
from tests.end_to_end.roots import folder_root
from tests.rigs.own_address import own_address
from tests.servers.dockerd import has_shell, needs_dockerd
from tests.servers.kubernetes.server import needs_kubectl
from tests.servers.slurmctld import needs_slurm
from tests.servers.sshd import needs_sshd

pytestmark = pytest.mark.end_to_end

QUOTA = """
[toml-schema]
version = "1"
[total_resources]
v4 = 32
v5e = 16
[project_membership]
red = ["alice"]
[project_resources.red]
v4 = 1.0
v5e = 1.0
"""
no_shell = pytest.mark.skipif(not has_shell(), reason="needs busybox-static")
GROUNDS = [
    pytest.param(local_ground, id="local"),
    pytest.param(ssh_ground, id="ssh", marks=needs_sshd),
    pytest.param(fake_docker_ground, id="docker"),
    pytest.param(docker_ground, id="docker-engine", marks=[*needs_dockerd, no_shell]),
    pytest.param(fake_slurm_ground, id="slurm"),
    pytest.param(slurm_ground, id="slurmctld", marks=needs_slurm),
    pytest.param(kubernetes_ground, id="kubernetes", marks=needs_kubectl),
    pytest.param(ec2_ground, id="ec2"),
    pytest.param(azure_vm_ground, id="azure_vm"),
    pytest.param(gce_ground, id="gce"),
    pytest.param(gcp_tpu_ground, id="gcp_tpu"),
]


@contextmanager
def serving(folder: Path, ground: Ground, *, machines: int = 2) -> Iterator[Programs]:
    """Run a bastion whose only pool is of `ground`."""
    pool = f'[pools.ground]\nmax_machines = {machines}\nidle_timeout = "2s"{ground.pool}\n'
    with folder_root(folder) as place:
        place.store.create(layout.QUOTA, QUOTA.encode())
        place.store.create(layout.CONFIG, pool.encode())
        on = Programs(folder, place)
        try:
            on.serve(env=ground.env)
            yield on
        finally:
            on.stop_everything()
            sys.stdout.write(on.served)
            show_boot_logs(folder)


@pytest.mark.parametrize("makes_ground", GROUNDS)
def test_one_gang_runs_on_every_provider(tmp_path: Path, makes_ground: MakesGround) -> None:
    """
    Two replicas on two machines meet, and the machines end; the command is always the same.

    A cloud's machines are created together, and greet with names from their metadata server, at
    Azure from their scripts.
    If the first zone is sold out, the next one is used. While the gang runs, a command beside each
    replica has its variables and its folder, and its exit code is returned.
    """
    (tmp_path / "provider").mkdir()
    with makes_ground(tmp_path / "provider") as ground, serving(tmp_path, ground) as on:
        code = f"--code={REPOSITORY / 'examples'}"
        gang = ("--replicas=2", "--resources=memory=32GiB", "--project_id=red", code)
        line = "python3 gang.py && until [ -e over ]; do sleep 0.1; done"
        words = ("launch", "-q", "--pool=ground", *gang, "--shell", "--", line)
        job = on.run(*words).stdout.strip()
        until(lambda: on.printed(job).count("\n") == 2, "the gang has met", 2 * DEADLINE_S)
        assert sorted(on.printed(job).splitlines()) == [
            "rank 0 of 2: 1 to 2 add up to 3",
            "rank 1 of 2: 1 to 2 add up to 3",
        ]
        for replica in (1, 0):
            beside = ("exec", f"{job}/{replica}", "--", "sh", "-c")
            there = on.run(*beside, "ls gang.py; echo $RANK of $WORLD_SIZE; exit 3", check=False)
            assert (there.returncode, there.stdout) == (3, f"gang.py\n{replica} of 2\n")
            on.run(*beside, "touch over", check=False)
        assert on.wait(job).state == "succeeded"
        used = {each["name"] for each in on.json("machines")["machines"]}
        assert len(used) == 2
        if ground.check_end is not None:
            until(lambda: not on.json("machines")["machines"], "its machines leave the records")
            ground.check_end()


@pytest.mark.prove
def test_slices_know_their_hosts_and_each_other(tmp_path: Path) -> None:
    """
    A replica is a slice: its processes run on both hosts, and know where they are.

    They have what libtpu, JAX and Megascale read, partly from the placement of the gang, partly
    from the facts of their own host.
    """
    names = (
        *("TPU_WORKER_ID", "TPU_WORKER_HOSTNAMES", "TPU_ACCELERATOR_TYPE", "TPU_TOPOLOGY"),
        *("MEGASCALE_NUM_SLICES", "MEGASCALE_SLICE_ID", "MEGASCALE_COORDINATOR_ADDRESS"),
        *("JAX_PROCESS_ID", "JAX_NUM_PROCESSES"),
    )
    line = " ".join(f"${name}" for name in names)
    (tmp_path / "provider").mkdir()
    with (
        gcp_tpu_ground(tmp_path / "provider", "tpu-v4-16") as ground,
        serving(tmp_path, ground, machines=4) as on,
    ):
        gang = ("--instance_type=tpu-v4-16", "--replicas=2", "--project_id=red", "--shell")
        ran = on.run("run", *gang, "--", f"echo {line}")
        here = own_address()
        assert sorted(ran.stdout.splitlines()) == [
            f"{host} {here},{here} v4-16 2x2x2 2 {slice_} {here}:8080 {2 * slice_ + host} 4"
            for host, slice_ in ((0, 0), (0, 1), (1, 0), (1, 1))
        ]
        until(lambda: not on.json("machines")["machines"], "its machines leave the records")
        assert ground.check_end is not None
        ground.check_end()
