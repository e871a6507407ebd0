"""
Each fault of machines with each provider: what a job meets, what is created, and what is left.

In the end inventory equals intent, nothing live was deleted, and the job was told the truth.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contracts.faults.ground import Ground
from tests.contracts.faults.grounds import GROUNDS
from tests.contracts.faults.stage import Stage
from tests.contracts.faults.table import CELLS, KILLS, turns_of
from tests.servers.kubernetes.server import needs_kubectl
from tests.servers.sshd import needs_sshd


@pytest.fixture
def ground(provider: str, tmp_path: Path) -> Iterator[Ground]:
    """Provide the provider of the test, in its place."""
    with GROUNDS[provider](tmp_path) as made:
        yield made


NEEDS = {"ssh": needs_sshd, "kubernetes": needs_kubectl}
"""Providers for which every call runs a separate program."""


def over(fault: str, *, is_long: bool = False) -> pytest.MarkDecorator:
    """
    Run a test for each provider that can meet `fault`, with and without a killed bastion.

    Hosts behind a real sshd take seconds for every list, and kubectl a fraction of one, so they are
    only in the long tests. So are all providers but the fake where hours pass.
    """
    found = []
    for provider in CELLS[fault]:
        for kill in ("", *KILLS):
            is_slow = bool(kill) or provider in NEEDS or (is_long and provider != "fake")
            marks = [pytest.mark.prove] if is_slow else []
            marks += [NEEDS[provider]] if provider in NEEDS else []
            name = "-".join(filter(None, (provider, f"killed-{kill}" if kill else "")))
            found.append(pytest.param(provider, kill, marks=marks, id=name))
    return pytest.mark.parametrize(("provider", "kill"), found)


@over("a create times out and the machine exists")
def test_a_create_that_times_out_makes_one_machine(ground: Ground, kill: str) -> None:
    """The create is repeated with the same name, and there is one machine."""
    stage = Stage(ground.place)
    ground.lose(True)
    stage.kill("create", kill)
    stage.submit()
    stage.until_running()
    assert len(stage.place.states()) == 1
    assert not stage.deleted
    stage.end()


@over("a create times out and the machine does not exist")
def test_a_create_that_never_arrives_is_made_again(ground: Ground, kill: str) -> None:
    """The create is repeated with the same name, and there is one machine."""
    stage = Stage(ground.place)
    ground.lose(False)
    stage.kill("create", kill)
    stage.submit()
    stage.until_running()
    assert len(stage.place.states()) == 1
    assert not stage.deleted
    stage.end()


@over("the list lags by a minute")
def test_a_list_that_lags_costs_no_machine(ground: Ground, kill: str) -> None:
    """A machine that greets before any list shows it is kept, and is created once."""
    assert ground.lag is not None
    stage = Stage(ground.place)
    stage.greets_unlisted = True
    ground.lag(60.0)
    stage.submit()
    stage.kill("list", kill)
    stage.until_running()
    stage.turn(12)
    assert stage.rig.job(stage.job).attempts == 1
    assert len(stage.place.states()) == 1
    assert not stage.deleted
    stage.end()


@over("a delete is accepted and the machine stays")
def test_a_machine_that_stays_is_deleted_again(ground: Ground, kill: str) -> None:
    """A machine that is not gone stays in the records, and its deletion is repeated until it is."""
    stage = Stage(ground.place)
    stage.submit()
    stage.until_running()
    ground.keep_deleted(True)
    stage.kill("delete", kill)
    stage.finish()
    stage.until_deleting()
    stage.turn(10)
    assert stage.rig.root.machines.keys() == stage.place.states().keys() != set()
    assert len(stage.deleted) > 2
    ground.keep_deleted(False)
    stage.until_over()


@over("half of a gang is created and the zone sells out")
def test_half_a_gang_is_no_leak(ground: Ground, kill: str) -> None:
    """What was created is used or deleted, and the gang runs where there is room for it."""
    assert ground.stock is not None
    stage = Stage(ground.place)
    ground.stock(1)
    stage.kill("create", kill)
    stage.submit(replicas=2)
    stage.turn(4)
    if not all(stage.place.zones) or stage.place.pool.machines_per_zone:
        assert stage.rig.phase(stage.job) != "running"
        assert stage.is_told("holds machine") or stage.is_told("free devices")
        ground.stock(None)
    stage.until_running(80)
    assert len(stage.rig.root.machines) == len(stage.place.states()) == 2
    ground.stock(None)
    stage.end()


@over("a VM boots and its agent never starts")
def test_a_machine_without_an_agent_is_replaced(ground: Ground, kill: str) -> None:
    """After the boot timeout it is deleted, and the job starts on another one."""
    stage = Stage(ground.place)
    stage.mutes = 1
    stage.submit()
    stage.kill("delete", kill)
    stage.until_running(turns_of(20))
    (mute,) = stage.mute
    assert mute in stage.deleted
    assert stage.is_told("boot") or stage.is_told("machine")
    stage.end()
    assert mute not in stage.rig.root.machines


@over("the agent dies and the VM lives")
def test_an_agent_that_dies_is_started_again(ground: Ground, kill: str) -> None:
    """The list shows it, a create starts the agent, and the job continues with another attempt."""
    stage = Stage(ground.place)
    stage.submit()
    stage.until_running()
    stage.kill("create", kill)
    stage.agent_dies()
    stage.until_attempt(2)
    stage.end()


@over("the agent dies and the VM lives", is_long=True)
def test_an_agent_that_falls_silent_costs_its_machine(ground: Ground, kill: str) -> None:
    """If no list shows it, silence does: the machine is proved off before the job continues."""
    stage = Stage(ground.place)
    stage.submit()
    stage.until_running()
    first = stage.machine
    stage.falls_silent()
    stage.kill("delete", kill)
    if stage.place.provider.vouches:
        stage.until_attempt(2, turns_of(90))
        assert first in stage.deleted
        assert stage.is_told("whose agent was last heard from")
    else:
        stage.until_attempt(2, turns_of(15))
    assert first not in stage.rig.root.machines
    stage.end()


@over("the VM dies after the process has finished")
def test_what_had_finished_is_not_run_again(ground: Ground, kill: str) -> None:
    """The register of its end exists although no bell reported it, and is read."""
    stage = Stage(ground.place)
    stage.submit()
    stage.until_running()
    stage.kill("list", kill)
    stage.finish_unheard()
    ground.vanish(stage.machine)
    stage.until_gone(turns_of(20))  # a host is believed to be off after its permit of ten minutes
    assert stage.rig.result(stage.job).attempts == 1  # type: ignore[union-attr]
    ground.come_back()
    stage.until_over()


@over("credentials expire midway")
def test_expired_credentials_cost_no_machine(ground: Ground, kill: str) -> None:
    """Running jobs continue, waiting jobs show the provider's words; nothing is created twice."""
    assert ground.expire is not None
    stage = Stage(ground.place)
    ground.expire(True)
    stage.submit()
    stage.kill("list", kill)
    stage.turn(18)
    assert stage.rig.phase(stage.job) != "running"
    assert stage.is_told(*EXPIRED.get(stage.place.pool.provider, ("rights", "expired")))
    ground.expire(False)
    stage.until_running(120)
    ground.expire(True)
    stage.turn(12)
    assert stage.rig.phase(stage.job) == "running"
    assert stage.rig.job(stage.job).attempts == 1
    assert not stage.deleted
    ground.expire(False)
    stage.end()


EXPIRED = {
    "gce": ("rights", "no token"),
    "gcp_tpu": ("rights", "no token"),
    "ssh": ("Permission denied",),
    "kubernetes": ("rights", "Unauthorized"),
}
"""The reasons of a waiting job."""


@over("429 for ten minutes")
def test_a_provider_that_wants_to_be_left_alone_is(ground: Ground, kill: str) -> None:
    """Running jobs continue, waiting jobs show the reason; later everything continues."""
    assert ground.pace is not None
    stage = Stage(ground.place)
    ground.pace(True)
    stage.submit()
    stage.kill("list", kill)
    stage.turn(turns_of(10))
    assert stage.rig.phase(stage.job) != "running"
    assert any("next try" in text for text in stage.said[-1:]), stage.said
    ground.pace(False)
    stage.until_running(120)
    attempt = stage.rig.job(stage.job).attempts
    # A host that cuts off calls may hold a machine or not: an attempt for it may have ended unrun.
    assert attempt == 1 or not ground.place.provider.vouches
    ground.pace(True)
    stage.turn(turns_of(10))
    assert stage.rig.phase(stage.job) == "running"
    assert stage.rig.job(stage.job).attempts == attempt
    assert not stage.deleted
    ground.pace(False)
    stage.end()
