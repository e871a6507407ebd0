"""
Programs that the keeper runs for itself, to learn something: nvidia-smi, and the dump of stacks.

None of them can hold up the loop: each has a pipe that is read as it fills, and a time after which
it is killed and what it said so far is its answer. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Then = Callable[[bytes, bool], None]
    """Takes what a tool said, and whether it said all of it."""

SYSTEM_ONLY = "--system_only"
"""To the dump of stacks: run nothing that lies beside a job's programs, for they are not root's."""

_SAID_BYTES = 1 << 20
"""Most that is taken of what one says; it is killed for more."""


class Tool:
    """One run of a program."""

    __slots__ = ("pid", "pipe", "said", "then", "until")

    def __init__(self, pid: int, pipe: int, then: Then, until: float) -> None:
        self.pid = pid
        self.pipe = pipe
        self.then: Then | None = then
        self.until = until
        self.said = b""


class Tools:
    """
    The programs that run now.

    Args:
        watch: Has the loop call back when a file can be read.
        unwatch: Ends that.
        environ: The variables of every program, but for its `PATH`.
    """

    def __init__(
        self,
        watch: Callable[[int, Callable[[], None]], None],
        unwatch: Callable[[int], None],
        environ: Mapping[str, str],
    ) -> None:
        self._watch = watch
        self._unwatch = unwatch
        self._environ = environ
        self._running: dict[int, Tool] = {}

    def __contains__(self, pid: object) -> bool:
        return pid in self._running

    def run(self, argv: list[str], *, path: str, until: float, then: Then) -> Tool | None:
        """
        Start `argv`; None where that cannot be done.

        Args:
            argv: The program's own path, and its arguments.
            path: The `PATH` of the program.
            until: When it is killed, on the loop's clock.
            then: Is called once, from `reaped` or `look`, unless the tool is dropped before.
        """
        try:
            pipe, theirs = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return None
        os.set_blocking(theirs, True)
        tool = Tool(0, pipe, then, until)
        try:
            self._watch(pipe, lambda: self._read(tool))
            tool.pid = os.posix_spawn(
                argv[0],
                argv,
                {**self._environ, "PATH": path},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, theirs, 1),
                    (os.POSIX_SPAWN_DUP2, theirs, 2),
                ],
                setsid=True,
                setsigmask=(),
                setsigdef=(signal.SIGINT, signal.SIGHUP),
            )
        except OSError:
            self._close(tool)
            return None
        finally:
            os.close(theirs)
        self._running[tool.pid] = tool
        return tool

    def reaped(self, pid: int) -> None:
        """The tool `pid` has ended."""
        tool = self._running.pop(pid)
        self._read(tool)
        self._answer(tool, is_whole=True)

    def look(self, now: float) -> float:
        """Kill what has run too long; when to look again."""
        for tool in tuple(self._running.values()):
            if tool.then is not None and now >= tool.until:
                self._kill(tool)
                self._answer(tool, is_whole=False)
        return min((tool.until for tool in self._running.values() if tool.then), default=_NEVER)

    def drop(self, tool: Tool) -> None:
        """Nobody wants its answer any more."""
        tool.then = None
        self._kill(tool)
        self._close(tool)

    def end(self) -> None:
        """Kill all of them."""
        for tool in tuple(self._running.values()):
            self.drop(tool)

    def _read(self, tool: Tool) -> None:
        while tool.pipe >= 0:
            try:
                data = os.read(tool.pipe, 1 << 16)
            except BlockingIOError:
                return
            tool.said += data
            if not data:
                self._close(tool)
            elif len(tool.said) > _SAID_BYTES:
                self._kill(tool)
                self._close(tool)

    def _answer(self, tool: Tool, *, is_whole: bool) -> None:
        self._close(tool)
        then, tool.then = tool.then, None
        if then is not None:
            then(tool.said, is_whole)

    def _close(self, tool: Tool) -> None:
        if tool.pipe >= 0:
            self._unwatch(tool.pipe)
            os.close(tool.pipe)
            tool.pipe = -1

    def _kill(self, tool: Tool) -> None:
        # It leads a session of its own and is not reaped: the number of its group is still its own.
        if tool.pid in self._running:
            with contextlib.suppress(OSError):
                os.killpg(tool.pid, signal.SIGKILL)


_NEVER = float("inf")
