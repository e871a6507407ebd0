"""Cgroups, where this machine permits them."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bastion.agent.keeper.attempt.cgroup import Cgroup, Place, find_places
from bastion.agent.keeper.socket.client import KeeperClient
from bastion.agent.machine import stray_processes as strays
from tests.rigs.keepers import HELLO, SLEEPS, RealWorld, attempt, python

WIPED = """
import os
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.execve("/bin/sleep", ["sleep", "1000"], {})
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[RealWorld]:
    """A keeper with cgroups."""
    if not find_places(str(tmp_path)):
        pytest.skip("no cgroup can be written here")
    made = RealWorld(tmp_path)
    yield made
    made.close()


def test_a_daemon_without_any_trace_is_killed(world: RealWorld) -> None:
    """A daemon that wiped mark and session is killed with its attempt while others run."""
    world.keeper.start(attempt("other", SLEEPS))
    world.keeper.start(attempt("a", python(WIPED)))
    world.wrote("other")
    world.ended("a")
    # A killed daemon is a zombie until the keeper's next turn.
    seen = filter(None, map(strays.look, strays.children(world.pid)))
    assert sum(not process.zombie for process in seen) == 1


def test_the_memory_limit_is_enforced_and_recorded(world: RealWorld) -> None:
    """A process over its memory limit is killed, and the record says why."""
    assert isinstance(world.keeper, KeeperClient)
    if not world.keeper.can_limit_memory:
        pytest.skip("no memory cgroup can be written here")
    hog = python("kept = b'x' * (300 << 20)\nprint('fits')")
    limited = replace(attempt("a", hog), memory_limit_bytes=64 << 20)
    world.keeper.start(limited)
    record = world.ended("a")
    assert record.out_of_memory
    assert record.processes[0].signal == 9
    world.keeper.start(replace(attempt("b", HELLO), memory_limit_bytes=64 << 20))
    assert not world.ended("b").out_of_memory


def test_a_tiny_memory_limit_never_reaches_the_keeper(world: RealWorld) -> None:
    """A limit below what any program needs ends the attempt alone, and the keeper continues."""
    assert isinstance(world.keeper, KeeperClient)
    if not world.keeper.can_limit_memory:
        pytest.skip("no memory cgroup can be written here")
    hog = python("kept = b'x' * (64 << 20)\nprint('fits')\ninput()")
    for number in range(5):
        tiny = attempt(f"a{number}", hog, SLEEPS, hog)
        world.keeper.start(replace(tiny, memory_limit_bytes=4096))
        assert world.ended(f"a{number}").out_of_memory
    assert strays.children(world.pid) == []


def test_nothing_is_left_of_a_keeper_that_has_ended(world: RealWorld) -> None:
    """When an attempt has ended its cgroup is gone, and with the keeper its folder."""
    assert isinstance(world.keeper, KeeperClient)
    bases = [Path(place.base) for place in find_places(str(world.home / "keeper"))]
    world.keeper.start(attempt("a", HELLO))
    world.ended("a")
    assert [entry for base in bases for entry in base.iterdir() if entry.is_dir()] == []
    world.keeper.terminate()
    world.gone()
    assert not any(base.exists() for base in bases)


def test_a_new_life_empties_old_cgroups(world: RealWorld) -> None:
    """Processes in a killed keeper's cgroups, without a mark, die before the next one serves."""
    world.keeper.start(attempt("a", python(WIPED), SLEEPS))
    world.wrote("a", process=1)
    left = set(strays.children(world.pid))
    world.crash()
    world.next_life()
    assert left
    for pid in left:
        seen = strays.look(pid)
        assert seen is None or seen.zombie


def test_a_limit_that_the_machine_cannot_set_is_no_fault_of_the_job(tmp_path: Path) -> None:
    """Without a descriptor to set a memory limit, a job is not recorded as over it."""
    place = Place(home=str(tmp_path), base=str(tmp_path), is_unified=True, has_memory=True)
    (tmp_path / "one").mkdir()
    cgroup = Cgroup([place], "one")
    assert not cgroup.limit_memory(1)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            cgroup.limit_memory(1)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
