"""Jobs that run as another user than their keeper and agent."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from bastion.agent.home import FolderHome
from bastion.agent.host.container_start import contained
from bastion.agent.host.start_request import attempt_start
from bastion.agent.keeper.fake import Script
from bastion.agent.keeper.port import AttemptStart, IdleRule, KeeperError, ProcessStart, RunAs
from bastion.agent.keeper.socket.client import KeeperClient
from bastion.agent.machine.job_files import give_away
from bastion.agent.main import login
from bastion.agent.settings import AgentSettings
from bastion.agent.setup.prepare import Prepared, SetupContext, with_python
from bastion.agent.setup.python_env import Recipe
from bastion.agent.setup.run_as import give_contents, hand_over, open_home, user_of
from bastion.errors import SpecError
from bastion.spec import Job, Launch, Process
from tests.bastion.agent.real_machine import Machine
from tests.rigs.agent import MACHINE, OF, Rig, job, start
from tests.rigs.keepers import IGNORES, RealWorld, attempt, shell

NOBODY = RunAs(uid=65534, gid=65534, groups=(65534,))

SETTINGS = AgentSettings(machine=MACHINE, run_as=NOBODY, user="nobody", user_home="/nowhere")

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")


@pytest.fixture
def open_path() -> Iterator[Path]:
    """Provide a folder of root's that every user can reach."""
    made = Path(tempfile.mkdtemp())
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture(params=["cgroups", "no-cgroups"])
def world(request: pytest.FixtureRequest, open_path: Path) -> Iterator[RealWorld]:
    """A real keeper that runs as root."""
    made = RealWorld(open_path / "home", use_cgroups=request.param == "cgroups")
    yield made
    made.close()


def test_a_job_runs_as_that_user_alone(world: RealWorld) -> None:
    """User, group and groups are the requested ones, and no permission of root remains."""
    line = "id -u; id -g; id -G; grep CapEff /proc/self/status; umask; pwd"
    world.keeper.start(attempt("a", line, run_as=NOBODY, umask=0o027))
    assert world.ended("a").processes[0].code == 0
    said = world.log("a").decode().split("\n")
    assert said[:3] == ["65534", "65534", "65534"]
    assert said[3].split() == ["CapEff:", "0" * 16]
    assert said[4:6] == ["0027", "/tmp"]


def test_files_of_the_keeper_are_out_of_reach(world: RealWorld) -> None:
    """A job cannot read socket, journal, spool or environment of the keeper."""
    keeper = world.home / "keeper"
    refused = [f"cat {keeper}/journal", f"ls {keeper}/spool", f"kill -0 {world.pid}"]
    refused += [f"cat /proc/{world.pid}/environ", f"test -w {keeper}/socket"]
    line = "; ".join(f"{each} 2>/dev/null && echo {number}" for number, each in enumerate(refused))
    world.keeper.start(attempt("a", f"{line}; exit 0", run_as=NOBODY))
    world.ended("a")
    assert world.log("a") == b""


def test_a_job_of_another_user_is_stopped_and_killed(world: RealWorld) -> None:
    """A job that ignores SIGTERM, and its daemon, are killed at the end of the grace period."""
    daemon = "setsid sh -c 'trap \"\" TERM; exec sleep 1000' & "
    world.keeper.start(attempt("a", daemon + IGNORES, run_as=NOBODY))
    world.wrote("a")
    world.keeper.stop("a", reason="cancel", by="ann", grace_s=0.05)
    assert world.ended("a").processes[0].signal == signal.SIGKILL


def test_a_clean_up_runs_as_that_user_too(world: RealWorld) -> None:
    """`on_end` has no more permissions than the job."""
    world.keeper.start(attempt("a", "exit 0", on_end="id -u", on_end_s=10.0, run_as=NOBODY))
    world.ended("a")
    assert world.log("a").endswith(b"]\n65534\n")


@pytest.mark.parametrize(
    ("process", "why"),
    [
        (ProcessStart(argv=("/no/such",), env={}, cwd="/"), "No such file"),
        (ProcessStart(argv=("/etc/passwd",), env={}, cwd="/"), "Permission denied"),
        (ProcessStart(argv=("/bin/ls",), env={}, cwd="/root"), "Permission denied"),
        (ProcessStart(argv=("/bin/ls",), env={}, cwd="/no/dir"), "no such directory: /no/dir"),
    ],
)
def test_a_program_that_the_user_may_not_start_is_an_error(
    world: RealWorld, process: ProcessStart, why: str
) -> None:
    """A program or directory that the user may not use is a failed set-up with a reason."""
    world.keeper.start(attempt("a", process, run_as=NOBODY))
    record = world.ended("a")
    assert why in record.processes[0].setup_failure
    assert record.machine_fault == ""


