"""The output and the exit codes of `doctor`."""

from __future__ import annotations

import json
import os
import select
import sys
import time
from pathlib import Path

import pytest

from bastion.clock import SystemClock
from bastion.machine import Machine, MachinePhase
from bastion.provider.kubernetes.kubernetes import KubernetesProvider
from bastion.records.keys import layout
from bastion.records.root import Root, RootWriter
from bastion.service.config.pool_config import parse_config
from bastion.service.repair.inventory import Inspection, Odd
from launch.commands.admin.doctor import _tell, agrees
from tests.launch.bucket import Bucket
from tests.launch.command_line import Run
from tests.servers.kubernetes.kubelet import IMAGE
from tests.servers.kubernetes.server import NAMESPACE, kubernetes, needs_kubectl
from tests.servers.sshd import OwnHosts, needs_sshd

LOCAL = """
[pools.here]
provider = "local"
resources = { cpu = 1 }
count = 1
"""


def begin(bucket: Bucket, config: str, *machines: Machine) -> None:
    """Give `bucket` a root with a name and machines, and a configuration."""
    root = Root(
        bucket="0123456789",
        epoch=1,
        seq=7,
        now=1.7e9,
        write_id="w",
        machines={machine.name: machine for machine in machines},
    )
    RootWriter(bucket.store, SystemClock()).commit(root, over=None)
    bucket.store.create(layout.CONFIG, config.encode())


def test_the_bastions_own_host_is_not_looked_at(run: Run, bucket: Bucket) -> None:
    """Listing a local pool affects its machines, so the doctor says that it does not."""
    begin(bucket, LOCAL)
    ran = run("doctor")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == ("pool here: is not listed; its machines are on the bastion's own host\n")


def test_hosts_of_which_none_answers_are_odd(run: Run, bucket: Bucket, tmp_path: Path) -> None:
    """Each is named as its zone with the words of ssh, and the exit code is 1."""
    settings = tmp_path / "ssh_config"
    settings.write_text("Host gpu1 gpu2\n  HostName 127.0.0.1\n  Port 1\n")
    begin(
        bucket,
        LOCAL.replace("here", "own")
        .replace('"local"', '"ssh"\nhosts = ["gpu1", "gpu2"]')
        .replace("count = 1", f'options = {{ ssh_config = "{settings}" }}'),
    )
    ran = run("doctor", "--json")
    assert ran.code == 1
    told = json.loads(ran.out)["odd"]
    assert [(odd["pool"], odd["kind"], odd["zone"]) for odd in told] == [
        ("own", "unreachable", "gpu1"),
        ("own", "unreachable", "gpu2"),
    ]
    assert all(odd["zone"] in odd["text"] for odd in told)


@needs_kubectl
def test_a_cluster_is_asked_for_rights_and_what_has_ended_is_no_machine(
    run: Run, bucket: Bucket, tmp_path: Path
) -> None:
    """A missing permission is named; remains of a pod are not counted."""
    with kubernetes(tmp_path) as cluster:
        text = LOCAL.replace("here", "lab").replace("count = 1", "max_machines = 2")
        text = text.replace('"local"', f'"kubernetes"\nimage = "{IMAGE}"')
        options = f'namespace = "{NAMESPACE}"\nkubeconfig = "{cluster.config()}"'
        begin(bucket, f"{text}\n[pools.lab.options]\n{options}\n")
        pool = parse_config(f"{text}\n[pools.lab.options]\n{options}\n").pools["lab"]
        provider = KubernetesProvider(
            pool, bucket="0123456789", script=lambda pool, name: "exit 0", clock=SystemClock()
        )
        provider.create([Machine(name="lab-7-0", pool="lab")], pool)
        while [each.state for each in provider.list()] != ["gone"]:
            time.sleep(0.02)
        ran = run("doctor")
        assert (ran.code, ran.out) == (0, "")
        assert "pool lab: its provider answers, and has 0 machines" in ran.err
        cluster.may.discard("update")
        ran = run("doctor")
        assert ran.code == 1
        assert "the bastion's account may not update pods in namespace ml" in ran.out


