"""
Limits for everything that a test waits for, above all during clean-up.

pytest-timeout ends a test that hangs, but then nothing limits its fixtures. So a thread that is
waited for is a daemon, a process is killed before it is waited for, and both waits end.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from socketserver import BaseServer

import pytest

PATIENCE_S = 60.0
"""Only reached by something that hangs."""


def on_thread(work: Callable[..., object], *arguments: object) -> threading.Thread:
    """Start `work` on a daemon thread, which does not keep the process alive."""
    thread = threading.Thread(target=work, args=arguments, daemon=True)
    thread.start()
    return thread


def fail_starts(monkeypatch: pytest.MonkeyPatch, *, after: int, count: int) -> None:
    """Let `count` starts of a thread fail, as on a machine without memory, after `after` others."""
    start, starts = threading.Thread.start, iter(range(10_000))

    def begin(thread: threading.Thread) -> None:
        if after <= next(starts) < after + count:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", begin)


def joined(thread: threading.Thread, within_s: float = PATIENCE_S) -> None:
    """Wait until a thread has ended; fail with the line where it hangs."""
    thread.join(within_s)
    if thread.is_alive():
        frame = sys._current_frames().get(thread.ident or 0)
        stack = "".join(traceback.format_stack(frame)) if frame else ""
        raise AssertionError(f"{thread.name} has not ended within {within_s:g} s:\n{stack}")


@contextmanager
def answering(server: BaseServer) -> Iterator[None]:
    """Run a server on its own thread; close it in the end."""
    thread = on_thread(server.serve_forever, 0.02)
    try:
        yield
    finally:
        # `shutdown` waits for a loop that a client can block, such as during a handshake.
        joined(on_thread(server.shutdown))
        joined(thread)
        server.server_close()


def killed(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> int:
    """
    Kill a process unless it has ended, and return its exit code.

    Its pipes are closed and not read to their end, because a child of it may hold them open.
    """
    process.kill()
    code = process.wait(PATIENCE_S)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    return code


def line_in(log: Path, text: str, writer: subprocess.Popen[bytes]) -> str:
    """Wait for a line with `text` in what a program writes to a file, and return it."""
    until = time.monotonic() + PATIENCE_S
    while True:
        lines = log.read_text(errors="replace").splitlines()
        found = next((line for line in lines if text in line), None)
        if found is not None:
            return found
        ended = writer.poll()
        assert ended is None, f"it ended with {ended}: {lines[-20:]}"
        assert time.monotonic() < until, f"no {text!r} within {PATIENCE_S:g} s: {lines[-20:]}"
        time.sleep(0.02)