def test_the_keeper_runs_no_program_of_a_job(world: RealWorld, open_path: Path) -> None:
    """Tools of the keeper come from the system's folders, not from the job's `PATH`."""
    folder = open_path / "bin"
    folder.mkdir()
    for name in ("nvidia-smi", "py-spy"):
        (folder / name).write_text(f"#!/bin/sh\nid -u >>{open_path}/was_run\n")
        (folder / name).chmod(0o755)
    rule = IdleRule(timeout_s=0.3, devices=(0,))
    one = shell("exec sleep 1000", PATH=f"{folder}:/usr/bin:/bin")
    world.keeper.start(attempt("a", one, idle=rule, run_as=NOBODY))
    assert world.ended("a").idle
    assert not (open_path / "was_run").exists()


def test_run_as_root_is_refused(world: RealWorld) -> None:
    """A request to run as root is refused; a request without a user means the keeper's own."""
    assert isinstance(world.keeper, KeeperClient)
    with pytest.raises(KeeperError, match="run_as 0 is impossible"):
        world.keeper.start(attempt("a", "true", run_as=RunAs(uid=0, gid=0)))


def test_the_user_is_looked_up_by_name() -> None:
    """A name gives the user's numbers; root and unknown users are refused with a reason."""
    found = pwd.getpwuid(65534)
    assert user_of(found.pw_name) == replace(NOBODY, gid=found.pw_gid, groups=(found.pw_gid,))
    for name, why in (("root", "is root"), ("no-such-user", "has no user")):
        with pytest.raises(SpecError, match=why):
            user_of(name)


def test_a_home_that_the_user_cannot_reach_is_an_error(open_path: Path) -> None:
    """The error names the closed folder; without one, only the home's own path is opened."""
    home = open_path / "closed" / "home"
    home.mkdir(parents=True)
    (open_path / "closed").chmod(0o700)
    with pytest.raises(SpecError, match="closed has mode 700"):
        open_home(home, NOBODY)
    (open_path / "closed").chmod(0o711)
    (home / "keeper").mkdir(mode=0o700)
    open_home(home, NOBODY)
    modes = {path.name: path.stat().st_mode & 0o777 for path in home.iterdir()}
    assert modes == {"work": 0o711, "cache": 0o711, "keeper": 0o700, "numbers": 0o700}


def test_contents_are_handed_over_before_the_folder(open_path: Path) -> None:
    """The contents of a host's folder, links themselves included, get the user, then the folder."""
    home = FolderHome(open_path)
    folders = home.folders("key")
    Path(folders.code, "sub").mkdir()
    Path(folders.code, "sub", "file").touch()
    Path(folders.code, "link").symlink_to("/etc/passwd")
    give_contents(folders.marks, NOBODY)
    base = Path(folders.marks)
    assert {path.lstat().st_uid for path in base.rglob("*")} == {NOBODY.uid}
    assert Path("/etc/passwd").stat().st_uid == 0
    assert base.stat().st_uid == 0
    hand_over(folders.marks, NOBODY)
    assert base.stat().st_uid == NOBODY.uid
    home.take_back("key")
    assert not base.exists()
    home.take_back("key")


def test_a_missing_folder_cannot_be_handed_over(open_path: Path) -> None:
    """A change of owner that fails, even in part, is an error."""
    with pytest.raises(FileNotFoundError):
        give_away(f"{open_path}/none", 65534, 65534)


def test_a_container_runs_as_that_user_and_its_program_does_not() -> None:
    """Requests to the engine come from the keeper's user; the container has the job's user."""
    settings = AgentSettings(machine="m", home="/home", engine_socket="/s", run_as=NOBODY)
    one = ProcessStart(argv=("python",), env={}, cwd="/w")
    plain = AttemptStart(key="k", processes=(one,), grace_s=1.0, run_as=NOBODY)
    with tempfile.TemporaryDirectory() as folder:
        folders = FolderHome(Path(folder)).folders("k")
        made = contained(
            plain, "i", folders, settings, processes=[Process(["x"])], devices={}, hosts=1
        )
    assert made.run_as is None
    assert '"User": "65534:65534"' in made.processes[0].argv[-2]


