"""Pulling an image while the engine is away."""

from __future__ import annotations

from pathlib import Path

import pytest

from bastion.agent.containers.engine import Engine
from bastion.agent.keeper.port import MachineFaultError
from bastion.agent.report.end_record import end_without_start
from bastion.agent.setup.code_setup import SetUpError
from bastion.agent.setup.image import bring_image
from bastion.clock import VirtualClock
from tests.servers.engine import FakeEngine


def test_an_engine_that_stays_away_is_a_fault_of_its_machine(tmp_path: Path) -> None:
    """After a minute the host is lost: another machine may have an engine."""
    clock = VirtualClock()
    began = clock.monotonic()
    engine = Engine(str(tmp_path / "docker.sock"))
    with pytest.raises(MachineFaultError) as raised:
        bring_image("alpine:3", engine, print, print, clock=clock.monotonic, sleep=clock.advance)
    assert 60.0 < clock.monotonic() - began < 65.0
    end = end_without_start(raised.value)
    assert (end.kind, end.by_machine) == ("lost", True)
    assert "image alpine:3 cannot be pulled: " in end.detail


def test_an_engine_without_room_is_a_fault_of_its_machine(tmp_path: Path) -> None:
    """The disk of another machine may have room; the engine's words are shown."""
    fake = FakeEngine(tmp_path / "s", images=set())
    fake.refusal = "write /var/lib/docker/tmp: no space left on device"
    fake.open()
    try:
        with pytest.raises(MachineFaultError, match=r"alpine:3 cannot be pulled: write .*no space"):
            bring_image("alpine:3", Engine(str(fake.path)), print, print)
    finally:
        fake.end()


def test_a_pull_that_nobody_waits_for_ends(tmp_path: Path) -> None:
    """Where its progress is told: a job that was cancelled keeps no thread until it is whole."""

    def ended(_: str) -> None:
        raise SetUpError("its host ended")

    fake = FakeEngine(tmp_path / "s", images=set())
    fake.open()
    try:
        with pytest.raises(SetUpError, match="its host ended"):
            bring_image("alpine:3", Engine(str(fake.path)), print, ended)
    finally:
        fake.end()
