"""
One point of a study, in its own process: `python -m bastion.simulator.study.program`.

`process.py` starts it. It reads the pickled point from standard input and writes its progress to a
pipe, one fraction per line; the first line says that it has started. The result, or what is wrong
with the point, is pickled into a file. What a policy prints goes to stderr. The first interrupt
ends it with a partial result, later ones are ignored, and it does not outlive the program that
started it.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys

from bastion.errors import BastionError
from bastion.simulator.engine.result import Result
from bastion.simulator.run import simulated
from bastion.simulator.study.point import Point

Answer = Result | tuple[str, str]
"""A result, or the message and the hint of an error."""

INTERRUPTED = 130
"""Exit code of a point that was interrupted without a result: 128 + SIGINT, as in shells."""
_LOOK_S = 1.0
"""Between two checks that the parent is alive."""


def main(parent: int, progress: int, answer: int) -> None:
    """
    Simulate the point on standard input.

    Args:
        parent: The process that started this one.
        progress: A descriptor for its progress.
        answer: A descriptor of the file for its outcome.
    """
    _end_with(parent)
    signal.signal(signal.SIGINT, _once)
    for descriptor in (progress, answer):
        os.set_inheritable(descriptor, False)
    point: Point = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the parent's own file

    def tell(ended: int, jobs: int, now: float = 0.0) -> None:
        del now
        os.write(progress, f"{ended / jobs:.6f}\n".encode())

    try:
        tell(0, 1)
        found = _answer(point, tell)
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with open(answer, "wb") as file:
        pickle.dump(found, file, protocol=pickle.HIGHEST_PROTOCOL)
    signal.setitimer(signal.ITIMER_REAL, 0)  # the exiting interpreter removes its handler


def _answer(point: Point, tell: object) -> Answer:
    try:
        return simulated(point.setup, point.workload, progress=tell, names=point.names)  # type: ignore[arg-type]
    except BastionError as error:
        return str(error), error.hint


def _once(number: int, frame: object) -> None:
    """Let only the first interrupt end the simulation; further ones would lose its result."""
    del number, frame
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def _end_with(parent: int) -> None:
    """End when the parent has ended; a timer checks, as other programs may keep a pipe open."""

    def look(*_: object) -> None:
        if os.getppid() != parent:
            os._exit(1)

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, _LOOK_S, _LOOK_S)
    look()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
