"""What every provider promises, tested against each adapter and the fake."""

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

from bastion.clock import SystemClock
from bastion.errors import NoCapacityError, ProviderRefusedError, ProviderUnavailableError
from bastion.provider.build import build_digest
from bastion.provider.local import LocalProvider
from bastion.provider.own_hosts.ssh import SshProvider
from tests.contracts.amazon_place import ec2_place
from tests.contracts.azure_place import azure_place
from tests.contracts.docker_place import docker_place, engine_place
from tests.contracts.fake_place import fake_place
from tests.contracts.google_places import gce_place, tpu_place
from tests.contracts.kubernetes_place import kubernetes_place
from tests.contracts.provider_place import MACHINE, POOL, Place, World
from tests.contracts.slurm_place import fake_slurm_place, slurm_place
from tests.servers.dockerd import has_shell, needs_dockerd
from tests.servers.kubernetes.server import needs_kubectl
from tests.servers.slurmctld import needs_slurm
from tests.servers.sshd import hosts, needs_sshd


@contextlib.contextmanager
def local_place(folder: Path) -> Iterator[Place]:
    """Provide machines of this machine, with real agents and keepers."""
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
    """Provide two own hosts: each an sshd on this machine, with its own home."""
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
            pool=pool,
        )
        try:
            yield place
        finally:
            for listed in provider.list():
                provider.delete(listed.name)
                place.until(listed.name, "gone")


PLACES = {
    "fake": fake_place,
    "local": local_place,
    "ssh": ssh_place,
    "gce": gce_place,
    "gcp_tpu": tpu_place,
    "ec2": ec2_place,
    "azure_vm": azure_place,
    "docker": docker_place,
    "engine": engine_place,
    "slurm": slurm_place,
    "fake-slurm": fake_slurm_place,
    "kubernetes": kubernetes_place,
}
CLOUDS = ("fake", "gce", "gcp_tpu", "ec2", "azure_vm")
"""The places that have a `World`."""


@dataclass(frozen=True, kw_only=True)
class Cloud:
    """A place whose provider may refuse."""

    place: Place
    world: World

    def calls(self) -> tuple[Callable[[], object], ...]:
        """Return each operation of the port."""
        provider = self.place.provider
        return (
            provider.list,
            lambda: self.place.create(self.place.machine),
            lambda: provider.delete(MACHINE.name),
        )


@pytest.fixture(params=CLOUDS)
def cloud(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cloud]:
    """Provide every provider that may refuse, in turn."""
    with PLACES[request.param](tmp_path) as made:
        assert made.world is not None
        yield Cloud(place=made, world=made.world)


NEEDS: dict[str, pytest.MarkDecorator | list[pytest.MarkDecorator]] = {
    "ssh": [needs_sshd],
    "docker": [
        *needs_dockerd,
        pytest.mark.skipif(not has_shell(), reason="needs busybox-static"),
    ],
    "slurm": needs_slurm,
    "kubernetes": needs_kubectl,
}
"""What the place of that name needs of this machine."""


