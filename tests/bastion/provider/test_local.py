"""What only machines on this machine promise: real processes, none of them left behind."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bastion.clock import VirtualClock
from bastion.machine import Machine, Pool
from bastion.provider.local import COMMAND, LocalProvider
from bastion.provider.machine_folder import remove_tree
from bastion.spec import Job, Process
from bastion.store.folder.local import LocalStore
from quota.amounts import Amounts
from tests.rigs import trees
from tests.rigs.agent import MACHINE, Bucket, start

POOL = Pool(
    name="pool",
    provider="local",
    resources=Amounts({"h100": 2, "memory": 1 << 30}),
    max_machines=2,
    labels={"shard": "rl", "cluster": "primary"},
)
DEADLINE_S = 30.0
WEEK_S = 7 * 86400.0


class Site:
    """A bucket, and machines that serve it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "machines"
        self.clock = VirtualClock(wall=time.time())
        self.bucket = Bucket(LocalStore(folder / "root", makes_root=True))
        self.provider = LocalProvider(
            f"file://{folder}/root", self.folder, self.clock, build="this"
        )
        self.machine = Machine(name=MACHINE, pool="pool")

    def state(self) -> str:
        """Return the state of the single machine."""
        return next((listed.state for listed in self.provider.list()), "")

    def until(self, holds: Callable[[], object]) -> None:
        """Wait until something holds."""
        deadline = time.monotonic() + DEADLINE_S
        while not holds():
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def delete(self) -> None:
        """Delete the machine and wait until it is gone."""
        self.provider.delete(MACHINE)
        self.until(lambda: self.state() in ("gone", ""))

    def living(self) -> list[str]:
        """Return the command lines of all processes that name a folder of this site."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    said = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                except OSError:
                    continue
                if os.fsencode(self.folder) in said:
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        return found


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Provide a site whose machine is deleted in the end."""
    made = Site(tmp_path)
    try:
        yield made
    finally:
        made.delete()


def test_a_machine_presents_itself_as_its_pool_says(site: Site) -> None:
    """The agent of a new machine registers with the resources and labels of its pool."""
    site.provider.create([site.machine], POOL)
    site.until(site.bucket.facts)
    hello = site.bucket.facts()[0]
    assert hello.kind == "hello"
    assert hello.resources == POOL.resources
    assert hello.labels == POOL.labels
    assert hello.address == "127.0.0.1"


def test_deleting_leaves_no_process(site: Site) -> None:
    """A machine is gone only when agent, keeper and even a job that ignores SIGTERM are dead."""
    line = "trap '' TERM; setsid sleep 1000 & echo ready; while :; do sleep 0.05; done"
    site.provider.create([site.machine], POOL)
    site.bucket.spec(Job(name="train", processes=(Process(line, shell=True),)))
    site.until(site.bucket.facts)
    site.bucket.instruct(start(grace_s=0.3))
    site.until(lambda: site.bucket.log() == b"ready\n")
    assert len(site.living()) >= 4
    site.delete()
    assert site.living() == []


@pytest.mark.parametrize("delay_s", [0.0, 0.05, 0.1, 0.2, 0.3])
def test_deleting_while_it_begins_leaves_no_process(site: Site, delay_s: float) -> None:
    """
    However far an agent and its keeper have come, a deletion leaves no process; a keeper that is
    only starting finds out by itself.
    """
    site.provider.create([site.machine], POOL)
    deadline = time.monotonic() + delay_s
    while time.monotonic() < deadline:
        time.sleep(0.01)
    site.delete()
    assert not [line for line in site.living() if "bastion agent" in line]
    site.until(lambda: not site.living())
    assert site.state() == "gone"


def test_an_agent_of_another_build_is_restarted(site: Site) -> None:
    """
    Processes continue under the keeper; the new agent ships their output. An agent with another
    retention time is restarted too, and told.
    """
    site.provider.create([site.machine], POOL)
    line = "echo one; while [ ! -e go ]; do sleep 0.01; done; echo two; sleep 1000"
    site.bucket.spec(Job(name="train", processes=(Process(line, shell=True),)))
    site.until(site.bucket.facts)
    site.bucket.instruct(start(grace_s=0.3))
    site.until(lambda: site.bucket.log() == b"one\n")
    before = (site.folder / MACHINE / "agent").read_text()
    assert site.state() == "running"
    site.provider = LocalProvider(site.provider._root_url, site.folder, site.clock, build="another")
    site.until(lambda: site.state() == "stopped")
    site.provider.create([site.machine], POOL)
    site.until(lambda: site.state() == "running")
    assert (site.folder / MACHINE / "agent").read_text() != before
    (folder,) = {path.parent for path in (site.folder / MACHINE / "home").rglob("code")}
    (folder / "code" / "go").touch()
    site.until(lambda: site.bucket.log() == b"one\ntwo\n")
    assert site.state() == "running"
    url = site.provider._root_url
    site.provider = LocalProvider(
        url, site.folder, site.clock, build="another", keep_work_s=2 * WEEK_S
    )
    site.until(lambda: site.state() == "stopped")
    site.provider.create([site.machine], POOL)
    assert any("--keep_work_s=1209600" in said for said in site.living())


