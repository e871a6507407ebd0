"""What every provider promises, held to the adapter that runs machines here and to the fake."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from bastion.clock import SystemClock, VirtualClock
from bastion.machine import Machine, Pool
from bastion.provider.build import build_digest
from bastion.provider.fake import FakeProvider
from bastion.provider.local import LocalProvider
from bastion.provider.port import Provider
from bastion.provider.ssh import SshProvider
from quota.amounts import Amounts
from tests.servers.sshd import hosts, needs_sshd

POOL = Pool(name="here", provider="test", resources=Amounts({"cpu": 2}), max_machines=4)
MACHINE = Machine(name="here-7-0", pool="here")
DEADLINE_S = 30.0


@dataclass(frozen=True, kw_only=True)
class Place:
    """A provider without machines, and how its world moves on."""

    provider: Provider
    let_time_pass: Callable[[], None]
    kill_agent: Callable[[str], None]
    zones: tuple[str, str] = ("", "")

    @property
    def machine(self) -> Machine:
        """One that can be made here."""
        return replace(MACHINE, zone=self.zones[0])

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


HOSTS = ("one", "two")


@contextlib.contextmanager
def ssh_place(folder: Path) -> Iterator[Place]:
    """Two hosts of one's own: each an sshd on this machine, with a home of its own."""
    with hosts(folder, *HOSTS) as config:
        pool = replace(
            POOL,
            provider="ssh",
            zones=HOSTS,
            machines_per_zone=1,
            permit_s=600.0,
            options={"ssh_config": str(config), "python": sys.executable},
        )
        provider = SshProvider(f"file://{folder}/root", pool, bucket="b", build=build_digest())

        def kill_agent(name: str) -> None:
            (note,) = folder.glob(f"*/.bastion/*/{name}/agent")
            os.kill(int(note.read_text().split()[0]), signal.SIGKILL)

        place = Place(
            provider=provider,
            let_time_pass=lambda: time.sleep(0.01),
            kill_agent=kill_agent,
            zones=HOSTS,
        )
        try:
            yield place
        finally:
            for listed in provider.list():
                provider.delete(listed.name)
                place.until(listed.name, "gone")


PLACES = {"fake": fake_place, "local": local_place, "ssh": ssh_place}


@pytest.fixture(
    params=[pytest.param(name, marks=needs_sshd if name == "ssh" else ()) for name in PLACES]
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Every provider in turn."""
    with PLACES[request.param](tmp_path) as made:
        yield made


def test_a_created_machine_runs_once(place: Place) -> None:
    """A created machine runs, and a second `create` makes no second one."""
    place.provider.create([place.machine], POOL)
    place.provider.create([place.machine], POOL)
    place.until(MACHINE.name, "running")
    place.provider.create([place.machine], POOL)
    assert place.states() == {MACHINE.name: "running"}


def test_a_dead_agent_is_listed_and_restarted(place: Place) -> None:
    """A machine whose agent died is listed as stopped, and `create` restarts its agent."""
    place.provider.create([place.machine], POOL)
    place.until(MACHINE.name, "running")
    place.kill_agent(MACHINE.name)
    place.until(MACHINE.name, "stopped")
    place.provider.create([place.machine], POOL)
    place.until(MACHINE.name, "running")


def test_a_deleted_machine_is_gone_and_its_name_is_used_up(place: Place) -> None:
    """A deleted machine becomes `gone`; neither delete nor create changes that."""
    place.provider.create([place.machine], POOL)
    place.until(MACHINE.name, "running")
    place.provider.delete(MACHINE.name)
    assert place.states()[MACHINE.name] in ("deleting", "gone")
    place.provider.delete(MACHINE.name)
    place.provider.create([place.machine], POOL)
    place.until(MACHINE.name, "gone")
    place.provider.create([place.machine], POOL)
    assert place.states() == {MACHINE.name: "gone"}


def test_deleting_an_unknown_machine_is_no_error(place: Place) -> None:
    """Deleting an unknown machine changes nothing."""
    place.provider.delete("here-1-0")
    assert place.states() == {}


def test_two_machines_are_two(place: Place) -> None:
    """Deleting one machine leaves the other alone."""
    other = replace(MACHINE, name="here-7-1", zone=place.zones[1])
    place.provider.create([place.machine], POOL)
    place.provider.create([other], POOL)
    place.until(other.name, "running")
    place.provider.delete(MACHINE.name)
    place.until(MACHINE.name, "gone")
    assert place.states()[other.name] == "running"