def test_an_agent_prepares_for_that_user() -> None:
    """A host's folders belong to the user before its processes start, and so do their names."""
    owners: list[int] = []

    def script(process: ProcessStart) -> Script:
        base = Path(process.cwd).parent
        owners.extend(path.stat().st_uid for path in (base, *base.iterdir()))
        assert process.env["USER"] == "nobody"
        return Script()

    rig = Rig(script, settings=SETTINGS)
    rig.bucket.spec(job())
    rig.bucket.instruct(start())
    rig.pass_s(1)
    assert set(owners) == {NOBODY.uid}
    assert rig.bucket.told() == ("claimed", "started", "ended", "drained")


def test_an_interpreter_that_the_user_cannot_reach_is_named(open_path: Path) -> None:
    """For one below /root, the error names the closed folder before anything starts."""
    closed, folder = open_path / "closed", open_path / "env"
    (closed / "bin").mkdir(parents=True)
    (closed / "bin" / "python3").touch()
    (folder / "try-1" / "bin").mkdir(parents=True)
    (folder / "try-1" / "bin" / "python").symlink_to(closed / "bin" / "python3")
    (folder / "whole").write_text("try-1")
    recipe = Recipe(
        digest="d", folder=folder, lock=folder, is_uv=False, has_hashes=False, interpreter="python3"
    )
    prepared = Prepared(folders=FolderHome(open_path).folders("k"), recipe=recipe)
    context = cast(SetupContext, SimpleNamespace(settings=SETTINGS))
    errors: list[Exception] = []
    closed.chmod(0o700)
    made = with_python(context, OF, prepared, now=0.0, otherwise=errors.append, waits=lambda: True)
    assert not made.is_whole
    assert f"{closed} is closed to it" in str(errors)
    closed.chmod(0o755)
    made = with_python(context, OF, prepared, now=0.0, otherwise=errors.append, waits=lambda: True)
    assert made.is_whole
    assert len(errors) == 1


def test_the_start_request_names_that_user(open_path: Path) -> None:
    """The agent's start request has the user of its settings."""
    launch = Launch(name="launch", jobs=(job(),), project="vision")
    prepared = Prepared(folders=FolderHome(open_path).folders("k"))
    wanted = attempt_start(
        "k", start(), (launch, job()), prepared, SETTINGS, addresses=("127.0.0.1",), port=1
    )
    assert wanted.run_as == NOBODY


def test_a_real_agent_runs_jobs_as_that_user(open_path: Path) -> None:
    """A job runs as the user, can write its output, and cannot read the agent's files."""
    name = pwd.getpwuid(NOBODY.uid).pw_name
    machine = Machine(open_path, f"--run_as={name}")
    machine.begin()
    try:
        line = "id -un; pwd; echo 1 >$BASTION_OUTPUT_DIR/model; : >$BASTION_MARKS_DIR/finished; "
        line += "cat ../../../numbers/bells ../../../agent.lock; ls ../../.. ../.. ../../../cache"
        machine.bucket.spec(Job(name="train", processes=(Process(line, shell=True),)))
        machine.bucket.instruct(start())
        machine.until(lambda: "drained" in machine.bucket.told())
        end = machine.bucket.end()
        assert end is not None
        assert (end.kind, end.finished) == ("exited", True)
        said = machine.bucket.log().decode().split("\n")
        assert said[0] == name
        assert said[1].endswith("/code")
        refused = [each for each in said[2:] if each]
        assert len(refused) == 5
        assert all("Permission denied" in each for each in refused), refused
        kept = [entry.key for entry in machine.bucket.store.list("") if "/saved/" in entry.key]
        assert len(kept) == 1
    finally:
        machine.close()


def test_a_home_stays_open_to_the_jobs_of_an_earlier_agent(
    open_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that restarts closes none of the folders that lead to theirs."""
    open_home(open_path, NOBODY)
    modes: dict[Path, list[int]] = {}
    real = Path.chmod

    def chmod(path: Path, mode: int) -> None:
        modes.setdefault(path, []).append(mode)
        real(path, mode)

    monkeypatch.setattr(Path, "chmod", chmod)
    open_home(open_path, NOBODY)
    passed = [open_path / name for name in ("work", "cache", "cache/python")]
    assert [modes[folder] for folder in passed] == [[0o711]] * 3
    assert modes[open_path / "numbers"] == [0o700]


def test_a_user_without_a_name_is_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod may run as any number: its agent starts, and its jobs get the home of the pod."""
    monkeypatch.setenv("HOME", "/data")
    assert login(os.getuid()) == (
        pwd.getpwuid(os.getuid()).pw_name,
        pwd.getpwuid(os.getuid()).pw_dir,
    )
    assert login(2_000_000_001) == ("2000000001", "/data")
    monkeypatch.delenv("HOME")
    assert login(2_000_000_001) == ("2000000001", "/")
