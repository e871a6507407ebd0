"""
Programs that the keeper runs for its own use: nvidia-smi, and the dump of stacks.

No program blocks the loop: its pipe is read as it fills. After a timeout the program is killed, and
its output so far is the answer. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Then = Callable[[bytes, bool], None]
    """Takes the output of a tool, and whether it is complete."""

SYSTEM_ONLY = "--system_only"
"""Option of the dump of stacks: run nothing from a job's folders, whose files are not root's."""

_OUTPUT_BYTES = 1 << 20
"""Most output of one tool; a tool that writes more is killed."""


class Tool:
    """One run of a program."""

    __slots__ = ("output", "pid", "pipe", "then", "until")

    def __init__(self, pid: int, pipe: int, then: Then, until: float) -> None:
        self.pid = pid
        self.pipe = pipe
        self.then: Then | None = then
        self.until = until
        self.output = b""


class Tools:
    """
    The programs that run now.

    Args:
        watch: Makes the loop call back when a file can be read.
        unwatch: Ends that watch.
        environ: The variables of every program, except its `PATH`.
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
        Start `argv`; None if it cannot be started.

        Args:
            argv: The program's path and its arguments.
            path: The `PATH` of the program.
            until: When it is killed, on the loop's clock.
            then: Called once, by `record_exit` or `check`, unless the tool is dropped before.
        """
        try:
            pipe, write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return None
        os.set_blocking(write_end, True)
        tool = Tool(0, pipe, then, until)
        try:
            self._watch(pipe, lambda: self._read(tool))
            tool.pid = os.posix_spawn(
                argv[0],
                argv,
                {**self._environ, "PATH": path},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, write_end, 1),
                    (os.POSIX_SPAWN_DUP2, write_end, 2),
                ],
                setsid=True,
                setsigmask=(),
                setsigdef=(signal.SIGINT, signal.SIGHUP),
            )
        except OSError:
            self._close(tool)
            return None
        finally:
            os.close(write_end)
        self._running[tool.pid] = tool
        return tool

    def record_exit(self, pid: int) -> None:
        """Record that the tool `pid` was reaped, and pass its output on."""
        tool = self._running.pop(pid)
        self._read(tool)
        self._answer(tool, is_whole=True)

    def check(self, now: float) -> float:
        """Kill the tools that are past their time; return when to check again."""
        for tool in tuple(self._running.values()):
            if tool.then is not None and now >= tool.until:
                self._kill(tool)
                self._answer(tool, is_whole=False)
        return min((tool.until for tool in self._running.values() if tool.then), default=_NEVER)

    def drop(self, tool: Tool) -> None:
        """Kill `tool` and discard its output."""
        tool.then = None
        self._kill(tool)
        self._close(tool)

    def end(self) -> None:
        """Kill every tool."""
        for tool in tuple(self._running.values()):
            self.drop(tool)

    def _read(self, tool: Tool) -> None:
        while tool.pipe >= 0:
            try:
                data = os.read(tool.pipe, 1 << 16)
            except BlockingIOError:
                return
            tool.output += data
            if not data:
                self._close(tool)
            elif len(tool.output) > _OUTPUT_BYTES:
                self._kill(tool)
                self._close(tool)

    def _answer(self, tool: Tool, *, is_whole: bool) -> None:
        self._close(tool)
        then, tool.then = tool.then, None
        if then is not None:
            then(tool.output, is_whole)

    def _close(self, tool: Tool) -> None:
        if tool.pipe >= 0:
            self._unwatch(tool.pipe)
            os.close(tool.pipe)
            tool.pipe = -1

    def _kill(self, tool: Tool) -> None:
        # It leads a session of its own and is not reaped, so no other group has its number.
        if tool.pid in self._running:
            with contextlib.suppress(OSError):
                os.killpg(tool.pid, signal.SIGKILL)


_NEVER = float("inf")