def test_one_who_only_looks_changes_nothing(site: Site) -> None:
    """`bastion up` and `down` list machines too: agents continue, and old work is kept."""
    site.provider.create([site.machine], POOL)
    site.bucket.spec(Job(name="train", processes=(Process("echo one; sleep 1000", shell=True),)))
    site.until(site.bucket.facts)
    gone = site.folder / "z-gone"
    (gone / "home").mkdir(parents=True)
    (gone / "machine").write_text("z here")
    (gone / "gone").touch()
    os.utime(gone / "home", (0, 0))
    looking = LocalProvider(site.provider._root_url, site.folder, site.clock)
    assert {each.name: each.state for each in looking.list()} == {
        MACHINE: "running",
        "z-gone": "gone",
    }
    assert (gone / "home").exists()
    site.bucket.instruct(start(grace_s=0.3))
    site.until(lambda: site.bucket.log() == b"one\n")
    assert site.state() == "running"
    assert not (gone / "home").exists(), "the bastion's own listing deletes it"


def test_agents_get_the_user_of_their_pool(site: Site, tmp_path: Path) -> None:
    """An agent is started with the user of its pool; one that was started without is foreign."""
    usual, url = site.provider, site.provider._root_url
    told = tmp_path / "told"
    line = f'echo "$@" >{told}.new; mv {told}.new {told}; exec sleep 1000'
    site.provider = LocalProvider(
        url,
        site.folder,
        site.clock,
        command=("/bin/sh", "-c", line, "sh"),
        build="this",
        run_as="nobody",
    )
    site.provider.create([site.machine], POOL)
    site.until(told.exists)
    assert "--run_as=nobody" in told.read_text()
    site.provider = usual
    site.until(lambda: site.state() == "stopped")


def test_many_creates_make_one_agent(site: Site) -> None:
    """Bastions that compete for one machine start one agent between them."""
    providers = [LocalProvider(site.provider._root_url, site.folder, site.clock) for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda one: one.create([site.machine], POOL), providers))
    site.until(site.bucket.facts)
    assert sum("-m bastion agent" in said for said in site.living()) == 1


def test_a_killed_deletion_is_restarted(site: Site) -> None:
    """If the program that deletes is killed, the next list restarts it."""
    site.provider.create([site.machine], POOL)
    site.until(site.bucket.facts)
    site.provider.delete(MACHINE)
    pid = int((site.folder / MACHINE / "end").read_text().split()[0])
    os.kill(pid, 9)
    site.until(lambda: site.state() == "gone")
    assert site.living() == []


def test_a_machine_that_was_ended_by_hand_is_gone(site: Site) -> None:
    """No agent starts again in an ended home, so its machine is reported as gone."""
    site.provider.create([site.machine], POOL)
    site.until(site.bucket.facts)
    subprocess.run([*COMMAND, "end", f"--home={site.folder / MACHINE / 'home'}"], check=True)
    assert site.state() == "gone"
    site.provider.create([site.machine], POOL)
    assert site.living() == []


def test_the_work_of_a_machine_is_kept_for_a_week(site: Site) -> None:
    """Files of jobs can be read after the machine is gone, and are deleted by age."""
    site.provider.create([site.machine], POOL)
    site.until(site.bucket.facts)
    site.delete()
    home = site.folder / MACHINE / "home"
    site.clock.advance(WEEK_S - 3600.0)
    assert site.state() == "gone"
    assert (home / "agent.log").exists()
    site.clock.advance(7200.0)
    assert site.state() == "gone"
    assert not home.exists()
    site.clock.advance(30 * 86400.0)
    assert site.state() == "gone"
    assert site.provider.list() == (), "nothing of it is left in the end"
    assert not home.parent.exists()


def test_what_a_job_has_mounted_is_kept_when_its_machine_is_deleted(tmp_path: Path) -> None:
    """Its folder is deleted, but no file that others may use."""
    shared, machine = tmp_path / "shared", tmp_path / "machine of a job"
    point = machine / "work" / "data"
    for folder in (shared, point):
        folder.mkdir(parents=True)
    (shared / "set").write_bytes(b"data")
    words = ["mount", "--bind", str(shared), str(point)]
    if subprocess.run(words, check=False, capture_output=True).returncode:
        pytest.skip("only root may mount a folder here")
    try:
        remove_tree(machine)
        assert (shared / "set").read_bytes() == b"data"
        assert not machine.exists()
    finally:
        subprocess.run(["umount", "-l", str(point)], check=False, capture_output=True)


def test_folders_of_a_job_that_are_too_deep_for_python_are_deleted(tmp_path: Path) -> None:
    """Remains of a job on a deleted machine do not prevent a list of the others."""
    machine = tmp_path / MACHINE
    work = trees.write_deep(machine / "home" / "work")
    (machine / "machine").write_text("pool")
    (machine / "gone").touch()
    provider = LocalProvider("file:///b", tmp_path, VirtualClock(wall=1e12), build="b")
    provider.list()
    assert not work.exists()


@pytest.mark.parametrize("note", ["machine", "agent"])
@pytest.mark.parametrize("text", ["", "\0\0", "x y z"])
def test_a_damaged_file_affects_its_machine_alone(site: Site, note: str, text: str) -> None:
    """A note that a power failure emptied or damaged is rewritten; others are listed."""
    site.provider.create([site.machine], POOL)
    (site.folder / MACHINE / note).write_text(text)
    (listed,) = site.provider.list()
    assert (listed.name, listed.pool) == (site.machine.name, POOL.name)
    site.provider.create([site.machine], POOL)
    (listed,) = site.provider.list()
    assert listed.state == "running"
