"""
Ceph's object gateway as an S3 server: a cluster of one monitor and one OSD, all in memory.

Many S3-compatible services run this server. It has one peculiarity: `If-Match` only matches an ETag
without its quotes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.servers.s3 import KEYS, ask_until_it_answers, credentials, free_port

PROGRAMS = ("ceph", "ceph-mon", "ceph-osd", "monmaptool", "radosgw", "radosgw-admin")

needs_ceph = [
    pytest.mark.prove,
    pytest.mark.skipif(
        not all(map(shutil.which, PROGRAMS)),
        reason="needs Ceph (Debian: radosgw, ceph-mon, ceph-osd)",
    ),
]

_PATIENCE_S = 120.0
"""Limit for the start. Creating the first account creates the pools: 15 s on an idle machine."""


@contextmanager
def ceph_server(folder: Path) -> Iterator[str]:
    """Run a gateway with a bucket `bucket`, and give its URL; `folder` is for its use alone."""
    monitor, gateway = f"v1:127.0.0.1:{free_port()}", free_port()
    cluster, disk = str(uuid.uuid4()), str(uuid.uuid4())
    (folder / "osd").mkdir()
    (folder / "keyring").touch()
    conf = folder / "ceph.conf"
    conf.write_text(_conf(folder, cluster, monitor, gateway))

    def run(*argv: str, tries: int = 1) -> None:
        for left in reversed(range(tries)):
            done = subprocess.run(
                argv,
                env={"PATH": os.environ["PATH"], "CEPH_CONF": str(conf)},
                capture_output=True,
                text=True,
                timeout=_PATIENCE_S,
                check=False,
            )
            if done.returncode == 0:
                return
            assert left, f"{argv}: {done.stdout}{done.stderr}"

    with ExitStack() as alive:
        map_file = str(folder / "monmap")
        run("monmaptool", "--create", "--fsid", cluster, "--addv", "a", monitor, map_file)
        run("ceph-mon", "--mkfs", "-i", "a", "--monmap", map_file)
        alive.enter_context(_daemon(folder, "ceph-mon", "-i", "a"))
        # Until the monitor has published its map, commands are refused as those of another cluster.
        run("ceph", "osd", "new", disk, tries=9)
        run("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", disk)
        run("ceph", "osd", "crush", "add", "osd.0", "1", "root=default", tries=9)
        alive.enter_context(_daemon(folder, "ceph-osd", "-i", "0"))
        keys = (
            "--access-key",
            KEYS["AWS_ACCESS_KEY_ID"],
            "--secret",
            KEYS["AWS_SECRET_ACCESS_KEY"],
        )
        run("radosgw-admin", "user", "create", "--uid=test", "--display-name=test", *keys)
        alive.enter_context(_daemon(folder, "radosgw", "-n", "client.rgw.a"))
        with credentials():
            ask_until_it_answers(f"http://127.0.0.1:{gateway}", timeout_s=_PATIENCE_S)
        yield f"http://127.0.0.1:{gateway}"


@contextmanager
def _daemon(folder: Path, *argv: str) -> Iterator[None]:
    """Run a program in the foreground and kill it afterwards; its data is thrown away."""
    env = {"PATH": os.environ["PATH"], "CEPH_CONF": str(folder / "ceph.conf")}
    with (folder / f"{argv[0]}.out").open("wb") as out:
        process = subprocess.Popen([*argv, "-f"], env=env, stdout=out, stderr=out)
    try:
        yield
    finally:
        process.kill()
        process.wait(timeout=30)


def _conf(folder: Path, cluster: str, monitor: str, gateway: int) -> str:
    return f"""
[global]
fsid = {cluster}
mon_host = {monitor}
public_addr = 127.0.0.1
ms_bind_msgr2 = false
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
keyring = {folder}/keyring
run_dir = {folder}
crash_dir = {folder}
log_file = {folder}/$name.log
admin_socket = {folder}/$name.$pid.asok
pid_file = {folder}/$name.pid
mon_data = {folder}/mon
osd_data = {folder}/osd
osd_objectstore = memstore
osd_class_update_on_start = false
osd_crush_update_on_start = false
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 1
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
rgw_frontends = beast endpoint=127.0.0.1:{gateway}
"""
