"""Other processes of the same user, and what they can read of ours."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from bastion import own_memory
from tests.rigs.limits import killed

PYTHON = Path("/usr/bin/python3")
"""A Python that any user can run: ours may be in a closed folder."""

NOBODY = 65534

HIDDEN = (
    Path(own_memory.__file__).read_text()
    + """
import sys
hide_memory()
print("hidden", flush=True)
sys.stdin.read()
"""
)

READS = """
import sys
try:
    print(b"SECRET=1" in open(f"/proc/{sys.argv[1]}/environ", "rb").read())
except PermissionError:
    print("refused")
"""


NEEDS_TWO_USERS = pytest.mark.skipif(
    os.geteuid() != 0 or not PYTHON.exists(), reason="only root may be two users"
)


def seen_by_another(env: Mapping[str, str]) -> str:
    """Return the result of reading a protected process's environment from another process."""
    hidden = subprocess.Popen(
        [PYTHON, "-I", "-S", "-c", HIDDEN],
        env={"SECRET": "1", **env},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        user=NOBODY,
        cwd="/",
    )
    try:
        assert hidden.stdout is not None
        assert hidden.stdout.readline() == b"hidden\n"
        done = subprocess.run(
            [PYTHON, "-I", "-S", "-c", READS, str(hidden.pid)],
            user=NOBODY,
            cwd="/",
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout
    finally:
        killed(hidden)


@NEEDS_TWO_USERS
def test_a_job_cannot_read_the_environment_of_its_agent() -> None:
    """A process of the same user cannot read the environment of a protected one."""
    assert seen_by_another({}) == "refused\n"


@NEEDS_TWO_USERS
def test_a_bastion_inside_a_job_stays_findable() -> None:
    """A process with a job's mark is not protected: its keeper must find it by that mark."""
    assert seen_by_another({"BASTION_MARK": "/home:key"}) == "True\n"
