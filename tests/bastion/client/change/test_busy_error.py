"""A refused launch that must not wait: what the caller gets."""

from __future__ import annotations

import pytest

from bastion.client import BusyError
from bastion.errors import RefusedError
from bastion.scheduler.machine_report import MachineReport
from quota import Amounts
from tests.bastion.client.scripted_client import client_of, launch_of

ASKED = Amounts({"h100": 8, "memory": 2**36})
REPORTS = (
    MachineReport(job="a-1", machine="gpu-1-0", asked=ASKED, free=Amounts({"h100": 3}), fits=1),
    MachineReport(job="a-1", machine="gpu-1-1", asked=ASKED, why_not="cordoned: xid 79"),
)


def test_the_error_has_every_machine_as_data_and_as_a_table() -> None:
    """It is a refusal like others, and says what would have helped."""
    client, _, _, bastion = client_of()
    bastion.refusals, bastion.machines = ["a-1: short by 5 h100"], REPORTS
    with pytest.raises(RefusedError) as caught:
        client.launch(launch_of())
    error = caught.value
    assert isinstance(error, BusyError)
    assert (error.message, error.machines) == ("a-1: short by 5 h100", REPORTS)
    assert error.output == (
        "MACHINE  ASKED                   FREE    FITS  WHY NOT",
        "gpu-1-0  8 h100 + 64 GiB memory  3 h100  1     -",
        "gpu-1-1  8 h100 + 64 GiB memory  -       0     cordoned: xid 79",
    )
    assert "queue" in error.hint


def test_several_jobs_are_told_apart() -> None:
    """If a launch has several jobs, each line names its own."""
    other = MachineReport(job="b-1", machine="gpu-1-0", asked=ASKED, fits=1)
    assert BusyError("no", (*REPORTS, other)).output[0].split()[:2] == ["JOB", "MACHINE"]
