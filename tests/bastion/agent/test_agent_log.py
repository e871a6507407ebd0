"""The agent's log has a size limit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from bastion.agent.agent_log import bound
from tests.bastion.agent.real_machine import REPOSITORY


def test_a_log_at_its_limit_keeps_its_last_lines(tmp_path: Path) -> None:
    """It is cut at a line, says how much is missing, and is appended to as before."""
    path = tmp_path / "log"
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    other = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        for number in range(1000):
            os.write(file, b"line %03d\n" % number)
            bound(file, limit_bytes=500, kept_bytes=50)
        os.write(other, b"from another\n")
        lines = path.read_bytes().splitlines()
    finally:
        os.close(file)
        os.close(other)
    assert path.stat().st_size < 600
    assert lines[0].endswith(b" bytes of this log were cut]")
    assert lines[-2:] == [b"line 999", b"from another"]
    numbers = [int(line.split()[1]) for line in lines[1:-1]]
    assert numbers == list(range(numbers[0], 1000))


def test_what_is_not_appended_to_is_left_alone(tmp_path: Path) -> None:
    """A pipe, and a file that others write at their own position, are not cut."""
    path = tmp_path / "log"
    with path.open("wb", buffering=0) as file:
        file.write(b"x" * 1000)
        bound(file.fileno(), limit_bytes=500, kept_bytes=50)
    assert path.stat().st_size == 1000
    reading, writing = os.pipe()
    bound(writing, limit_bytes=0, kept_bytes=0)
    os.close(reading)
    os.close(writing)


def test_a_log_that_takes_nothing_stops_nothing() -> None:
    """An agent whose log is on a full disk loses its lines, and ends normally."""
    code = "from bastion.agent.agent_log import say; say('one'); say('two'); print('went on')"
    with Path("/dev/full").open("wb") as full:
        ran = subprocess.run(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            stderr=full,
            check=True,
            cwd=REPOSITORY,
        )
    assert ran.stdout == b"went on\n"
