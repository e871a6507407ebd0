"""A pool of Google's VMs, from an empty folder to a gang that has run and machines that ended."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bastion.clock import SystemClock
from bastion.records import layout
from tests.end_to_end.admin_files import QUOTA
from tests.end_to_end.programs import Programs, until
from tests.end_to_end.roots import folder_root
from tests.servers.google import Compute
from tests.servers.google.hosts import hosts

pytestmark = pytest.mark.end_to_end

CONFIG = f"""
[pools.rented]
provider = "gce"
zones = ["us-central1-a", "us-central1-b"]
resources = {{ cpu = 2 }}
max_machines = 2
idle_timeout = "2s"
options = {{ project = "acme", machine_type = "n2-standard-2", python = "{sys.executable}" }}
"""


@pytest.fixture
def server() -> Iterator[Compute]:
    """Compute Engine on the real clock, whose every exchange is as Google describes it."""
    with Compute.at(SystemClock()) as made:
        made.operation_s, made.boot_s, made.delete_s = 0.2, 0.5, 0.5
        yield made
        assert made.problems == []


def test_a_gang_runs_on_vms_that_end(tmp_path: Path, server: Compute) -> None:
    """
    Two VMs run a gang and are deleted, in the next zone where the first is sold out.

    They are made by one request, and greet by names that they learn of the metadata server.
    """
    server.stock = {"us-central1-a": 1}
    with folder_root(tmp_path) as place, hosts(server, tmp_path / "vms"):
        place.store.create(layout.QUOTA, QUOTA.encode())
        place.store.create(layout.CONFIG, CONFIG.encode())
        on = Programs(tmp_path, place)
        try:
            on.serve(env={"CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": server.url})
            gang = ("--replicas=2", "--resources=cpu=2", "--project_id=red", "--shell")
            line = "echo $BASTION_REPLICA_INDEX of $BASTION_REPLICA_COUNT"
            ran = on.run("run", *gang, "--", line)
            assert sorted(ran.stdout.splitlines()) == ["0 of 2", "1 of 2"]
            assert server.made == 2
            until(lambda: not server.names(), "the machines are deleted")
        finally:
            on.stop_everything()
            sys.stdout.write(on.served)
            for log in tmp_path.glob("vms/*/bastion/boot.log"):
                sys.stdout.write(log.read_text())
