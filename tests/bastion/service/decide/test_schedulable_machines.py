"""Machines that the scheduler cannot handle: closed and reported, without effect on others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bastion.machine import Machine, Pool
from bastion.service.decide.schedulable_machines import digestible
from quota import Amounts
from tests.rigs.leader import Rig

POOL = Pool(name="gpu", provider="fake", resources=Amounts({"h100": 8}), max_machines=2)
WELL = Machine(name="gpu-1-0", pool="gpu", resources=Amounts({"h100": 8, "memory": 10**12}))
ODD = {
    "too many": replace(WELL, resources=Amounts({"h100": 10**19})),
    "too few": replace(WELL, resources=Amounts({"h100": -5})),
    "memory": replace(WELL, resources=Amounts({"memory": 10**16})),
    "bad below": replace(WELL, bad_devices={"h100": (-1,)}),
    "bad above": replace(WELL, bad_devices={"h100": (10**12,)}),
}


@pytest.mark.parametrize("odd", ODD)
def test_what_cannot_be_reckoned_with_is_shown_closed(odd: str) -> None:
    """It keeps its place with what its pool declares, gets no new jobs, and says why."""
    other = replace(WELL, name="gpu-1-1")
    shown, wrong = digestible({"gpu-1-0": ODD[odd], "gpu-1-1": other}, {"gpu": POOL})
    assert shown["gpu-1-1"] is other
    closed = shown["gpu-1-0"]
    assert (closed.accepts, closed.resources, closed.bad_devices) == (False, POOL.resources, {})
    assert list(wrong) == ["gpu-1-0"]
    assert "out of bounds" in wrong["gpu-1-0"]


def test_machines_that_are_well_are_shown_as_they_are() -> None:
    """If nothing is wrong, nothing is copied: this runs in every cycle."""
    machines = {"gpu-1-0": WELL}
    shown, wrong = digestible(machines, {"gpu": POOL})
    assert shown is machines
    assert not wrong


@pytest.mark.parametrize("units", [10**19, 10**30, -5])
def test_one_odd_machine_keeps_no_job_from_starting(units: int) -> None:
    """However it was committed, `status` shows it as a problem, and others are scheduled."""
    rig = Rig()
    rig.turn(3)
    name = sorted(rig.root.machines)[0]
    odd = replace(rig.root.machines[name], resources=Amounts({"h100": units}))
    held = rig.leader.held
    machines = {**held.root.machines, name: odd}
    rig.leader.held = replace(held, root=replace(held.root, machines=machines))
    job = rig.start(h100=4)
    assert rig.agent_of(job).name != name
    assert any(name in problem for problem in rig.journal.problems)
