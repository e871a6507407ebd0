"""Your own host with a cut cable: a partition, from the bastion and from the bucket."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bastion.records.keys import layout
from bastion.store.gcs import GcsStore
from tests.end_to_end.admin_files import QUOTA
from tests.end_to_end.programs import Programs, until
from tests.end_to_end.roots import Place
from tests.servers.gcs import GcsServer
from tests.servers.network_namespace import Namespace, network_namespace
from tests.servers.sshd import OwnHosts, needs_sshd

pytestmark = [pytest.mark.end_to_end, pytest.mark.prove, needs_sshd]

CONFIG = """
[pools.own]
provider = "ssh"
hosts = ["cut", "near"]
resources = {{ h100 = 8 }}
permit = "3m"
options = {{ ssh_config = "{ssh_config}", python = "{python}" }}
"""
LINE = """
while :; do
    echo $BASTION_ATTEMPT $(date +%s.%N) >>{ticks}
    [ ! -e {ticks}.over ] || exit 0
    sleep 0.2
done
"""
"""Writes while it lives, to a file that does not depend on the cable."""


@contextmanager
def partitioned(folder: Path) -> Iterator[tuple[Programs, Namespace]]:
    """Run a bastion with two hosts, one of them behind a cable."""
    with (
        network_namespace() as namespace,
        GcsServer("bucket", address=namespace.near) as server,
    ):
        env = {"STORAGE_EMULATOR_HOST": server.url}
        store = GcsStore("bucket", "root", credentials=None, endpoint=server.url)
        place = Place(url="gs://bucket/root", env=env, store=store)
        hosts = OwnHosts(folder)
        away = {"address": namespace.far, "inside": namespace.inside}
        with hosts.add("cut", **away, env=env), hosts.add("near", env=env):  # type: ignore[arg-type]
            store.create(layout.QUOTA, QUOTA.encode())
            config = CONFIG.format(ssh_config=hosts.path, python=sys.executable)
            store.create(layout.CONFIG, config.encode())
            on = Programs(folder, place)
            try:
                on.serve()
                yield on, namespace
            finally:
                namespace.mend()
                on.stop_everything()
                sys.stdout.write(on.served)


def test_a_partition_starts_nothing_twice(tmp_path: Path) -> None:
    """
    A host that is cut off keeps its devices charged until it is proved off, and returns.

    Its job starts elsewhere only once its processes have ended on their own. A gang that waits for
    the host is told that it is silent, and runs there when the cable is back.
    """
    ticks = tmp_path / "ticks"
    with partitioned(tmp_path) as (on, namespace):
        line = LINE.format(ticks=ticks)
        job = on.run("launch", "-q", "--resources=h100=8", "--shell", "--", line).stdout.strip()
        until(ticks.exists, "it runs")
        (first,) = machines(on, "cut")
        assert first["jobs"] == [job]
        namespace.cut()
        cut_at = time.time()
        until(lambda: machines(on, "cut")[0]["phase"] == "silent", "it is silent", 240)
        assert is_charged(on, job, first["name"])
        gang = ("--replicas=2", "--resources=h100=8", "--project_id=blue", "--user_id=bob")
        words = ("launch", "-q", *gang, "--shell", "--", "echo $BASTION_REPLICA_INDEX")
        waiting = on.run(*words).stdout.strip()
        back = f"waits for {first['name']} to be back in service"
        until(lambda: back in why(on, waiting), "the gang is told of the silent host")
        assert f"runs on machine {first['name']}, whose agent was last heard from 2m" in why(
            on, job
        )
        while len(attempts := {attempt for attempt, _ in lived(ticks)}) < 2:
            assert time.time() - cut_at < 600, why(on, job)
            assert attempts == {"1"} or not is_charged(on, job, first["name"])
            time.sleep(1)
        ends = max(at for attempt, at in lived(ticks) if attempt == "1")
        begins = min(at for attempt, at in lived(ticks) if attempt == "2")
        assert cut_at + 180 - 60 < ends < begins, "it ended by itself, and only then began again"
        assert [each["jobs"] for each in machines(on, "near")] == [[job]]
        namespace.mend()
        (tmp_path / "ticks.over").touch()
        on.run("wait", job, waiting, timeout_s=600)
        assert sorted(on.printed(waiting).split()) == ["0", "1"]
        assert {each["zone"] for each in on.json("machines")["machines"]} == {"cut", "near"}
        assert [attempt for attempt, _ in lived(ticks)] == sorted(a for a, _ in lived(ticks))


def machines(on: Programs, zone: str) -> list[dict[str, Any]]:
    """Return the machines of one host."""
    return [each for each in on.json("machines")["machines"] if each["zone"] == zone]


def is_charged(on: Programs, job: str, machine: str) -> bool:
    """Whether the machine exists; all of its devices are the job's then."""
    found = [each for each in machines(on, "cut") if each["name"] == machine]
    assert all(each["jobs"] == [job] and not each["free"].get("h100") for each in found)
    return bool(found)


def why(on: Programs, job: str) -> str:
    """Return what a user is told of a job."""
    return on.run("why", job).stdout


def lived(ticks: Path) -> list[tuple[str, float]]:
    """Return when which attempt lived, in the order of the writes."""
    words = [line.split() for line in ticks.read_text().splitlines()]
    return [(attempt, float(at)) for attempt, at in (each for each in words if len(each) == 2)]