@needs_sshd
def test_a_host_that_does_not_answer_is_odd_beside_those_that_do(
    run: Run, bucket: Bucket, tmp_path: Path
) -> None:
    """It is named with the words of ssh, and the pool is still listed."""
    hosts = OwnHosts(tmp_path)
    with hosts.add("gpu1"):
        with hosts.path.open("a") as settings:
            settings.write("Host gpu2\n  HostName 127.0.0.1\n  Port 1\n")
        options = f'options = {{ ssh_config = "{hosts.path}", python = "{sys.executable}" }}'
        own = LOCAL.replace("here", "own").replace("count = 1", options)
        begin(bucket, own.replace('"local"', '"ssh"\nhosts = ["gpu1", "gpu2"]'))
        ran = run("doctor")
    assert ran.code == 1
    assert "pool own: its provider answers, and has 0 machines of bucket 0123456789" in ran.err
    (line,) = [each for each in ran.out.splitlines() if "gpu2" in each]
    assert line.split()[:4] == ["unreachable", "own", "-", "gpu2"]
    assert "ssh: connect to host 127.0.0.1 port 1: Connection refused" in line


def test_an_agent_of_a_local_pool_that_is_silent_is_odd(run: Run, bucket: Bucket) -> None:
    """Root knows when it was last heard, and nothing on this machine is changed."""
    ready = Machine(name="here-1-0", pool="here", phase=MachinePhase.READY, heartbeat_s=30.0)
    heard = Machine(name="here-1-1", pool="here", heard_at=1.7e9 - 60.0, heartbeat_s=30.0)
    begin(bucket, LOCAL, ready, heard)
    ran = run("doctor", "--json")
    assert ran.code == 1
    (odd,) = json.loads(ran.out)["odd"]
    assert (odd["machine"], odd["kind"]) == ("here-1-0", "silent")


ORPHAN = Odd(pool="gpu", machine="gpu-1-0", kind="orphan")


@pytest.mark.parametrize(("typed", "agreed"), [(b"y\n", True), (b"\n", False), (b"no\n", False)])
def test_it_asks_on_a_terminal(monkeypatch: pytest.MonkeyPatch, typed: bytes, agreed: bool) -> None:
    """What will be deleted is named, and only a yes deletes it."""
    mine, its = os.openpty()
    with os.fdopen(its) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        with os.fdopen(os.dup(its), "w") as stderr:
            monkeypatch.setattr(sys, "stderr", stderr)
            os.write(mine, typed)
            assert agrees([ORPHAN]) is agreed
        shown = b""
        while b"delete 1 orphan, gpu-1-0? [y/N] " not in shown:  # the echo comes before or after it
            assert select.select([mine], [], [], 10.0)[0], shown
            shown += os.read(mine, 1000)
    os.close(mine)


def test_it_does_not_ask_where_no_user_can_answer() -> None:
    """In a script, nothing is deleted without --yes."""
    assert agrees([ORPHAN]) is False


@pytest.mark.parametrize(
    ("own", "listed", "told"),
    [
        (1, 0, "cost 10.00 per hour, by the prices in config/bastion.toml"),
        (0, 1, "cost 10.00 per hour, by list prices (dollars, on demand), because config/bastion"),
        (1, 1, "cost 20.00 per hour, by the prices in config/bastion.toml and list prices"),
    ],
)
def test_the_cost_of_orphans_says_whose_prices_these_are(
    own: int, listed: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Prices set by the admin are distinguished from those of a price list."""
    odd = [
        Odd(
            pool="gpu", machine="gpu-1-0", kind="orphan", price_per_hour=10.0, is_list_price=is_list
        )
        for is_list in (False,) * own + (True,) * listed
    ]
    _tell(Inspection(bucket="b", listed={}, unlisted=(), unchecked={}, odd=tuple(odd)))
    assert told in capsys.readouterr().err
