"""The agent as a program: a real keeper, real processes, a folder as the bucket."""

from __future__ import annotations

import json
import os
import resource
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bastion.agent import main
from bastion.agent.agent import Agent
from bastion.agent.begin.begin import NOTHING_BEGUN
from bastion.agent.home import FolderHome, HomeGoneError
from bastion.agent.keeper.attempt.spool import marker
from bastion.agent.keeper.port import KeeperGoneError
from bastion.agent.keeper.socket.client import KeeperClient, spawn_keeper
from bastion.agent.machine.stray_processes import look
from bastion.agent.settings import AgentSettings
from bastion.clock import SystemClock
from bastion.lane import ThreadLane
from bastion.records.code.bundles import Bundles
from bastion.records.keys import layout
from bastion.spec import BundleRef, GitRef, Job, Process
from bastion.store.folder.local import LocalStore
from bundler.bundle.upload import bundle
from bundler.code import LocalDir
from tests.bastion.agent.real_machine import DEADLINE_S, REPOSITORY, Machine, agent_with, shell
from tests.rigs.agent import MACHINE, OF, start, stop
from tests.rigs.own_address import own_address


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """Run a machine with an agent."""
    made = Machine(tmp_path)
    made.begin()
    try:
        yield made
    finally:
        made.close()


def test_a_job_runs_and_its_environment_is_clean(machine: Machine) -> None:
    """A process sees what it was promised and nothing of the agent's; every byte is in the log."""
    machine.bucket.spec(shell("env; pwd", env={"COLOUR": "red"}))
    machine.bucket.instruct(start(devices={"h100": (2, 3)}))
    machine.until(lambda: "drained" in machine.bucket.told())
    end = machine.bucket.end()
    assert end is not None
    assert end.codes == (0,)
    lines = machine.bucket.log().decode().splitlines()
    env = dict(line.split("=", 1) for line in lines[:-1])
    assert env["COLOUR"] == "red"
    assert env["CUDA_VISIBLE_DEVICES"] == "2,3"
    assert env["BASTION_JOB_ID"] == OF.job
    assert "SECRET" not in env
    assert lines[-1].endswith("/code")
    assert machine.bucket.told() == ("claimed", "started", "ended", "drained")


def test_jobs_on_devices_of_several_types_share_none(tmp_path: Path) -> None:
    """The first devices of two types are two devices; a license is neither of them."""
    machine = Machine(tmp_path, "--resources=h100=2,a100=2,matlab=4")
    machine.begin()
    try:
        machine.bucket.spec(shell("echo see $CUDA_VISIBLE_DEVICES"))
        machine.bucket.instruct(start(devices={"h100": (0,), "a100": (0,), "matlab": (0,)}))
        machine.until(lambda: "drained" in machine.bucket.told())
        assert machine.bucket.log() == b"see 2,0\n"
    finally:
        machine.close()


def test_a_bucket_in_a_folder_may_be_shared_by_many_machines(machine: Machine) -> None:
    """A gang meets at its first machine's network address, not at loopback."""
    machine.bucket.spec(shell("echo $MASTER_ADDR $BASTION_HOSTS"))
    machine.bucket.instruct(start())
    machine.until(lambda: "drained" in machine.bucket.told())
    assert machine.bucket.log().decode().split() == [own_address()] * 2


def test_what_a_job_makes_in_its_folders_holds_up_no_other(machine: Machine) -> None:
    """Pipes for marks and notice, and a linked output folder, harm neither agent nor keeper."""
    line = "cd $BASTION_MARKS_DIR && mkfifo report checkpointed finished notice.json.new && "
    line += "rmdir output && ln -s /etc output && echo up && exec sleep 1000"
    machine.bucket.spec(shell(line))
    machine.bucket.instruct(start())
    machine.until(lambda: machine.bucket.log() == b"up\n")
    other = replace(OF, attempt=2, nonce="n2")
    machine.bucket.instruct(start(other))
    machine.until(lambda: machine.bucket.log(of=other) == b"up\n")
    machine.bucket.instruct(stop(), stop(other))
    machine.until(lambda: all("drained" in machine.bucket.told(of) for of in (OF, other)))
    assert not [entry for entry in machine.bucket.store.list("") if "/saved/" in entry.key]


