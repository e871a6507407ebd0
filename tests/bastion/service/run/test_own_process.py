"""The process of a bastion is distinguished from all others, whatever the clock says."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import psutil
import pytest

from bastion.provider.machine_folder import started
from bastion.service.run.own_process import boot, is_alive


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """Run a process until the test has ended."""
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield process
        process.kill()


def test_a_process_is_known_by_its_start(sleeper: subprocess.Popen[bytes]) -> None:
    """Another process with its id is not mistaken for it."""
    began = started(sleeper.pid)
    assert is_alive(sleeper.pid, began)
    assert not is_alive(sleeper.pid, began - 1.0)
    assert is_alive(sleeper.pid, 1_700_000_000.25), "a time of day, as an older bastion notes it"


def test_a_start_is_counted_from_the_boot() -> None:
    """It is counted in ticks, so a clock change does not affect it."""
    since_boot_s = started(os.getpid()) / os.sysconf("SC_CLK_TCK")
    told_s = psutil.Process().create_time() - psutil.boot_time()
    assert since_boot_s == pytest.approx(told_s, abs=1.5)


def test_what_has_ended_is_not_alive(sleeper: subprocess.Popen[bytes]) -> None:
    """This holds even before its parent has read its exit code."""
    began = started(sleeper.pid)
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert not is_alive(sleeper.pid, began)
    sleeper.wait()
    assert not is_alive(sleeper.pid, began)


def test_a_boot_and_a_namespace_are_named() -> None:
    """Both are needed: process ids have a meaning in one namespace of one boot only."""
    kernel, namespace = boot().split()
    assert len(kernel) == 36
    assert namespace.isdecimal()
