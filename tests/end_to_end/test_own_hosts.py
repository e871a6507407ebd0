"""A pool of hosts that somebody owns, from an empty folder to a gang on both."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bastion.records import layout
from tests.end_to_end.admin_files import QUOTA
from tests.end_to_end.programs import Programs, until
from tests.end_to_end.roots import folder_root
from tests.servers.sshd import hosts, needs_sshd

pytestmark = [pytest.mark.end_to_end, needs_sshd]

CONFIG = """
[pools.own]
provider = "ssh"
hosts = ["gpu1", "gpu2"]
resources = {{ h100 = 8 }}
options = {{ ssh_config = "{ssh_config}", python = "{python}" }}
"""


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Programs]:
    """A bastion with two hosts, on which nothing of ours is."""
    with hosts(tmp_path, "gpu1", "gpu2") as ssh_config, folder_root(tmp_path) as place:
        place.store.create(layout.QUOTA, QUOTA.encode())
        config = CONFIG.format(ssh_config=ssh_config, python=sys.executable)
        place.store.create(layout.CONFIG, config.encode())
        on = Programs(tmp_path, place)
        try:
            on.serve()
            yield on
        finally:
            on.stop_everything()
            sys.stdout.write(on.served)


def test_a_gang_runs_on_hosts_of_ones_own(own: Programs) -> None:
    """Each host gets Bastion and one machine; a bastion that is killed finds both again."""
    line = "echo $BASTION_REPLICA_INDEX of $BASTION_REPLICA_COUNT in $BASTION_OUTPUT_DIR"
    gang = ("--replicas=2", "--resources=h100=8", "--project_id=red", "--shell")
    ran = own.run("run", *gang, "--", line)
    said = sorted(ran.stdout.splitlines())
    assert [text.split(" in ")[0] for text in said] == ["0 of 2", "1 of 2"]
    assert {text.split("/.bastion/")[0].rsplit("/", 1)[1] for text in said} == {"gpu1", "gpu2"}
    before = own.json("machines")["machines"]
    assert sorted(machine["zone"] for machine in before) == ["gpu1", "gpu2"]
    (serve,) = own.processes("serve")
    serve.kill()
    own.serve()
    assert own.run("run", *gang, "--", "echo", "again").stdout == "again\nagain\n"
    after = own.json("machines")["machines"]
    assert [machine["name"] for machine in after] == [machine["name"] for machine in before]


def test_a_host_that_comes_back_goes_on(own: Programs) -> None:
    """Jobs of a host whose sshd is away run on, and others start where the way is open."""
    long = own.run("launch", "-q", "--resources=h100=8", "--", "sleep", "3").stdout.strip()
    until(lambda: own.client.status().counts.get("running"), "one runs")
    (server, *_) = own.processes("sshd", "gpu1/sshd_config")
    server.suspend()
    try:
        assert own.wait(long).state == "succeeded"
        ran = own.run("run", "--resources=h100=8", "--", "echo", "here")
        assert ran.stdout == "here\n"
    finally:
        server.resume()
