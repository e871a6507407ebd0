"""A program that a driver blocks in the kernel delays nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bastion.agent.machine.driver_program import answer_of

HELD = """
import ctypes, os, signal, sys
ptrace, anyone = ctypes.CDLL(None).ptrace, ctypes.c_ulong(2**64 - 1)
read_end, write_end = os.pipe()
ctypes.CDLL(None).prctl(0x59616D61, anyone, 0, 0, 0)
if os.fork() == 0:
    signal.alarm(60)
    is_traced = ptrace(0x4206, os.getppid(), 0, 0) == 0
    os.write(write_end, b"traced" if is_traced else b"refused")
    for stream in (1, 2, write_end):
        os.close(stream)
    open(sys.argv[1]).read()
    os._exit(0)
print(os.read(read_end, 16).decode(), flush=True)
signal.pause()
"""
"""
A program that has not ended when it is killed, as in the kernel of a broken driver: the parent of a
traced process learns of its end only when its tracer does. Source: ptrace(2), PTRACE_SEIZE.
"""


def test_a_program_that_does_not_die_is_left(tmp_path: Path) -> None:
    """Its time is over for the caller, and it is not started a second time beside itself."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    opened = os.open(gate, os.O_RDWR)  # what holds the program ends when this is closed
    command = [sys.executable, "-I", "-S", "-c", HELD, str(gate)]
    try:
        with pytest.raises(subprocess.TimeoutExpired) as caught:
            answer_of(command, timeout_s=2.0)
        if caught.value.stdout != b"traced\n":
            pytest.skip("this machine lets no process trace another")
        with pytest.raises(subprocess.TimeoutExpired) as again:
            answer_of(command, timeout_s=2.0)
        assert again.value.stdout is None, "it was not started"
    finally:
        os.close(opened)


def test_an_answer_is_whole() -> None:
    """Output, errors and code are those of the program; a missing program is reported."""
    done = answer_of(["/bin/sh", "-c", "echo out; echo err >&2; exit 3"], timeout_s=30.0)
    assert (done.stdout, done.stderr, done.returncode) == (b"out\n", b"err\n", 3)
    with pytest.raises(FileNotFoundError):
        answer_of(["/no/such/program"], timeout_s=30.0)
