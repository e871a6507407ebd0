"""
Machines on this host: each is a folder with its own agent.

    <directory>/<name>/machine      "<pool> <zone>": it exists
    <directory>/<name>/root         URL of the bucket that it serves
    <directory>/<name>/agent        "<pid> <start>" of the agent that was started last
    <directory>/<name>/build        the agent's build of Bastion, and how long it keeps work
    <directory>/<name>/home/        the agent's home
    <directory>/<name>/begin/       what the agent does before its greeting, and whether it failed
    <directory>/<name>/deleting     it is being deleted, which is irreversible
    <directory>/<name>/gone         nothing of it runs; the folder stays, so the name is used up
    <directory>/<name>/ballast      1 MiB that is deleted when the disk is full
    <directory>/<name>/lock         held while one of these is changed

The agent is a separate program in its own session: it outlives the process that started it. An
agent of another build than its bastion's is restarted, because it may not understand newer
instructions. So is an agent with another `keep_work_s` or `run_as`. A restart does not affect jobs.
That program also deletes machines (`bastion agent end`), because it knows what an agent leaves
behind. `delete` starts the deletion, and `list` restarts it if it was killed.

The folder of a machine that is gone keeps the files of its jobs for as long as its agent would.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bastion.clock import Clock
from bastion.machine import Machine, Pool
from bastion.machine_name import pool_of
from bastion.own_program import own_program
from bastion.provider.agent_environment import agent_environment
from bastion.provider.machine_folder import (
    agent_lives,
    end_agent,
    explained,
    keep_ballast,
    lives,
    locked,
    make_room,
    remove_tree,
    started,
    unbegun,
    words,
    write,
)
from bastion.provider.port import Listed, State

COMMAND = tuple(own_program("bastion", "agent"))
"""Command that starts an agent; the arguments are those of `bastion.agent.main`."""

_REMEMBERED_S = 30 * 86400.0
"""How long a gone machine is listed: no create for its name, which is unique, arrives that late."""
_HEARTBEAT_S = 30
_LOOPBACK = "127.0.0.1"
"""Where machines of a bucket in a folder of this host meet, on any network."""
_BEGIN = "begin"

_DETACH = '"$@" >>"$BASTION_AGENT_LOG" 2>&1 </dev/null & echo $!'
"""The shell exits immediately, so the program is re-parented and this process need not reap it."""


class LocalProvider:
    """
    Machines as folders below `directory`.

    Args:
        root_url: The bucket that their agents serve.
        directory: Contains their folders; created if it is missing.
        clock: Its wall clock gives the age of the folders.
        command: Starts an agent.
        build: Identifies this build of Bastion, whose agents run here; agents of others are
            restarted. Empty: for a caller that only lists and deletes machines; agents and old work
            stay unchanged.
        keep_work_s: How long files of jobs are kept, including those of a machine that is gone.
        run_as: The user that jobs run as; empty: the one that agents run as.
        permit_s: How long jobs keep running while their agent cannot reach a store; 0: forever.
        begin: What an agent does and checks before its greeting, in the format of `begin_of`.
    """

    def __init__(
        self,
        root_url: str,
        directory: Path,
        clock: Clock,
        *,
        command: Sequence[str] = COMMAND,
        build: str = "",
        keep_work_s: float = 7 * 86400.0,
        run_as: str = "",
        permit_s: float = 0.0,
        begin: str = "",
    ) -> None:
        self._root_url = root_url
        self._directory = directory
        self._clock = clock
        self._command = tuple(command)
        permit = f"permit={permit_s}" if permit_s else ""
        begins = f"begin={hashlib.sha256(begin.encode()).hexdigest()[:16]}" if begin else ""
        self._build = " ".join(filter(None, (build, str(keep_work_s), run_as, permit, begins)))
        self._looks_after = bool(build)
        self._begin = begin
        self._keep_work_s = keep_work_s
        self._run_as = run_as
        self._permit_s = permit_s

    def list(self) -> tuple[Listed, ...]:
        """See the port."""
        with explained(self._directory):
            folders = sorted(self._directory.glob("*/machine"))
            return tuple(self._inspect(path.parent) for path in folders)

    @property
    def vouches(self) -> bool:
        """See the port: this machine knows what runs on it."""
        return True

    def create(self, machines: Sequence[Machine], pool: Pool) -> None:
        """See the port; a dead agent is restarted."""
        for machine in machines:
            self._create(machine, pool)

    def _create(self, machine: Machine, pool: Pool) -> None:
        folder = self._directory / machine.name
        with explained(folder), locked(folder):
            if (folder / "deleting").exists() or _is_given_back(folder):
                return
            make_room(folder)
            write(folder / "root", self._root_url)
            write(folder / "machine", f"{machine.pool} {machine.zone}")
            if not agent_lives(folder) and not self._has_failed(folder):
                arguments = self._arguments(machine, pool, folder)
                write(folder / "build", self._build)
                write(folder / "agent", self._run(folder, arguments))
            keep_ballast(folder)

    def _has_failed(self, folder: Path) -> bool:
        """
        Whether the machine failed to start and reported why. New settings count as a new attempt.

        It also writes down for the agent what to do before its greeting.
        """
        place = folder / _BEGIN
        is_same = " ".join(words(folder / "build")) == self._build
        if is_same and (place / "failed").exists():
            return True
        if self._begin:
            place.mkdir(mode=0o700, exist_ok=True)
            (place / "failed").unlink(missing_ok=True)
            write(place / "boot.json", self._begin)
        return False

    def delete(self, name: str) -> None:
        """See the port."""
        folder = self._directory / name
        with explained(folder):
            if not (folder / "machine").exists():
                return
            with locked(folder):
                (folder / "deleting").touch()
            self._inspect(folder)

    def _inspect(self, folder: Path) -> Listed:
        pool, zone, *_ = (*words(folder / "machine"), "", "")
        if not pool or not folder.name.startswith(f"{pool}-"):
            # A power failure left the file empty or damaged; `create` rewrites it.
            pool, zone = pool_of(folder.name), ""
        state = self._state(folder)
        stuck = unbegun(folder) if state in ("running", "stopped") else ""
        return Listed(name=folder.name, pool=pool, state=state, zone=zone, stuck=stuck)

    def _state(self, folder: Path) -> State:
        if (folder / "gone").exists():
            if self._looks_after:
                self._delete_old_work(folder)
            return "gone"
        if (folder / "deleting").exists() or (self._looks_after and _is_given_back(folder)):
            with locked(folder):
                return "gone" if self._continue_deletion(folder) else "deleting"
        if self._is_foreign(folder):
            with locked(folder):
                if self._is_foreign(folder):  # it may have been restarted in the meantime
                    end_agent(folder)
        return "running" if agent_lives(folder) else "stopped"

    def _is_foreign(self, folder: Path) -> bool:
        is_other = self._looks_after and " ".join(words(folder / "build")) != self._build
        return is_other and agent_lives(folder)

    def _continue_deletion(self, folder: Path) -> bool:
        if lives(folder / "end"):
            return False
        if _is_given_back(folder):
            if agent_lives(folder):  # it was still starting when its home was ended
                end_agent(folder)
                return False
            write(folder / "gone", "")
            return True
        write(folder / "end", self._run(folder, ("end", "--home", str(folder / "home"))))
        return False

    def _delete_old_work(self, folder: Path) -> None:
        home, now = folder / "home", self._clock.wall()
        if home.exists() and now - home.stat().st_mtime > self._keep_work_s:
            remove_tree(home)
        if not home.exists() and now - (folder / "gone").stat().st_mtime > _REMEMBERED_S:
            remove_tree(folder)

    def _arguments(self, machine: Machine, pool: Pool, folder: Path) -> tuple[str, ...]:
        resources = ",".join(f"{name}={units}" for name, units in pool.resources.items())
        labels = (f"--label={name}={text}" for name, text in pool.labels.items())
        return (
            f"--root={self._root_url}",
            f"--machine={machine.name}",
            f"--pool={pool.name}",
            f"--home={folder / 'home'}",
            f"--resources={resources}",
            f"--heartbeat_s={_HEARTBEAT_S}",
            *([f"--address={_LOOPBACK}"] if self._root_url.startswith("file:") else []),
            f"--keep_work_s={self._keep_work_s}",
            *([f"--run_as={self._run_as}"] if self._run_as else []),
            *([f"--permit_s={self._permit_s}"] if self._permit_s else []),
            *([f"--begin={folder / _BEGIN}"] if self._begin else []),
            *labels,
        )

    def _run(self, folder: Path, arguments: Sequence[str]) -> str:
        """Start this program in the background; return its "<pid> <start>"."""
        home = folder / "home"
        home.mkdir(mode=0o700, exist_ok=True)
        # This makes it a home: it can be ended before its agent has started.
        (home / "agent.lock").touch()
        here = str(Path(__file__).resolve().parents[2])
        env = agent_environment(os.environ) | {"BASTION_AGENT_LOG": str(home / "agent.log")}
        # The program must import this Bastion, installed or not, from its own folder.
        env["PYTHONPATH"] = os.pathsep.join(filter(None, (here, env.get("PYTHONPATH"))))
        shell = subprocess.run(
            ["/bin/sh", "-c", _DETACH, "sh", *self._command, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
            check=True,
            cwd=home,
            env=env,
        )
        pid = int(shell.stdout)
        return f"{pid} {started(pid)}"


def _is_given_back(folder: Path) -> bool:
    """Whether its home was ended, by `delete` or manually: no agent ever starts there again."""
    return (folder / "home" / "ended").exists()
