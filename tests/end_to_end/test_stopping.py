"""Real bastions that have to stop while their store does not answer."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.end_to_end.programs import DEADLINE_S, Programs, until
from tests.end_to_end.roots import Place, gcs_root
from tests.servers.fault_proxy import Fault, FaultProxy

pytestmark = pytest.mark.end_to_end


@dataclass
class Road:
    """The network between a bastion and its store."""

    fault: Fault = Fault.NONE
    seen: int = 0

    def __call__(self) -> Fault:
        """See `FaultProxy`."""
        self.seen += self.fault is not Fault.NONE
        return self.fault


@pytest.fixture
def road() -> Road:
    """Run a network without faults at first."""
    return Road()


@pytest.fixture
def programs(tmp_path: Path, road: Road) -> Iterator[Programs]:
    """Provide bastions whose bucket is behind `road`."""
    with gcs_root(tmp_path) as place:
        port = int(place.env["STORAGE_EMULATOR_HOST"].rpartition(":")[2])
        with FaultProxy(port, road) as proxy:
            behind = Place(
                url=place.url, env={"STORAGE_EMULATOR_HOST": proxy.url}, store=place.store
            )
            made = Programs(tmp_path, behind)
            try:
                yield made
            finally:
                made.stop_everything()
                sys.stdout.write(made.served)  # shown when the test failed


@pytest.mark.parametrize("fault", [Fault.HANG, Fault.REFUSE, Fault.GATEWAY])
def test_a_bastion_stops_whatever_its_store_does(
    programs: Programs, road: Road, fault: Fault
) -> None:
    """SIGTERM ends a leader in time though its store drops, cuts or fails every request."""
    bastion = programs.serve()
    until(lambda: "leads epoch 1" in programs.served, "it leads")
    road.fault = fault
    until(lambda: road.seen, "it meets the outage")
    bastion.send_signal(signal.SIGTERM)
    assert bastion.wait(timeout=DEADLINE_S) == 1, programs.served
    assert "gave up the lead" not in programs.served
    assert "the next bastion waits" in programs.served or "in doubt whether" in programs.served


def test_a_second_signal_ends_a_bastion_at_once(programs: Programs, road: Road) -> None:
    """SIGINT after SIGTERM ends it immediately, and its log says that two signals arrived."""
    bastion = programs.serve()
    until(lambda: "leads epoch 1" in programs.served, "it leads")
    road.fault = Fault.HANG
    until(lambda: road.seen, "it meets the outage")
    bastion.send_signal(signal.SIGTERM)
    bastion.send_signal(signal.SIGINT)
    assert bastion.wait(timeout=DEADLINE_S) == 1
    assert "asked to stop a second time" in programs.served


def test_a_bastion_that_waits_for_its_store_can_be_stopped(programs: Programs, road: Road) -> None:
    """A bastion that was started in an outage stops too."""
    road.fault = Fault.HANG
    bastion = programs.serve()
    until(lambda: road.seen, "it meets the outage")
    bastion.send_signal(signal.SIGTERM)
    assert bastion.wait(timeout=DEADLINE_S) == 1
