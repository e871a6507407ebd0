"""The body of a container, derived from the request."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from bastion.agent.containers import watch
from bastion.agent.containers.engine import Engine
from bastion.agent.containers.program import make_shared, remove
from bastion.agent.errands import Errands
from bastion.agent.home import Folders
from bastion.agent.host.container_start import contained
from bastion.agent.keeper.fake import FakeHome, FakeKeeper, Script
from bastion.agent.keeper.port import AttemptStart, ProcessStart
from bastion.agent.settings import AgentSettings
from bastion.clock import VirtualClock
from bastion.lane import InlineLane
from bastion.spec import Process, Resources
from tests.rigs import trees
from tests.servers.engine import FakeEngine

FOLDERS = Folders(
    code="/w/code",
    output="/w/output",
    marks="/w",
    notice_file="/w/n",
    secrets="/w/s",
    python="/w/p",
)
SETTINGS = AgentSettings(machine="m", home="/home", engine_socket="/run/docker.sock")


def made(
    *asked: Process, devices: dict[str, tuple[int, ...]] | None = None
) -> tuple[AttemptStart, list[dict[str, Any]]]:
    """Return an attempt in containers, and the body of each."""
    one = ProcessStart(argv=("python", "a.py"), env={"SECRET": "x"}, cwd="/w/code")
    plain = AttemptStart(
        key="p/j/a1-x/r0/h0", processes=(one,) * len(asked), grace_s=1.0, memory_limit_bytes=5
    )
    attempt = contained(
        plain, "h/x@sha256:1", FOLDERS, SETTINGS, processes=asked, devices=devices or {}, hosts=1
    )
    return attempt, [json.loads(process.argv[-3]) for process in attempt.processes]


def test_a_container_is_given_what_it_asked_for_and_no_more() -> None:
    """It has no GPU, no limit and no privilege without a request."""
    _, (body,) = made(Process(["x"]))
    host = body["HostConfig"]
    assert not host.keys() & {"Privileged", "DeviceRequests", "Memory", "Ulimits", "CapAdd"}
    assert host["CapDrop"] == ["ALL"]
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert host["Devices"] == []
    assert [mount["Target"] for mount in host["Mounts"]] == ["/w", "/dev/shm"]


def test_gpus_and_memory_are_those_assigned() -> None:
    """Every container of a host sees the GPUs of its attempt there; each has a memory limit."""
    asked = (Process(["x"], resources=Resources(h100=1, memory="1GiB")), Process(["x"]))
    attempt, (first, second) = made(*asked, devices={"h100": (6, 3), "cpu": (), "memory": ()})
    for body in (first, second):
        (request,) = body["HostConfig"]["DeviceRequests"]
        assert request == {"DeviceIDs": ["3", "6"], "Capabilities": [["gpu"]]}
    assert first["HostConfig"]["Memory"] == first["HostConfig"]["MemorySwap"] == 1 << 30
    assert "Memory" not in second["HostConfig"]
    assert attempt.memory_limit_bytes is None


def test_no_variable_stands_in_an_argument() -> None:
    """Values are in the program's own environment, behind a prefix; names differ by index."""
    attempt, _ = made(Process(["x"]), Process(["x"]))
    first, second = attempt.processes
    assert first.env == {"+SECRET": "x"}
    assert not any("SECRET" in word for word in first.argv)
    assert first.argv[-2:] == ("python", "a.py")
    assert first.argv != second.argv
    assert "bastion.attempt=/home:p/j/a1-x/r0/h0" in attempt.undo


USER = f"{os.getuid()}:{os.getgid()}"


def test_the_shared_folder_is_of_one_user_alone(tmp_path: Path) -> None:
    """It is created only for its user, once for all containers of one attempt."""
    folder = tmp_path / "bastion-1"
    make_shared(str(folder), USER)
    make_shared(str(folder), USER)
    assert folder.stat().st_mode & 0o777 == 0o700


def test_what_a_job_left_in_memory_is_removed_however_deep(tmp_path: Path) -> None:
    """An attempt is over only when this succeeds, and a job may put anything into /dev/shm."""
    engine = FakeEngine(tmp_path / "s", images=set(), registry=frozenset())
    engine.open()
    try:
        left = trees.write_deep(tmp_path / "bastion-1")
        assert remove(str(engine.path), "bastion.attempt=k", str(left)) == 0
        assert not left.exists()
    finally:
        engine.end()


def test_what_another_user_put_there_is_not_shared(tmp_path: Path) -> None:
    """A link, a file or a folder that other users can read is refused and left as it is."""
    other = tmp_path / "other"
    other.mkdir(mode=0o755)
    (tmp_path / "link").symlink_to(other)
    (tmp_path / "file").touch()
    for name in ("link", "file", "other"):
        with pytest.raises(FileExistsError, match="another user of this machine has made it"):
            make_shared(str(tmp_path / name), USER)
    assert other.stat().st_mode & 0o777 == 0o755


def test_an_engine_that_hangs_holds_up_no_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first check is short; a later answer of the engine causes a new greeting."""
    monkeypatch.setattr(watch, "_FIRST_S", 0.05)
    path = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        errands = Errands(InlineLane(), InlineLane(), retry_s=1.0, say=lambda _: None)
        keeper = FakeKeeper(FakeHome(), VirtualClock(), lambda _: Script(), life=1)
        watching = watch.EngineWatch(
            Engine(str(path)), keeper, errands, home=str(tmp_path), say=lambda _: None
        )
    assert not watching.is_well
