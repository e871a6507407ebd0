"""
The path of a program: a folder of its `PATH` may be on a disk that does not answer.

A lookup there blocks forever. The keeper has one thread, which would then read no output and renew
no permit. So a child does the lookup, with a time limit. Standard library only.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bastion.agent.keeper.socket.request import ProcessSpec

    Look = Callable[[str], bool]
    """Whether a path is a program."""

LOOK_S = 5.0
"""A network disk that is mounted on first use may take seconds."""
_DIES_S = 1.0
_FOUND = b"="


def program_of(
    spec: ProcessSpec, stuck: set[int], *, is_program: Look | None = None, wait_s: float = LOOK_S
) -> str:
    """
    Return the path of the program of `spec`: as given, or from the `PATH` of its own environment.

    Args:
        spec: The process.
        stuck: Receives the pid of a child that cannot be killed, because its disk does not answer.
        is_program: Checks one path; by default whether it is an executable file.
        wait_s: How long a disk may take.

    Raises:
        FileNotFoundError: There is none.
        TimeoutError: A disk has not answered.
        OSError: The machine is out of descriptors or processes.
    """
    said, is_over = _asked(spec, is_program or _is_program, stuck, wait_s)
    *_, last = said.split(b"\0")
    if last.startswith(_FOUND):
        return os.fsdecode(last[1:])
    if is_over:
        also = "; many machines have only python3" if spec.argv[0] == "python" else ""
        raise FileNotFoundError(2, f"no such program in PATH{also}", spec.argv[0])
    text = f"{os.fsdecode(last)} does not answer: its disk may be out of reach"
    raise TimeoutError(errno.ETIMEDOUT, text)


def _asked(
    spec: ProcessSpec, is_program: Look, stuck: set[int], wait_s: float
) -> tuple[bytes, bool]:
    """Let a child look; return the paths that it checked, and whether it has ended."""
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    try:
        try:
            pid = os.fork()
            if pid == 0:
                _look(spec, is_program, write_end)
        finally:
            os.close(write_end)
        said, until = b"", time.monotonic() + wait_s
        while select.select([read_end], [], [], max(0.0, until - time.monotonic()))[0]:
            more = os.read(read_end, 1 << 16)
            if not more:
                os.waitpid(pid, 0)
                return said, True
            said += more
    finally:
        os.close(read_end)
    _end(pid, stuck)
    return said, False


def _look(spec: ProcessSpec, is_program: Look, answer: int) -> None:
    """Look, in the child: write each path before checking it, and again if it is the program."""
    try:
        for number, path in enumerate(_paths(spec)):
            os.write(answer, b"\0" * bool(number) + os.fsencode(path))
            if is_program(path) or "/" in spec.argv[0]:
                os.write(answer, b"\0" + _FOUND + os.fsencode(path))
                break
    finally:
        os._exit(0)


def _paths(spec: ProcessSpec) -> Iterator[str]:
    name = spec.argv[0]
    if "/" in name:
        yield name  # the kernel's own word tells what is wrong with it
        return
    for folder in spec.env.get("PATH", os.defpath).split(":"):
        yield os.path.join(spec.cwd, folder, name)


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _end(pid: int, stuck: set[int]) -> None:
    os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + _DIES_S
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if time.monotonic() >= until:
            stuck.add(pid)
            return
        time.sleep(0.01)
