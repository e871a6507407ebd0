"""A pool of EC2's machines, from an empty folder to a gang that has run and machines that ended."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bastion.records import layout
from tests.end_to_end.admin_files import QUOTA
from tests.end_to_end.programs import Programs, until
from tests.end_to_end.roots import folder_root
from tests.servers.aws.ec2 import PROFILE, Ec2World, ec2_server
from tests.servers.aws.hosts import Hosts
from tests.servers.s3 import KEYS

pytestmark = pytest.mark.end_to_end

CONFIG = """
[pools.rented]
provider = "ec2"
zones = ["us-east-1a", "us-east-1b"]
resources = {{ cpu = 2 }}
max_machines = 2
image = "{image}"
identity = "{identity}"
idle_timeout = "{idle}"
options = {{ machine_type = "m7i.large", python = "{python}" }}
"""


@contextmanager
def ticking(world: Ec2World) -> Iterator[None]:
    """Let time pass in the region, on a thread."""
    is_over = threading.Event()

    def tick() -> None:
        while not is_over.wait(0.2):
            world.tick()

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@pytest.fixture
def world() -> Iterator[Ec2World]:
    """A region with one image."""
    with ec2_server() as made:
        yield made


@pytest.fixture
def rented(tmp_path: Path, world: Ec2World) -> Iterator[Programs]:
    """A bastion whose machines are instances; each is a host of processes here."""
    config = CONFIG.format(
        image=world.image("ours", owner="self"),
        identity=PROFILE,
        idle="2s",
        python=sys.executable,
    )
    with folder_root(tmp_path) as place, ticking(world):
        place.store.create(layout.QUOTA, QUOTA.encode())
        place.store.create(layout.CONFIG, config.encode())
        hosts = Hosts(world, tmp_path / "instances")
        on = Programs(tmp_path, place)
        try:
            on.serve(env={**KEYS, "AWS_ENDPOINT_URL_EC2": world.endpoint})
            yield on
        finally:
            on.stop_everything()
            hosts.close()
            sys.stdout.write(on.served)
            for log in tmp_path.glob("instances/*/bastion/boot.log"):
                sys.stdout.write(log.read_text())


def test_a_gang_runs_on_instances_that_end(rented: Programs, world: Ec2World) -> None:
    """Two instances are made by one request, greet by the names of their machines, run, and end."""
    gang = ("--replicas=2", "--resources=cpu=2", "--project_id=red", "--shell")
    ran = rented.run("run", *gang, "--", "echo $BASTION_REPLICA_INDEX of $BASTION_REPLICA_COUNT")
    assert sorted(ran.stdout.splitlines()) == ["0 of 2", "1 of 2"]
    assert world.calls.count("RunInstances") == 1
    assert len(world.instances()) == 2
    until(lambda: not world.alive(), "idle instances end")
    until(lambda: not rented.json("machines")["machines"], "their machines leave the records")


def test_a_job_outlives_its_spot_instance(rented: Programs, world: Ec2World) -> None:
    """A job whose instance is taken back starts again on another one."""
    line = '[ "$BASTION_ATTEMPT" != 1 ] || sleep 100; echo attempt $BASTION_ATTEMPT'
    job = ("launch", "-q", "--resources=cpu=2", "--project_id=red", "--shell", "--", line)
    name = rented.run(*job).stdout.strip()
    until(lambda: rented.client.status().counts.get("running"), "it runs")
    (first,) = world.alive()
    world.interrupt(first)
    assert rented.wait(name).state == "succeeded"
    assert rented.printed(name).endswith("attempt 2\n")
    assert len(world.instances()) == 2
