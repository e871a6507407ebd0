"""A pool of containers, from an empty folder to a job that has run and a machine that ended."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from bastion.records import layout
from tests.end_to_end.admin_files import QUOTA
from tests.end_to_end.programs import REPOSITORY, Programs, until
from tests.end_to_end.roots import folder_root
from tests.servers.dockerd import IMAGE, dockerd, has_shell, needs_dockerd
from tests.servers.engine import FakeEngine

pytestmark = pytest.mark.end_to_end

CONFIG = """
[pools.boxes]
provider = "docker"
image = "{image}"
network = "host"
resources = {{ cpu = 1, memory = "2GiB" }}
max_machines = 1
idle_timeout = "2s"
options = {{ host = "{host}", folder = "{folder}", python = "{python}", mounts = "{mounts}" }}
"""


@contextmanager
def fake_engine(folder: Path) -> Iterator[tuple[str, str]]:
    """Containers that are processes, which see every file; its address, and no mounts."""
    engine = FakeEngine(folder / "docker.socket", images={IMAGE})
    engine.open()
    try:
        yield f"unix://{engine.path}", ""
    finally:
        engine.end()


@contextmanager
def real_engine(folder: Path) -> Iterator[tuple[str, str]]:
    """A real engine, whose image has a shell alone; its address, and mounts that have Python."""
    # Addresses of sockets are short, and an engine has some deep below its folder.
    with TemporaryDirectory(prefix="engine") as short, dockerd(Path(short)) as made:
        made.load_image()
        system = ["/usr", "/lib", "/lib64", "/etc/passwd"]
        needed = [*system, sys.base_prefix, sys.prefix, str(REPOSITORY)]
        there = [path for path in dict.fromkeys(needed) if Path(path).exists()]
        yield made.daemon, ",".join(f"{path}:{path}:ro" for path in there)
        for container in made.docker("ps", "-aq").split():
            sys.stdout.write(made.docker("logs", container))
            made.docker("rm", "-f", container)


no_shell = pytest.mark.skipif(not has_shell(), reason="needs busybox-static")
Engine = Callable[[Path], AbstractContextManager[tuple[str, str]]]


@pytest.fixture(
    params=[
        pytest.param(fake_engine, id="fake"),
        pytest.param(real_engine, id="docker", marks=[*needs_dockerd, no_shell]),
    ]
)
def boxes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Programs]:
    """A bastion whose one machine is a container."""
    engine: Engine = request.param
    (tmp_path / "engine").mkdir()
    (tmp_path / "root").mkdir()
    with folder_root(tmp_path) as place, engine(tmp_path / "engine") as (host, mounts):
        config = CONFIG.format(
            image=IMAGE,
            host=host,
            mounts=mounts,
            python=sys.executable,
            folder=tmp_path / "box",
        )
        place.store.create(layout.QUOTA, QUOTA.encode())
        place.store.create(layout.CONFIG, config.encode())
        on = Programs(tmp_path, place)
        try:
            on.serve()
            yield on
        finally:
            on.stop_everything()
            sys.stdout.write(on.served)


def test_a_job_runs_in_a_container_that_ends(boxes: Programs) -> None:
    """A container gets an agent from the bucket, runs a job, and is deleted when it is idle."""
    ran = boxes.run("run", "--resources=cpu=1", "--project_id=red", "--shell", "--", "echo here")
    assert ran.stdout == "here\n"
    until(lambda: not boxes.json("machines")["machines"], "its machine leaves the records")
