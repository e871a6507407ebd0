"""Containers as machines, on a docker engine and on the fake one."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from bastion.clock import SystemClock
from bastion.provider.containers.docker import DockerProvider
from bastion.provider.containers.engine import client
from tests.contracts.provider_place import POOL, Place
from tests.servers.dockerd import IMAGE, dockerd
from tests.servers.engine import FakeEngine

SCRIPT = "exec sleep 100000"
"""What the machines run instead of an agent."""


@contextlib.contextmanager
def docker_place(folder: Path) -> Iterator[Place]:
    """Provide a real engine."""
    # Addresses of sockets are short, and an engine has some deep below its folder.
    with TemporaryDirectory(prefix="engine") as short, dockerd(Path(short)) as made:
        made.load_image()
        yield from engine_on(made.daemon, folder)


@contextlib.contextmanager
def engine_place(folder: Path) -> Iterator[Place]:
    """Provide the fake engine, whose containers are processes."""
    engine = FakeEngine(folder / "docker.socket", images={IMAGE})
    engine.open()
    try:
        yield from engine_on(f"unix://{engine.path}", folder)
    finally:
        engine.end()


def engine_on(host: str, folder: Path) -> Iterator[Place]:
    """Provide the machines of the engine at an address."""
    (folder / "root").mkdir()
    pool = replace(POOL, provider="docker", image=IMAGE, network="host", options={"host": host})
    provider = DockerProvider(
        pool,
        bucket="0a1b2c3d4e5f",
        root_url=f"file://{folder}/root",
        script=lambda pool, name: SCRIPT,
        clock=SystemClock(),
    )
    engine = client(host)
    yield Place(
        provider=provider,
        let_time_pass=lambda: time.sleep(0.01),
        kill_agent=lambda name: engine.kill(f"bastion-0a1b2c3d4e5f-{name}", "SIGKILL"),
        pool=pool,
    )
    for each in engine.containers(all=True, filters={"label": ["bastion"]}):
        engine.remove_container(each["Id"], force=True)
    engine.close()
