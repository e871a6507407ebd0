"""
`PointProcess`: one point of a study that runs in a fresh process.

No process is forked without a new program: the caller may have threads (a notebook, a test worker),
and a lock that one of them holds would stay locked forever in a fork. The caller's `__main__` is
not imported again either, as multiprocessing's spawn would do: a point is plain data.

The point and its result are in files without names, so neither side waits for the other to read.
The pipe between them carries only the progress.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryFile

from bastion.errors import BastionError, SpecError
from bastion.own_program import own_program
from bastion.simulator.engine.result import Result
from bastion.simulator.study.point import Point

PROGRAM = "bastion.simulator.study.program"


class PointProcess:
    """
    Starts immediately; `read` and `is_over` follow it.

    Args:
        point: What is simulated.
    """

    def __init__(self, point: Point) -> None:
        self.label = point.setup.name
        self.part = 0.0
        """The fraction of its jobs that have ended."""
        self.has_begun = False
        """Whether an interrupt would leave a partial result."""
        self.is_closed = False
        """Whether it no longer reports its progress: it is over, or about to be."""
        self._is_interrupted = False
        self._unread = b""
        self._answer = TemporaryFile()  # noqa: SIM115 - closed by `close`
        self._progress, telling = os.pipe()
        try:
            with TemporaryFile() as asked:
                pickle.dump(point, asked, protocol=pickle.HIGHEST_PROTOCOL)
                asked.seek(0)
                given = os.getpid(), telling, self._answer.fileno()
                self._process = subprocess.Popen(
                    own_program(PROGRAM, *map(str, given)),
                    stdin=asked,
                    stdout=2,  # what a policy prints is not our data
                    pass_fds=(telling, self._answer.fileno()),
                    process_group=0,  # `interrupt` passes on the terminal's Ctrl-C, once
                    env=os.environ | {"PYTHONPATH": _path()},
                )
        finally:
            os.close(telling)

    @property
    def pid(self) -> int:
        """The ID of its process."""
        return self._process.pid

    def fileno(self) -> int:
        """Return a descriptor that is readable when `read` has news or finds it closed."""
        return self._progress

    def read(self) -> None:
        """Read its progress; call it when there is news."""
        news = os.read(self._progress, 65536)
        self.is_closed = not news
        *lines, self._unread = (self._unread + news).split(b"\n")
        if lines:
            self.has_begun, self.part = True, float(lines[-1])

    def is_over(self, *, within_s: float = 0.0) -> bool:
        """Whether it has ended, or ends within the given time."""
        try:
            self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def interrupt(self) -> None:
        """End it soon: with a partial result if it has started, otherwise with none."""
        self._is_interrupted = True
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT if self.has_begun else signal.SIGKILL)

    def close(self) -> None:
        """Kill it if it still runs; `found` then returns nothing."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._answer.close()
        if self._progress >= 0:
            os.close(self._progress)
            self._progress = -1

    def found(self) -> Result | BastionError | None:
        """Return its outcome, once it is over; None if it was interrupted and has no result."""
        code = self._process.wait()
        if code:
            return None if self._is_interrupted else self._death(code)
        self._answer.seek(0)
        answer = pickle.load(self._answer)  # noqa: S301 - from our own program's file
        if isinstance(answer, Result):
            return answer
        message, hint = answer
        return SpecError(message, hint=hint)

    def _death(self, code: int) -> BastionError:
        if code > 0:
            return BastionError(
                f"{self.label}: its process ended with exit code {code}",
                hint="what it wrote is above",
            )
        name = signal.Signals(-code).name
        hint = "it may have run out of memory: --cores=1 runs one after the other"
        return BastionError(
            f"{self.label}: its process was killed by {name}",
            hint=hint if name == "SIGKILL" else "",
        )


def _path() -> str:
    """Return where this program finds modules, for a process that must find the same ones."""
    return os.pathsep.join(each or str(Path.cwd()) for each in sys.path)
