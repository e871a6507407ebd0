"""
Programs that query a driver, each of which a broken driver may hold forever.

A process in the kernel of such a driver does not die of SIGKILL, and `subprocess.run` would still
wait for it. Here it is killed and left, and reaped by a later call. Standard library only.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

_held: list[subprocess.Popen[bytes]] = []
"""Killed programs that have not ended."""


def answer_of(command: Sequence[str], *, timeout_s: float) -> subprocess.CompletedProcess[bytes]:
    """
    Run `command` without input, and return what it printed.

    Raises:
        OSError: It cannot be started.
        subprocess.TimeoutExpired: It took too long, or an earlier run of it still does not end.
    """
    for each in tuple(_held):
        if each.poll() is not None:
            _held.remove(each)
    if any(each.args == command for each in _held):
        raise subprocess.TimeoutExpired(command, timeout_s)
    program = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert program.stdout is not None
    assert program.stderr is not None
    try:
        output, errors = program.communicate(timeout=timeout_s)
    except BaseException:
        program.kill()
        program.stdout.close()
        program.stderr.close()
        _held.append(program)
        raise
    return subprocess.CompletedProcess(command, program.returncode, output, errors)