@pytest.fixture(params=[pytest.param(name, marks=NEEDS.get(name, ())) for name in PLACES])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Provide every provider in turn."""
    with PLACES[request.param](tmp_path) as made:
        yield made


def test_a_created_machine_runs_once(place: Place) -> None:
    """A created machine runs, and a second `create` makes no second one."""
    place.create(place.machine)
    place.create(place.machine)
    place.until(MACHINE.name, "running")
    place.create(place.machine)
    assert place.states() == {MACHINE.name: "running"}


def test_a_dead_agent_is_listed_and_restarted(place: Place) -> None:
    """A machine whose agent died is listed as stopped, and `create` restarts its agent."""
    place.create(place.machine)
    place.until(MACHINE.name, "running")
    place.kill_agent(MACHINE.name)
    place.until(MACHINE.name, "stopped")
    place.create(place.machine)
    place.until(MACHINE.name, "running")


def test_a_deleted_machine_is_gone_and_its_name_is_used_up(place: Place) -> None:
    """A deleted machine becomes `gone`; neither delete nor create changes that."""
    place.create(place.machine)
    place.until(MACHINE.name, "running")
    place.provider.delete(MACHINE.name)
    assert place.states().get(MACHINE.name, "gone") in ("deleting", "gone")
    place.provider.delete(MACHINE.name)
    place.create(place.machine)
    place.until(MACHINE.name, "gone")
    place.create(place.machine)
    assert place.states() == {}


def test_deleting_an_unknown_machine_is_no_error(place: Place) -> None:
    """Deleting an unknown machine changes nothing."""
    place.provider.delete("here-1-0")
    assert place.states() == {}


def test_two_machines_are_two(place: Place) -> None:
    """Deleting one machine leaves the other alone."""
    other = replace(MACHINE, name="here-7-1", zone=place.zones[1])
    place.create(place.machine)
    place.create(other)
    place.until(other.name, "running")
    place.until(MACHINE.name, "running")
    place.provider.delete(MACHINE.name)
    place.until(MACHINE.name, "gone")
    assert place.states() == {other.name: "running"}


def test_a_batch_runs_whole(cloud: Cloud) -> None:
    """Every machine of a batch runs, and repeated requests create the batch only once."""
    cloud.place.create(*cloud.place.batch)
    cloud.place.create(*cloud.place.batch)
    for machine in cloud.place.batch:
        cloud.place.until(machine.name, "running")
    cloud.place.create(*cloud.place.batch)
    assert cloud.world.made() == len(cloud.place.batch)


def test_a_batch_without_room_for_all_leaves_none(cloud: Cloud) -> None:
    """If the zone has fewer machines than the batch, it is sold out, and none is left."""
    cloud.world.stock(1)
    with pytest.raises(NoCapacityError) as sold_out:
        cloud.place.create(*cloud.place.batch)
    assert not sold_out.value.is_limit
    assert cloud.place.zones[0] in str(sold_out.value)
    cloud.place.until_empty()


def test_what_was_sold_out_is_made_when_there_is_stock(cloud: Cloud) -> None:
    """A batch that was refused as sold out is created by a later create of the same names."""
    cloud.world.stock(0)
    with pytest.raises(NoCapacityError):
        cloud.place.create(*cloud.place.batch)
    cloud.place.until_empty()
    cloud.world.stock(None)
    cloud.place.create(*cloud.place.batch)
    for machine in cloud.place.batch:
        cloud.place.until(machine.name, "running")


def test_a_limit_is_no_stock_out(cloud: Cloud) -> None:
    """A limit of the account is different from a zone that is sold out, and creates nothing."""
    cloud.world.limit(True)
    with pytest.raises(NoCapacityError) as limited:
        cloud.place.create(cloud.place.machine)
    assert limited.value.is_limit
    assert cloud.place.states() == {}


def test_missing_rights_are_a_refusal(cloud: Cloud) -> None:
    """Missing permissions refuse and create nothing; once they are granted, a create works."""
    cloud.world.refuse(True)
    with pytest.raises(ProviderRefusedError):
        cloud.place.create(cloud.place.machine)
    cloud.world.refuse(False)
    assert cloud.place.states() == {}
    cloud.place.create(cloud.place.machine)
    cloud.place.until(MACHINE.name, "running")


def test_one_call_too_many_is_asked_again_later(cloud: Cloud) -> None:
    """A provider that limits the rate is unavailable for every operation."""
    cloud.place.create(cloud.place.machine)
    cloud.world.pace(True)
    for call in cloud.calls():
        with pytest.raises(ProviderUnavailableError):
            call()
    cloud.world.pace(False)
    cloud.place.until(MACHINE.name, "running")


def test_a_provider_out_of_reach_lists_nothing_less(cloud: Cloud) -> None:
    """A provider that cannot be reached raises: a list is complete or there is none."""
    cloud.place.create(cloud.place.machine)
    cloud.world.cut(True)
    for call in cloud.calls():
        with pytest.raises(ProviderUnavailableError):
            call()
    cloud.world.cut(False)
    cloud.place.until(MACHINE.name, "running")


@pytest.mark.parametrize("is_made", [True, False], ids=["made", "not-made"])
def test_a_create_without_an_answer_is_made_once(cloud: Cloud, is_made: bool) -> None:
    """A create with an unknown outcome is repeated, and creates the batch exactly once."""
    cloud.world.lose(is_made)
    with pytest.raises(ProviderUnavailableError):
        cloud.place.create(*cloud.place.batch)
    cloud.place.create(*cloud.place.batch)
    for machine in cloud.place.batch:
        cloud.place.until(machine.name, "running")
    assert cloud.world.made() == len(cloud.place.batch)


def test_a_deletion_that_does_nothing_is_seen(cloud: Cloud) -> None:
    """A machine that stays after its deletion was accepted is never gone, and is deleted again."""
    cloud.place.create(cloud.place.machine)
    cloud.place.until(MACHINE.name, "running")
    cloud.world.keep_deleted(True)
    cloud.place.provider.delete(MACHINE.name)
    for _ in range(20):
        cloud.place.let_time_pass()
        assert cloud.place.states().keys() == {MACHINE.name}
    cloud.world.keep_deleted(False)
    cloud.place.provider.delete(MACHINE.name)
    cloud.place.until(MACHINE.name, "gone")


def test_a_pool_that_was_moved_still_has_its_machines(cloud: Cloud) -> None:
    """What it created in other zones, even of another region, is listed and deleted."""
    cloud.place.create(cloud.place.machine)
    cloud.place.until(MACHINE.name, "running")
    moved = replace(cloud.place, provider=cloud.world.moved())
    assert moved.states() == {MACHINE.name: "running"}
    moved.provider.delete(MACHINE.name)
    moved.until(MACHINE.name, "gone")
    assert cloud.place.states() == {}


def test_a_machine_is_deleted_before_any_list(cloud: Cloud) -> None:
    """A restarted bastion does not know the zones of machines: it checks all zones of the pool."""
    cloud.place.create(cloud.place.machine)
    cloud.place.until(MACHINE.name, "running")
    cloud.world.moved().delete(MACHINE.name)
    cloud.place.until(MACHINE.name, "gone")
