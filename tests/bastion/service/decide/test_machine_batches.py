"""Which machines are created together, all or none."""

from __future__ import annotations

from typing import Any

from bastion.job import HostPlace, JobClass, ReplicaPlace
from bastion.machine import Machine
from bastion.scheduler.plan import Admit, Plan, Verdicts
from bastion.scheduler.reasons.reason import WithinShare
from bastion.service.decide.machine_batches import batched
from quota import NOTHING


def admit(*machines: str) -> Admit:
    """Return the admission of a gang with one replica on each of `machines`."""
    places = tuple(ReplicaPlace(hosts=(HostPlace(machine=name, devices={}),)) for name in machines)
    reason = WithinShare(project="p", held=NOTHING, nominal=NOTHING)
    return Admit(job_class=JobClass.GUARANTEED, placement=places, reason=reason)


def batches(machines: list[Machine], **verdicts: Admit) -> dict[str, str]:
    """Return the batch of each of `machines` in a plan with these verdicts."""
    plan = Plan(verdicts=Verdicts(verdicts), promises=(), planned=(), new_machines=tuple(machines))
    return {machine.name: machine.batch for machine in batched(plan, {})}


def new(name: str, **more: Any) -> Machine:
    """Return a machine of a plan."""
    return Machine(name=name, pool="gpu", zone="a", **more)


def test_the_machines_of_a_gang_are_a_batch() -> None:
    """They have the name of the first; the only machine of a gang has no batch."""
    machines = [new(f"gpu-5-{i}") for i in range(3)]
    found = batches(machines, one=admit("gpu-5-0", "gpu-5-1", "gpu-1-0"), two=admit("gpu-5-2"))
    assert found == {"gpu-5-0": "gpu-5-0", "gpu-5-1": "gpu-5-0", "gpu-5-2": ""}


def test_a_shared_machine_is_in_the_batch_of_its_first_gang() -> None:
    """A failure of the second gang's machines takes nothing from the first gang."""
    machines = [new(f"gpu-5-{i}") for i in range(3)]
    found = batches(machines, one=admit("gpu-5-0", "gpu-5-1"), two=admit("gpu-5-1", "gpu-5-2"))
    assert found == {"gpu-5-0": "gpu-5-0", "gpu-5-1": "gpu-5-0", "gpu-5-2": ""}


def test_zones_and_pools_are_batches_of_their_own() -> None:
    """One call creates machines in one zone of one pool."""
    machines = [new("gpu-5-0"), Machine(name="gpu-5-1", pool="gpu", zone="b")]
    assert set(batches(machines, one=admit("gpu-5-0", "gpu-5-1")).values()) == {""}


def test_a_slice_is_whole_in_its_batch() -> None:
    """All hosts of a slice are in one batch, which knows their number."""
    machines = [new(f"gpu-5-0-h{i}", slice="gpu-5-0") for i in range(2)]
    plan = Plan(verdicts=Verdicts({}), promises=(), planned=(), new_machines=tuple(machines))
    assert {(m.batch, m.hosts) for m in batched(plan, {})} == {("gpu-5-0", 2)}
