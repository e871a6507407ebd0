"""
One attempt on this machine: its processes, what has been told to them, and the record of its end.

It forks and remembers; who is signalled and when is the loop's business. Standard library only, and
plain classes for that reason.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import time

from bastion.agent import strays
from bastion.agent.keeper_reasons import TIME_LIMIT
from bastion.agent.keeper_spool import Spool
from bastion.agent.keeper_undo import Undo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bastion.agent.keeper_cgroup import Cgroup
    from bastion.agent.keeper_request import Start, Wanted

LAST_LINES_BYTES = 4096
"""Of the log of the process that failed first: a traceback, and little enough for a register."""

_LAST_READS = 4
"""Of up to 1 MiB each, and a pipe holds no more than that (/proc/sys/fs/pipe-max-size)."""

_SPARE_FILES = 64
"""Of the open files we may have, those kept for connections, the journal and looking around."""

_RESET = [
    number for number in signal.valid_signals() if number not in (signal.SIGKILL, signal.SIGSTOP)
]


class Process:
    """One process of an attempt, from fork to exit."""

    __slots__ = (
        "code",
        "ended_at",
        "pid",
        "pipe",
        "setup_failure",
        "signal",
        "spool",
        "told_at",
        "told_bytes",
    )

    def __init__(self, spool: Spool | None) -> None:
        self.spool = spool
        self.pid = 0
        """0 before it is started and once it is reaped."""
        self.pipe = -1
        """The end we read; -1 once it is closed."""
        self.code: int | None = None
        self.signal: int | None = None
        self.setup_failure = ""
        self.ended_at = 0.0
        self.told_at = 0.0
        self.told_bytes = 0

    @property
    def size_bytes(self) -> int:
        """What its log has so far."""
        return self.spool.size if self.spool else 0

    def exited(self, status: int, now: float) -> None:
        """Remember how it ended, as `waitpid` says it."""
        code = os.waitstatus_to_exitcode(status)
        self.code, self.signal = (code, None) if code >= 0 else (None, -code)
        self.pid = 0
        self.ended_at = now

    def read(self, now: float) -> bool:
        """Take what the pipe holds; False when it will hold no more."""
        return self.spool is not None and self.spool.take(self.pipe, now)

    def close_pipe(self) -> None:
        """Stop reading."""
        if self.pipe >= 0:
            os.close(self.pipe)
            self.pipe = -1


class Attempt:
    """The processes of one key."""

    __slots__ = (
        "cgroup",
        "failed_by_itself",
        "first_failed",
        "is_over_memory",
        "kill_again_at",
        "kill_at",
        "kill_pause_s",
        "life",
        "notices",
        "processes",
        "start",
        "started_at",
        "undo",
    )

    def __init__(self, start: Start, *, life: int, now: float, mark: str) -> None:
        self.start = start
        self.life = life
        self.started_at = now
        self.undo = Undo(start.undo, mark)
        self.cgroup: Cgroup | None = None
        self.processes: list[Process] = []
        self.notices: list[dict[str, object]] = []
        self.first_failed: int | None = None
        self.failed_by_itself = False
        self.kill_at = float("inf")
        """When the grace ends of the notice it was given."""
        self.kill_again_at = 0.0
        self.kill_pause_s = 0.0
        self.is_over_memory = False
        """Whether its memory limit has killed something of it, or should have."""

    @property
    def key(self) -> str:
        """Its name."""
        return self.start.key

    @property
    def limit_at(self) -> float:
        """When its time is up."""
        limit_s = self.start.max_runtime_s
        return float("inf") if limit_s is None else self.started_at + limit_s

    def living(self) -> set[int]:
        """Pids of its processes that are not reaped."""
        return {process.pid for process in self.processes if process.pid}

    def fork(self, folder: str, mark: str, cgroup: Cgroup | None) -> None:
        """
        Start every process, in `cgroup` where there is one.

        One that cannot be started has ended with a `setup_failure`, and those after it are not
        started at all.
        """
        with contextlib.suppress(OSError):
            os.mkdir(folder, 0o700)
        with contextlib.suppress(OSError):
            if cgroup is not None:
                cgroup.enter()
        for index, wanted in enumerate(self.start.processes):
            self._fork_one(index, wanted, f"{folder}/p{index}.log", mark)
        self.start.processes.clear()
        with contextlib.suppress(OSError):
            if cgroup is not None:
                # A cgroup that the keeper cannot leave is never used, least of all to kill.
                cgroup.leave()
                self.cgroup = cgroup
        limit_bytes = self.start.memory_limit_bytes
        if self.cgroup is not None and limit_bytes is not None:
            self.is_over_memory = not self.cgroup.limit_memory(limit_bytes)

    def is_cgroup_empty(self) -> bool:
        """Whether nothing lives in its cgroup, which is gone then; true where there is none."""
        if self.cgroup is None:
            return True
        self.is_over_memory |= self.cgroup.oom_kills() > 0
        if not self.cgroup.remove():
            return False
        self.cgroup = None
        return True

    def _fork_one(self, index: int, wanted: Wanted, log_path: str, mark: str) -> None:
        process = Process(None)
        self.processes.append(process)
        if self.first_failed is not None:
            process.setup_failure = f"not started: p{self.first_failed} could not be"
            process.ended_at = boot_time()
            return
        ours = -1
        try:
            process.spool = Spool(log_path, limit_bytes=self.start.spool_limit_bytes)
            process.pipe, ours = os.pipe2(os.O_CLOEXEC)
            if ours > os.sysconf("SC_OPEN_MAX") - _SPARE_FILES:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            os.set_blocking(process.pipe, False)
            process.pid = _spawn(wanted, output=ours, umask=self.start.umask, mark=mark)
        except (OSError, ValueError) as error:
            process.setup_failure = _why(wanted, error)
            process.ended_at = boot_time()
            process.close_pipe()
            self.failed(index)
        finally:
            if ours >= 0:
                os.close(ours)

    def failed(self, index: int) -> bool:
        """Note that process `index` failed; whether it is the first to."""
        if self.first_failed is not None:
            return False
        self.first_failed = index
        self.failed_by_itself = not self.notices
        return True

    def tell(self, reason: str, by: str, grace_s: float) -> None:
        """Write the notice file; that nobody can read it is no reason not to stop."""
        path = self.start.notice_path
        if not path:
            return
        said = {"reason": reason, "by": by, "grace_s": grace_s, "deadline": time.time() + grace_s}
        with contextlib.suppress(OSError):
            with open(path + ".new", "w", encoding="utf-8") as file:
                file.write(json.dumps(said) + "\n")
            os.replace(path + ".new", path)

    def close(self, at: float) -> dict[str, object]:
        """Close pipes and logs, and say how it all ended: the fields of `ExitRecord`."""
        last_lines = b""
        for index, process in enumerate(self.processes):
            if process.pipe >= 0:
                # Whoever is not ours may hold the other end and write for ever: no waiting for EOF.
                for _ in range(_LAST_READS):
                    process.read(at)
                process.close_pipe()
            if process.spool:
                # The record is written down, and a process may have printed what it was given.
                if index == self.first_failed and not self.start.secrets:
                    last_lines = process.spool.tail(LAST_LINES_BYTES)
                process.spool.close(at)
        return {
            "key": self.key,
            "life": self.life,
            "started_at": self.started_at,
            "ended_at": at,
            "processes": [_ending(process) for process in self.processes],
            "notices": self.notices,
            "first_failed": self.first_failed,
            "failed_by_itself": self.failed_by_itself,
            "last_lines": last_lines.decode("utf-8", "replace"),
            "timed_out": self.notices[:1] != [] and self.notices[0]["reason"] == TIME_LIMIT,
            "out_of_memory": self.is_over_memory and self.first_failed is not None,
            "lost": False,
        }

    def state(self) -> dict[str, object]:
        """What can be said while it runs: the fields of `Running`."""
        return {
            "key": self.key,
            "started_at": self.started_at,
            "pids": [process.pid or None for process in self.processes],
            "log_sizes_bytes": [process.size_bytes for process in self.processes],
            "notices": self.notices,
        }


def lost_record(entry: dict[str, object], sizes_bytes: list[int], at: float) -> dict[str, object]:
    """The record of an attempt whose keeper died before it."""
    unknown = {"code": None, "signal": None, "setup_failure": "", "dropped_bytes": 0}
    return {
        "key": entry["exec"],
        "life": entry["life"],
        "started_at": entry["at"],
        "ended_at": at,
        "processes": [{**unknown, "ended_at": at, "log_size_bytes": size} for size in sizes_bytes],
        "notices": [],
        "first_failed": None,
        "failed_by_itself": False,
        "last_lines": "",
        "timed_out": False,
        "out_of_memory": False,
        "lost": True,
    }


def boot_time() -> float:
    """Seconds since boot, suspended time included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _ending(process: Process) -> dict[str, object]:
    return {
        "code": process.code,
        "signal": process.signal,
        "setup_failure": process.setup_failure,
        "ended_at": process.ended_at,
        "log_size_bytes": process.size_bytes,
        "dropped_bytes": process.spool.dropped if process.spool else 0,
    }


