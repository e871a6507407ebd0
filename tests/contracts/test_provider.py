"""What every provider promises, held to the adapter that runs machines here and to the fake."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bastion.clock import SystemClock, VirtualClock
from bastion.machine import Machine, Pool
from bastion.provider.fake import FakeProvider
from bastion.provider.local import LocalProvider
from bastion.provider.port import Provider
from quota.amounts import Amounts

POOL = Pool(name="here", provider="test", resources=Amounts({"cpu": 2}), max_machines=4)
MACHINE = Machine(name="here-7-0", pool="here")
DEADLINE_S = 30.0


@dataclass(frozen=True, kw_only=True)
class Place:
    """A provider without machines, and how its world moves on."""

    provider: Provider
    let_time_pass: Callable[[], None]
    kill_agent: Callable[[str], None]

    def states(self) -> dict[str, str]:
        """Name -> state of every machine listed."""
        return {listed.name: listed.state for listed in self.provider.list()}

    def until(self, name: str, state: str) -> None:
        """Wait until a machine is listed in a state."""
        deadline = time.monotonic() + DEADLINE_S
        while self.states().get(name) != state:
            assert time.monotonic() < deadline, self.states()
            self.let_time_pass()


@contextlib.contextmanager
def fake_place(folder: Path) -> Iterator[Place]:
    """The fake, on a virtual clock."""
    clock = VirtualClock()
    provider = FakeProvider(clock, boot_s=60.0, delete_s=30.0)
    yield Place(
        provider=provider, let_time_pass=lambda: clock.advance(1.0), kill_agent=provider.stop
    )


@contextlib.contextmanager
def local_place(folder: Path) -> Iterator[Place]:
    """Machines of this very machine, with real agents and keepers."""
    provider = LocalProvider(f"file://{folder}/root", folder / "machines", SystemClock())

    def kill_agent(name: str) -> None:
        said = (folder / "machines" / name / "agent").read_text().split()
        os.kill(int(said[0]), signal.SIGKILL)

    place = Place(provider=provider, let_time_pass=lambda: time.sleep(0.01), kill_agent=kill_agent)
    try:
        yield place
    finally:
        for listed in provider.list():
            provider.delete(listed.name)
            place.until(listed.name, "gone")


PLACES = {"fake": fake_place, "local": local_place}


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Every provider in turn."""
    with PLACES[request.param](tmp_path) as made:
        yield made


def test_a_created_machine_runs_once(place: Place) -> None:
    """A created machine runs, and a second `create` makes no second one."""
    place.provider.create(MACHINE, POOL)
    place.provider.create(MACHINE, POOL)
    place.until(MACHINE.name, "running")
    place.provider.create(MACHINE, POOL)
    assert place.states() == {MACHINE.name: "running"}


def test_a_dead_agent_is_listed_and_restarted(place: Place) -> None:
    """A machine whose agent died is listed as stopped, and `create` restarts its agent."""
    place.provider.create(MACHINE, POOL)
    place.until(MACHINE.name, "running")
    place.kill_agent(MACHINE.name)
    place.until(MACHINE.name, "stopped")
    place.provider.create(MACHINE, POOL)
    place.until(MACHINE.name, "running")


def test_a_deleted_machine_is_gone_and_its_name_is_used_up(place: Place) -> None:
    """A deleted machine becomes `gone`; neither delete nor create changes that."""
    place.provider.create(MACHINE, POOL)
    place.until(MACHINE.name, "running")
    place.provider.delete(MACHINE.name)
    assert place.states()[MACHINE.name] in ("deleting", "gone")
    place.provider.delete(MACHINE.name)
    place.provider.create(MACHINE, POOL)
    place.until(MACHINE.name, "gone")
    place.provider.create(MACHINE, POOL)
    assert place.states() == {MACHINE.name: "gone"}


def test_deleting_an_unknown_machine_is_no_error(place: Place) -> None:
    """Deleting an unknown machine changes nothing."""
    place.provider.delete("here-1-0")
    assert place.states() == {}


def test_two_machines_are_two(place: Place) -> None:
    """Deleting one machine leaves the other alone."""
    other = Machine(name="here-7-1", pool="here")
    place.provider.create(MACHINE, POOL)
    place.provider.create(other, POOL)
    place.until(other.name, "running")
    place.provider.delete(MACHINE.name)
    place.until(MACHINE.name, "gone")
    assert place.states()[other.name] == "running"