def test_what_a_full_disk_swallowed_is_told(machine: Machine) -> None:
    """The log in the bucket ends with the number of missing bytes, and the end says so."""
    machine.bucket.spec(shell("mkfifo go; echo one; read _ <go; echo two two; exit 0"))
    machine.bucket.instruct(start())
    machine.until(lambda: machine.bucket.log() == b"one\n")
    (folder,) = machine.home.glob("work/*/code")
    before = resource.prlimit(machine.keeper_pid(), resource.RLIMIT_FSIZE)
    resource.prlimit(machine.keeper_pid(), resource.RLIMIT_FSIZE, (0, before[1]))
    (folder / "go").write_text("\n")
    machine.until(machine.bucket.end)
    resource.prlimit(machine.keeper_pid(), resource.RLIMIT_FSIZE, before)
    machine.until(lambda: "drained" in machine.bucket.told())
    log = b"one\n" + marker(8)
    assert machine.bucket.log() == log
    end = machine.bucket.end()
    assert end is not None
    assert (end.codes, end.sizes, end.dropped_bytes) == ((0,), (len(log),), 8)


def test_a_killed_agent_is_taken_over(machine: Machine) -> None:
    """Killing an agent (-9) neither affects a job nor loses a byte of its log."""
    machine.bucket.spec(
        shell("i=0; while [ $i -lt 60 ]; do echo line $i; sleep 0.02; i=$((i+1)); done")
    )
    machine.bucket.instruct(start())
    machine.until(lambda: machine.bucket.log())
    machine.kill()
    machine.begin()
    machine.until(lambda: "drained" in machine.bucket.told())
    expected = "".join(f"line {i}\n" for i in range(60)).encode()
    assert machine.bucket.log() == expected
    end = machine.bucket.end()
    assert end is not None
    assert (end.kind, end.codes, end.sizes) == ("exited", (0,), (len(expected),))


def test_a_killed_keeper_means_a_new_life_and_a_lost_host(machine: Machine) -> None:
    """After kill -9, strays are killed, the host ends as lost, and the next life serves."""
    machine.bucket.spec(shell("echo $$; exec sleep 1000"))
    machine.bucket.instruct(start())
    machine.until(lambda: machine.bucket.log().endswith(b"\n"))
    pid = int(machine.bucket.log())
    os.kill(machine.keeper_pid(), signal.SIGKILL)
    machine.until(lambda: "drained" in machine.bucket.told())
    end = machine.bucket.end()
    assert end is not None
    assert end.kind == "lost"
    stray = look(pid)
    assert stray is None or stray.zombie
    assert len(machine.bucket.store.list(layout.lives(MACHINE))) == 2


def test_a_flood_of_bytes_arrives_exactly(machine: Machine) -> None:
    """Megabytes of binary output on both streams are in the bucket byte for byte."""
    script = (
        "import hashlib,os,sys\n"
        "data=bytes(range(256))*4096\n"
        "for n in range(6): os.write(1 + n % 2, data)\n"
    )
    machine.bucket.spec(Job(name="train", processes=(Process(["python3", "-c", script]),)))
    machine.bucket.instruct(start())
    machine.until(lambda: "drained" in machine.bucket.told())
    assert machine.bucket.log() == bytes(range(256)) * 4096 * 6


def test_a_stop_comes_as_a_file_and_a_signal(machine: Machine) -> None:
    """The processes find the notice in their file at SIGTERM, and may end as they like."""
    line = "trap 'cat $BASTION_NOTICE_FILE; touch $BASTION_MARKS_DIR/finished; exit 5' TERM; "
    machine.bucket.spec(shell(line + "echo ready; while :; do sleep 0.01; done"))
    machine.bucket.instruct(start())
    machine.until(lambda: b"ready" in machine.bucket.log())
    machine.bucket.instruct(stop(reason="preempt"))
    machine.until(lambda: "drained" in machine.bucket.told())
    end = machine.bucket.end()
    assert end is not None
    assert (end.codes, end.notice, end.finished) == ((5,), "preempt", True)
    notice = json.loads(machine.bucket.log().splitlines()[-1])
    assert notice["reason"] == "preempt"
    assert notice["by"] == "ada"


def test_code_of_a_bundle_is_where_the_command_starts(machine: Machine, tmp_path: Path) -> None:
    """A bundled tree is the working directory, fresh for each job but fetched only once."""
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "greet.sh").write_text("echo hello >> said; cat said\n")
    bundled = bundle(LocalDir(str(tree)), Bundles(machine.bucket.store), start=tree)
    machine.bucket.spec(shell("sh greet.sh"), code=BundleRef(digest=bundled.digest))
    other = replace(OF, nonce="n2")
    machine.bucket.instruct(start(), start(other))
    for of in (OF, other):
        machine.drained(of)
        assert machine.bucket.log(of=of) == b"hello\n"


def test_a_bundle_that_is_missing_fails_the_set_up(machine: Machine) -> None:
    """A launch whose code is gone ends as set-up failed, in the bundler's words."""
    machine.bucket.spec(shell("true"), code=BundleRef(digest="0" * 64))
    machine.bucket.instruct(start())
    machine.until(lambda: "drained" in machine.bucket.told())
    end = machine.bucket.end()
    assert end is not None
    assert end.kind == "setup_failed"
    assert "no bundle 0000" in end.detail