def _spawn(wanted: Wanted, *, output: int, umask: int, mark: str) -> int:
    """
    Start one process in a session of its own, with nothing of the keeper's but the three streams.

    `posix_spawn` is vfork-fast and knows neither directory nor umask: the keeper, which has one
    thread, takes them on for a moment itself.
    """
    program = _program(wanted)
    null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    before = os.umask(umask)
    try:
        os.chdir(wanted.cwd)
        return os.posix_spawn(
            program,
            wanted.argv,
            {**wanted.env, strays.MARK: mark},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, null, 0),
                (os.POSIX_SPAWN_DUP2, output, 1),
                (os.POSIX_SPAWN_DUP2, output, 2),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=_RESET,
        )
    finally:
        os.umask(before)
        os.chdir("/")
        os.close(null)


def _program(wanted: Wanted) -> str:
    """The program's path: as given, or found in the `PATH` of its own environment."""
    name = wanted.argv[0]
    if "/" in name:
        return name
    for folder in wanted.env.get("PATH", os.defpath).split(":"):
        path = os.path.join(wanted.cwd, folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    raise FileNotFoundError(2, "no such program in PATH", name)


def _why(wanted: Wanted, error: Exception) -> str:
    if not os.path.isdir(wanted.cwd):
        return f"cannot start {wanted.argv[0]!r}: no such directory: {wanted.cwd}"
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"cannot start {wanted.argv[0]!r}: {text}"
