"""What the history says of a machine that is being created."""

from __future__ import annotations

from dataclasses import replace

from bastion.machine import Machine, MachinePhase
from bastion.service.draft.machine_news import machine_news

NEW = Machine(name="gpu-5-0", pool="gpu", zone="a", batch="gpu-5-0", created_at=100.0)


def news(before: Machine | None, after: Machine, now: float = 200.0) -> list[tuple[str, str]]:
    """Return the news as a list."""
    return list(machine_news(before, after, now))


def test_each_step_is_told_with_its_time() -> None:
    """It reports the request, the queue of the provider, and the existing machine."""
    assert news(None, NEW) == [
        ("machine asked for", "gpu-5-0 of pool gpu in zone a, in one call with batch gpu-5-0")
    ]
    waits = replace(NEW, waits="2 ahead")
    assert news(NEW, waits) == [("machine waits", "gpu-5-0: 2 ahead")]
    made = replace(waits, waits="", made_at=160.0)
    assert news(waits, made) == [("machine made", "gpu-5-0, 1m after it was asked for")]
    assert news(made, replace(made, missing=1)) == []


def test_a_deletion_says_why() -> None:
    """A machine is deleted because its agent never started, or because it was idle."""
    doomed = replace(NEW, phase=MachinePhase.DELETING)
    assert news(NEW, doomed, 760.0) == [
        (
            "machine deleted",
            "gpu-5-0 of pool gpu: its agent has not reported 11m after it was asked for",
        )
    ]
    idle = replace(NEW, phase=MachinePhase.READY, life=1, idle_since=140.0)
    assert news(idle, replace(idle, phase=MachinePhase.DELETING)) == [
        ("machine deleted", "gpu-5-0 of pool gpu: idle for 1m")
    ]
