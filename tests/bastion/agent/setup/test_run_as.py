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

import pytest

from bastion.agent.home import FolderHome
from bastion.agent.host.container_start import contained
from bastion.agent.host.start_request import attempt_start
from bastion.agent.keeper.fake import Script
from bastion.agent.keeper.port import AttemptStart, IdleRule, KeeperError, ProcessStart, RunAs
from bastion.agent.keeper.socket.client import KeeperClient
from bastion.agent.machine.job_files import give_away
from bastion.agent.settings import AgentSettings
from bastion.agent.setup.prepare import Prepared
from bastion.agent.setup.run_as import give_contents, hand_over, open_home, user_of
from bastion.errors import SpecError
from bastion.spec import Job, Launch, Process
from tests.bastion.agent.real_machine import Machine
from tests.rigs.agent import MACHINE, Rig, job, start
from tests.rigs.keepers import IGNORES, RealWorld, attempt, shell

NOBODY = RunAs(uid=65534, gid=65534, groups=(65534,))

SETTINGS = AgentSettings(machine=MACHINE, run_as=NOBODY, user="nobody", user_home="/nowhere")

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")


@pytest.fixture
def open_path() -> Iterator[Path]:
    """A folder of root's that every user can reach."""
    made = Path(tempfile.mkdtemp())
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture(params=["cgroups", "no-cgroups"])
def world(request: pytest.FixtureRequest, open_path: Path) -> Iterator[RealWorld]:
    """A real keeper of root's."""
    made = RealWorld(open_path / "home", use_cgroups=request.param == "cgroups")
    yield made
    made.close()


def test_a_job_is_that_user_and_no_other(world: RealWorld) -> None:
    """User, group and groups are those that were named, and no right of root's is left."""
    line = "id -u; id -g; id -G; grep CapEff /proc/self/status; umask; pwd"
    world.keeper.start(attempt("a", line, run_as=NOBODY, umask=0o027))
    assert world.ended("a").processes[0].code == 0
    said = world.log("a").decode().split("\n")
    assert said[:3] == ["65534", "65534", "65534"]
    assert said[3].split() == ["CapEff:", "0" * 16]
    assert said[4:6] == ["0027", "/tmp"]


def test_what_is_the_keepers_stays_the_keepers(world: RealWorld) -> None:
    """Socket, journal, spool and environment of the keeper are out of the job's reach."""
    keeper = world.home / "keeper"
    refused = [f"cat {keeper}/journal", f"ls {keeper}/spool", f"kill -0 {world.pid}"]
    refused += [f"cat /proc/{world.pid}/environ", f"test -w {keeper}/socket"]
    line = "; ".join(f"{each} 2>/dev/null && echo {number}" for number, each in enumerate(refused))
    world.keeper.start(attempt("a", f"{line}; exit 0", run_as=NOBODY))
    world.ended("a")
    assert world.log("a") == b""


def test_such_a_job_is_stopped_and_killed(world: RealWorld) -> None:
    """A deaf job and the daemon that it left behind are killed at the end of the grace."""
    daemon = "setsid sh -c 'trap \"\" TERM; exec sleep 1000' & "
    world.keeper.start(attempt("a", daemon + IGNORES, run_as=NOBODY))
    world.wrote("a")
    world.keeper.stop("a", reason="cancel", by="ann", grace_s=0.05)
    assert world.ended("a").processes[0].signal == signal.SIGKILL


def test_a_clean_up_is_that_user_too(world: RealWorld) -> None:
    """`on_end` has no more rights than the job."""
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
def test_what_such_a_job_cannot_start_says_why(
    world: RealWorld, process: ProcessStart, why: str
) -> None:
    """A program or directory that the user may not use is a failed set-up in words."""
    world.keeper.start(attempt("a", process, run_as=NOBODY))
    record = world.ended("a")
    assert why in record.processes[0].setup_failure
    assert record.machine_fault == ""


def test_the_keeper_runs_no_program_of_such_a_job(world: RealWorld, open_path: Path) -> None:
    """Programs that watch over a job come from the system's folders, not from its `PATH`."""
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


def test_root_is_no_such_user(world: RealWorld) -> None:
    """A request to run as root is refused: that is what naming no user means."""
    assert isinstance(world.keeper, KeeperClient)
    with pytest.raises(KeeperError, match="run_as 0 is impossible"):
        world.keeper.start(attempt("a", "true", run_as=RunAs(uid=0, gid=0)))


def test_the_user_is_found_by_its_name() -> None:
    """A name gives the user's numbers; root, and who is not there, are refused in words."""
    found = pwd.getpwuid(65534)
    assert user_of(found.pw_name) == replace(NOBODY, gid=found.pw_gid, groups=(found.pw_gid,))
    for name, why in (("root", "is root"), ("no-such-user", "has no user")):
        with pytest.raises(SpecError, match=why):
            user_of(name)


def test_a_home_that_the_user_cannot_reach_is_told(open_path: Path) -> None:
    """The folder that keeps the user out is named; without one, only its own path is opened."""
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


def test_folders_are_given_whole_and_last(open_path: Path) -> None:
    """Everything in a host's folder becomes the user's, links themselves, and then the folder."""
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


def test_a_folder_that_is_gone_cannot_be_given(open_path: Path) -> None:
    """What cannot be given away is an error, and no half of a gift passes for a whole."""
    with pytest.raises(FileNotFoundError):
        give_away(f"{open_path}/none", 65534, 65534)


def test_a_container_has_that_user_and_its_program_has_not() -> None:
    """The engine is asked by the keeper's user; what it runs is the user that was named."""
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
    """The folders of a host are the user's before its processes start, and so are their names."""
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


def test_the_keeper_is_told_of_that_user(open_path: Path) -> None:
    """What the agent asks the keeper to start names the user of its settings."""
    launch = Launch(name="launch", jobs=(job(),), project="vision")
    prepared = Prepared(folders=FolderHome(open_path).folders("k"))
    wanted = attempt_start(
        "k", start(), (launch, job()), prepared, SETTINGS, addresses=("127.0.0.1",), port=1
    )
    assert wanted.run_as == NOBODY


def test_a_real_agent_runs_jobs_as_that_user(open_path: Path) -> None:
    """A job is the user, writes where it should, and is kept from the agent's files."""
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