def test_code_of_a_repository_is_checked_out(machine: Machine, tmp_path: Path) -> None:
    """A commit of a git repository is the working directory."""
    repo = tmp_path / "repo"
    git = ["git", "-C", str(repo), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "init", "-q", str(repo)], check=True)
    (repo / "say.sh").write_text("echo from git\n")
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "one"], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True).stdout
    code = GitRef(url=f"file://{repo}", commit=commit.decode().strip())
    machine.bucket.spec(shell("sh say.sh"), code=code)
    machine.bucket.instruct(start())
    machine.until(lambda: "drained" in machine.bucket.told())
    assert machine.bucket.log() == b"from git\n"


def test_one_agent_serves_a_home(machine: Machine) -> None:
    """A second agent for the same home refuses, and names the first."""
    machine.until(lambda: (machine.home / "agent.lock").exists() and machine.bucket.facts())
    second = agent_with("--root", f"file://{machine.root}", "--home", str(machine.home))
    assert second.returncode == 1
    assert f"process {machine.agent.pid}" in second.stderr


def test_what_an_agent_is_told_wrongly_is_one_line(tmp_path: Path) -> None:
    """A malformed resource ends the agent with one line that says what is allowed."""
    home = str(tmp_path / "home")
    said = agent_with("--root", f"file://{tmp_path}", "--home", home, "--resources", "h100=two")
    assert said.returncode == 1
    assert said.stderr.count("\n") == 1
    assert "resources.h100: 'two' is not a whole number of units" in said.stderr


def test_a_home_that_is_not_there_cannot_be_ended(tmp_path: Path) -> None:
    """A misspelt folder is reported in one line, and is not created."""
    end = [sys.executable, "-m", "bastion", "agent", "end", "--home", str(tmp_path / "nowhere")]
    said = subprocess.run(end, cwd=REPOSITORY, capture_output=True, text=True, timeout=DEADLINE_S)
    assert said.returncode == 1
    assert said.stderr.endswith("there is no such folder, nothing was ended\n")
    assert said.stderr.count("\n") == 1
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("has_home", [False, True])
def test_a_folder_that_is_no_home_cannot_be_ended(tmp_path: Path, has_home: bool) -> None:
    """Nothing is written there; for a machine's folder, the error names its home."""
    if has_home:
        (tmp_path / "home").mkdir()
        (tmp_path / "home" / "agent.lock").touch()
    before = sorted(tmp_path.rglob("*"))
    end = [sys.executable, "-m", "bastion", "agent", "end", "--home", str(tmp_path)]
    said = subprocess.run(end, cwd=REPOSITORY, capture_output=True, text=True, timeout=DEADLINE_S)
    assert said.returncode == 1
    told = f"home {tmp_path}: no agent ever lived there, nothing was ended"
    instead = f"; write --home={tmp_path / 'home'}" if has_home else ""
    assert said.stderr.endswith(f"{told}{instead}\n")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_home_that_was_ended_is_never_served_again(machine: Machine) -> None:
    """Ending a home kills agent, keeper and jobs; no agent starts there afterwards."""
    machine.bucket.spec(shell("trap '' TERM; echo $$; while :; do sleep 0.05; done"))
    machine.bucket.instruct(start(grace_s=0.2))
    machine.until(lambda: machine.bucket.log().endswith(b"\n"))
    pid, keeper = int(machine.bucket.log()), machine.keeper_pid()
    end = [sys.executable, "-m", "bastion", "agent", "end", "--home", str(machine.home)]
    subprocess.run(end, cwd=REPOSITORY, check=True, timeout=DEADLINE_S)
    assert machine.agent.wait(DEADLINE_S) == -signal.SIGTERM
    for each in (pid, keeper):
        seen = look(each)
        assert seen is None or seen.zombie
    assert (machine.home / "ended").exists()
    machine.begin()
    assert machine.agent.wait(DEADLINE_S) == 1
    subprocess.run(end, cwd=REPOSITORY, check=True, timeout=DEADLINE_S)


@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_removed_home_ends_all_that_ran_there(machine: Machine, is_made_again: bool) -> None:
    """Once the folder of a machine is deleted, no job runs there and no agent takes more."""
    machine.bucket.spec(shell("trap '' TERM; echo $$; while :; do sleep 0.05; done"))
    machine.bucket.instruct(start(grace_s=1000.0))
    machine.until(lambda: machine.bucket.log().endswith(b"\n"))
    pid, keeper = int(machine.bucket.log()), machine.keeper_pid()
    shutil.move(machine.home, machine.root.parent / "removed")
    if is_made_again:
        machine.home.mkdir()
        (machine.home / "agent.lock").touch()
    assert machine.agent.wait(DEADLINE_S) == 1
    for each in (pid, keeper):
        seen = look(each)
        assert seen is None or seen.zombie
    assert is_made_again == machine.home.exists()
    log = (machine.root.parent / "removed" / "agent.log").read_text()
    assert log.endswith(f"home {machine.home} was removed: what ran here is killed\n")


