"""
The keeper: one tiny program per machine that holds users' processes and outlives every agent.

    python -m bastion.agent.keeper --home DIR --life N --permit_s T [--cgroups no]

It forks, reads pipes into bounded spools, reaps, kills every descendant before it reports, keeps a
synced journal, enforces time limits, and stops everything when its permit (T seconds, renewed over
its socket; 0: forever) has expired. Standard library only, no thread, no network: nothing that can
fail in an agent can fail here. `<home>/keeper/` holds

    lock      held while a keeper runs (one per home): its pid and life
    socket    lines of JSON, see `server`
    journal   started attempts and their ends, see `journal`
    spool/    <key>/p<l>.log, see `spool`

A new life first kills what older lives left running and records it as lost; then it serves. SIGTERM
stops everything with grace, and the keeper exits. SIGHUP and SIGINT are ignored.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import signal
import sys
import time

from bastion.agent.keeper.attempt.attempt import lost_record
from bastion.agent.keeper.attempt.cgroup import Cgroups, find_places
from bastion.agent.keeper.attempt.process import boot_time
from bastion.agent.keeper.attempt.spool import remove_spool
from bastion.agent.keeper.attempt.undo import kill_left
from bastion.agent.keeper.journal import Journal, sync_folder
from bastion.agent.keeper.loop import Loop
from bastion.agent.keeper.socket.request import file_name
from bastion.agent.machine import stray_processes as strays
from bastion.own_memory import hide_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

READY = b"ready\n"
"""Written to the standard output once the keeper serves."""

_OPTIONS = "--home DIR --life N --permit_s T [--cgroups no]"

OPEN_FILES = 65_536
"""
How many files a process may have open, if its machine allows it. The default for services, 1,024,
is too few for data loaders. With a higher limit, programs that close every possible descriptor
become slow.
"""

_PR_SET_CHILD_SUBREAPER = 36
"""Source: Linux, include/uapi/linux/prctl.h."""


def main() -> None:
    """Run a keeper with the arguments of the command line."""
    options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
    try:
        home, life = os.path.realpath(options.pop("--home")), int(options.pop("--life"))
        permit_s = float(options.pop("--permit_s"))
        use_cgroups = {"yes": True, "no": False}[options.pop("--cgroups", "yes")]
        if options or len(sys.argv) % 2 == 0 or not 0 <= permit_s < float("inf"):
            raise ValueError
    except (KeyError, ValueError):
        sys.exit(f"usage: python -m bastion.agent.keeper {_OPTIONS}")
    hide_memory()
    _set_limits()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    keep(home, life=life, permit_s=permit_s, use_cgroups=use_cgroups, environ=os.environ)


def keep(
    home: str, *, life: int, permit_s: float, use_cgroups: bool, environ: Mapping[str, str]
) -> None:
    """
    Serve as the keeper of `home` until SIGTERM arrives and nothing runs.

    Raises:
        SystemExit: Another keeper holds this home, the home has seen this life or a later one, what
            older lives left cannot be seen, or there is no such home. A home that was removed while
            its keeper started is not created again.
    """
    folder = f"{home}/keeper"
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(f"{folder}/spool", mode=0o700)
    except FileNotFoundError:
        sys.exit(f"keeper of {home}: there is no {folder}; its starter creates that")
    lock = _lock(f"{folder}/lock", life)
    _become_subreaper()
    journal = Journal(f"{folder}/journal")
    try:
        journal.begin(life)
    except ValueError as error:
        sys.exit(f"keeper of {home}: {error}")
    sync_folder(folder)
    cgroups = Cgroups(find_places(folder) if use_cgroups else [])
    mark_prefix = f"{home}:"
    try:
        end_older_lives(journal, folder=folder, mark_prefix=mark_prefix, cgroups=cgroups)
    except OSError as error:
        sys.exit(f"keeper of {home}: what older lives left cannot be seen: {error}")
    loop = Loop(
        folder=folder,
        mark_prefix=mark_prefix,
        journal=journal,
        cgroups=cgroups,
        permit_s=permit_s,
        environ=environ,
    )
    loop.run(_signal_ready)
    cgroups.end()
    # Before the connections close: a client that sees it may start the next life.
    os.close(lock)


def end_older_lives(journal: Journal, *, folder: str, mark_prefix: str, cgroups: Cgroups) -> None:
    """
    Kill and undo what older lives of this home left, and record as lost what had not ended.

    Also delete spools of attempts that were forgotten while their keeper died.

    Raises:
        OSError: What they left cannot be seen. Nothing is recorded then.
    """
    for cgroup in cgroups.leftovers():
        pause_s = 0.001
        while not cgroup.remove():
            cgroup.kill()
            for seen in filter(None, map(strays.look, cgroup.pids())):
                strays.send(seen, signal.SIGKILL)
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.1)
    open_entries = {key: entry for key, entry in journal.entries.items() if not entry.end}
    for undo in kill_left(journal, mark_prefix):
        undo.finish()
    for name in set(os.listdir(f"{folder}/spool")) - set(map(file_name, journal.entries)):
        remove_spool(f"{folder}/spool/{name}")
    for key, entry in open_entries.items():
        started = entry.started()
        count = started["processes"]
        assert isinstance(count, int)
        logs = [f"{folder}/spool/{file_name(key)}/p{index}.log" for index in range(count)]
        sizes = [_size(log) for log in logs]
        record = lost_record(started, sizes, boot_time(), has_cleaned_up=bool(entry.on_end))
        journal.end(key, record)
    journal.commit()


def _lock(path: str, life: int) -> int:
    """Take the home's lock, which is held as long as this process runs."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.read(lock, 100).decode("utf-8", "replace").strip()
        sys.exit(f"another keeper holds {path}: {holder}")
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"pid {os.getpid()} life {life}\n".encode(), 0)
    return lock


def _set_limits() -> None:
    """Set the limits that training programs need: open files, locked memory, no core files."""
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if most == resource.RLIM_INFINITY else min(most, OPEN_FILES)
    if resource.RLIM_INFINITY != files < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
    # A crashing program would write all its memory to disk, and hold its devices in the meantime.
    # Services have no limit. A job that wants its core file raises it.
    _, core = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, core))
    # Drivers of devices and of networks lock the memory that they use.
    _, locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    for limit in (resource.RLIM_INFINITY, locked):
        with contextlib.suppress(OSError, ValueError):  # only root may raise the hard limit
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (limit, limit))
            return


def _become_subreaper() -> None:
    """Make every descendant whose parent dies a child of this process."""
    # Without ctypes (some minimal builds), strays of a double fork are found by mark, or by cgroup.
    with contextlib.suppress(ImportError, OSError):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _signal_ready() -> None:
    """Signal readiness to the parent and close its pipe."""
    with contextlib.suppress(OSError):
        os.write(1, READY)
    null = os.open("/dev/null", os.O_RDWR)
    for stream in (0, 1):
        os.dup2(null, stream)
    os.close(null)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
