"""
One process of an attempt: its start, its state in the keeper, its end.

Standard library only, and a plain class for that reason.
"""

from __future__ import annotations

import errno
import os
import signal
import time

from bastion.agent.keeper.attempt.program_path import program_of
from bastion.agent.machine import stray_processes as strays
from bastion.agent.machine.machine_fault import SPAWN_FAULTS, fault_text, is_machine_fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from bastion.agent.keeper.attempt.spool import Spool
    from bastion.agent.keeper.socket.request import ProcessSpec, User

SPARE_FILES = 64
"""Open files reserved for connections, the journal and reads of /proc."""

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
        "reported_at",
        "reported_bytes",
        "setup_failure",
        "signal",
        "spool",
        "started_at",
    )

    def __init__(self, spool: Spool | None) -> None:
        self.spool = spool
        self.pid = 0
        """0 before it is started and after it is reaped."""
        self.pipe = -1
        """The keeper's end of its output; -1 once it is closed."""
        self.code: int | None = None
        self.signal: int | None = None
        self.setup_failure = ""
        self.started_at = boot_time()
        self.ended_at = 0.0
        self.reported_at = 0.0
        self.reported_bytes = 0

    @property
    def size_bytes(self) -> int:
        """Current size of its log."""
        return self.spool.size if self.spool else 0

    def record_exit(self, status: int, now: float) -> None:
        """Record its end, whose wait status is `status`."""
        code = os.waitstatus_to_exitcode(status)
        self.code, self.signal = (code, None) if code >= 0 else (None, -code)
        self.pid = 0
        self.ended_at = now

    def read(self, now: float) -> bool:
        """Read the pipe into the log; return False at its end."""
        return self.spool is not None and self.spool.take(self.pipe, now)

    def close_pipe(self) -> None:
        """Close the pipe, if it is open."""
        if self.pipe >= 0:
            os.close(self.pipe)
            self.pipe = -1


def boot_time() -> float:
    """Return the seconds since boot, suspended time included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def spawn(
    spec: ProcessSpec,
    *,
    output: int,
    umask: int,
    mark: str,
    stuck: set[int],
    run_as: User | None = None,
) -> int:
    """
    Start one process in a session of its own; it inherits nothing but the three streams.

    `posix_spawn` is as fast as vfork but sets neither directory nor umask. The keeper, which has
    one thread, sets them on itself for the duration of the call. `stuck` is that of `program_of`.

    Raises:
        OSError: It cannot be started; `spawn_fault` decides whether the machine is at fault.
        ValueError: A system call does not accept its arguments or its environment.
    """
    program = program_of(spec, stuck)
    if run_as is not None:
        return _spawn_as(run_as, program, spec, output=output, umask=umask, mark=mark)
    null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    before = os.umask(umask)
    try:
        os.chdir(spec.cwd)
        return os.posix_spawn(
            program,
            spec.argv,
            {**spec.env, strays.MARK: mark},
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


def _spawn_as(
    user: User, program: str, spec: ProcessSpec, *, output: int, umask: int, mark: str
) -> int:
    """
    Start one process as another user, with whose rights it enters its directory.

    `posix_spawn` cannot change the user, so this forks. The pipe closes when the program has
    started; a child that fails before that writes its errno into it.
    """
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    try:
        null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        try:
            pid = os.fork()
            if pid == 0:
                _exec_as(user, program, spec, (null, output, write_end), umask=umask, mark=mark)
        finally:
            os.close(null)
    except OSError:
        os.close(read_end)
        raise
    finally:
        os.close(write_end)
    try:
        problem = os.read(read_end, 16)
    finally:
        os.close(read_end)
    if problem:
        os.waitpid(pid, 0)
        raise OSError(int(problem), os.strerror(int(problem)), spec.argv[0])
    return pid


def _exec_as(
    user: User,
    program: str,
    spec: ProcessSpec,
    files: tuple[int, int, int],
    *,
    umask: int,
    mark: str,
) -> NoReturn:
    """Run the program, in the child; on an error write its errno and exit."""
    null, output, problem = files
    try:
        signal.set_wakeup_fd(-1)
        for each in _RESET:
            signal.signal(each, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.setsid()
        for number, file in enumerate((null, output, output)):
            os.dup2(file, number)
        os.setgroups(user.groups)
        os.setresgid(user.gid, user.gid, user.gid)
        os.setresuid(user.uid, user.uid, user.uid)
        os.umask(umask)
        os.chdir(spec.cwd)
        os.execve(program, spec.argv, {**spec.env, strays.MARK: mark})  # noqa: S606
    except OSError as error:
        os.write(problem, str(error.errno or errno.EINVAL).encode())
    except BaseException:  # noqa: BLE001 - on any error, a second keeper must not continue here
        os.write(problem, str(errno.EINVAL).encode())
    finally:
        os._exit(127)


def why_not(spec: ProcessSpec, error: BaseException) -> str:
    """Explain, in a line for its users, why `spec` could not be started."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    if not spawn_fault(error) and not isinstance(error, TimeoutError):
        text = _advice(spec, error) or text
        if not os.path.isdir(spec.cwd):
            text = f"no such directory: {spec.cwd}"
    return f"cannot start {spec.argv[0]!r}: {text or fault_text(error)}"


def _advice(spec: ProcessSpec, error: BaseException) -> str:
    """Return advice beyond the kernel's error for an existing program, or nothing."""
    path = os.path.join(spec.cwd, spec.argv[0])
    if not isinstance(error, OSError) or not os.path.isfile(path):
        return ""
    if "/" not in spec.argv[0]:
        return (
            "no such program in PATH; to run the file in the current folder, write"
            f" ./{spec.argv[0]}"
        )
    if error.errno == errno.EACCES and os.access(path, os.X_OK):
        return ""  # its folder, its file system or its interpreter keep the user out
    return {
        errno.ENOENT: "the file exists, but the interpreter named in its first line does not;"
        " Windows line endings (CR LF) also cause this",
        errno.ENOEXEC: "neither a program for this machine nor a script whose first line names"
        " its interpreter, such as #!/bin/sh",
        errno.EACCES: "Permission denied: the file is not executable; run chmod +x on it",
    }.get(error.errno or 0, "")


def spawn_fault(error: BaseException) -> str:
    """Return what the machine lacked to start a process; empty if the request is at fault."""
    lacks_processes = isinstance(error, OSError) and error.errno in SPAWN_FAULTS
    return fault_text(error) if lacks_processes or is_machine_fault(error) else ""