def test_calls_on_threads_change_nothing(tmp_path: Path) -> None:
    """With every call to the store on a thread, as on clouds, jobs end the same way."""
    machine = Machine(tmp_path)
    machine.home.mkdir()
    keeper = spawn_keeper(machine.home, life=1, permit_s=30.0)
    lane = ThreadLane("test", workers=6)
    said: list[str] = []
    agent = Agent(
        machine.bucket.store,
        keeper,
        SystemClock(),
        AgentSettings(machine=MACHINE, permit_s=30.0),
        lane,
        lambda: secrets.token_hex(8),
        home=FolderHome(machine.home),
        ports=lambda: 29500,
        say=said.append,
        long_lane=lane,
    )
    hosts = [replace(OF, job=f"train-{n}") for n in range(20)]
    machine.bucket.spec(shell("echo hello; echo world >&2"))
    machine.bucket.instruct(*(start(of) for of in hosts))
    try:
        deadline = time.monotonic() + DEADLINE_S
        while not all("drained" in machine.bucket.told(of) for of in hosts):
            assert time.monotonic() < deadline, said
            for _ in range(20):
                if not agent.turn():
                    lane.wait(0.01)
        for of in hosts:
            assert machine.bucket.log(of=of) == b"hello\nworld\n"
            assert machine.bucket.told(of) == ("claimed", "started", "ended", "drained")
    finally:
        lane.close()
        machine.close()


@pytest.mark.parametrize("hold_s", [0.0, 60.0])
@pytest.mark.parametrize(
    "harm",
    [
        r"""printf '%s' '{"setup_failure":"\ud800"}' > $BASTION_MARKS_DIR/container.json""",
        "cd /; rm -rf $BASTION_MARKS_DIR; touch $BASTION_MARKS_DIR",
    ],
    ids=["word", "file"],
)
def test_no_file_of_a_job_ends_its_agent(machine: Machine, harm: str, hold_s: float) -> None:
    """Whatever a failed job leaves, held or not, its end is written, and others run."""
    machine.bucket.spec(shell(f"echo up; {harm}; exit 1"))
    machine.bucket.instruct(start(hold_s=hold_s))
    machine.until(lambda: {"held", "ended"} & set(machine.bucket.told()))
    other = replace(OF, attempt=2, nonce="n2")
    machine.bucket.instruct(stop(), start(other))
    machine.until(lambda: all("drained" in machine.bucket.told(of) for of in (OF, other)))
    end = machine.bucket.end()
    assert end is not None
    assert end.kind in ("exited", "setup_failed")
    assert machine.agent.poll() is None


def test_a_start_that_meets_an_ending_keeper_is_lost(machine: Machine) -> None:
    """It has not failed: the next attempt may start where it is told to."""
    machine.bucket.spec(shell("trap '' TERM; echo up; while true; do sleep 0.2; done"))
    machine.bucket.instruct(start(grace_s=30.0))
    machine.until(lambda: machine.bucket.log() == b"up\n")
    os.kill(machine.keeper_pid(), signal.SIGTERM)
    (notice,) = (machine.home / "work").iterdir()
    machine.until((notice / "notice.json").exists)
    other = replace(OF, attempt=2, nonce="n2")
    machine.bucket.instruct(start(other))
    machine.until(lambda: machine.bucket.end(other))
    end = machine.bucket.end(other)
    assert end is not None
    assert (end.kind, end.by_machine) == ("lost", False)
    assert end.detail == "it was not started: the keeper is ending"


def test_a_keeper_that_dies_before_the_first_turn_is_followed_by_a_new_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent does not end with it: it starts again, and lets go of its connections."""
    made: list[KeeperClient] = []

    def make(_store: object, keeper: KeeperClient, *_: object, **_more: object) -> Agent:
        made.append(keeper)
        if len(made) == 1:
            raise KeeperGoneError("it died")
        raise HomeGoneError("enough")

    monkeypatch.setattr(main, "Agent", make)
    home = tmp_path / "home"
    home.mkdir()
    root = tmp_path / "root"
    settings = AgentSettings(machine=MACHINE, root_url=f"file://{root}", home=str(home))
    store = LocalStore(root, makes_root=True)
    with pytest.raises(HomeGoneError):
        main._serve(store, settings, home, FolderHome(home), None, NOTHING_BEGUN)
    assert [keeper.life for keeper in made] == [1, 1]
    with pytest.raises(KeeperGoneError, match="this connection to the keeper is closed"):
        made[0].poll(0.0)
