"""Registers that nobody can read: one bad object harms only itself."""

from __future__ import annotations

from dataclasses import replace

from bastion.records import layout
from tests.bastion.service.rig import PACE, Rig


def spoil_claim(rig: Rig, job: str) -> None:
    """Put an empty object where the claim of `job` should stand, before an agent does."""
    rig.until(lambda: rig.job(job).attempt is not None)
    attempt = rig.job(job).attempt
    assert attempt is not None
    key = layout.claim("blue", job, attempt.number, attempt.nonce, replica=0, host=0)
    rig.bucket.create(key, b"")


def with_deaf_agents() -> Rig:
    """A rig whose machines stand and whose agents do nothing yet."""
    rig = Rig(pace=replace(PACE, sweep_s=2.0))
    rig.turn(3)
    for agent in rig.agents.values():
        agent.is_deaf = True
    return rig


def test_a_claim_that_nobody_can_read_frees_its_devices() -> None:
    """Nobody has won a malformed `claim`: the attempt is lost, and the next one begins."""
    rig = with_deaf_agents()
    job = rig.submit()
    spoil_claim(rig, job)
    rig.until(lambda: rig.job(job).attempts == 2)


def test_a_claim_that_nobody_can_read_stands_in_no_cancels_way() -> None:
    """A job under a malformed `claim` can be cancelled."""
    rig = with_deaf_agents()
    job = rig.submit()
    spoil_claim(rig, job)
    rig.verb("cancel", job)
    assert rig.ended(job).outcome == "cancelled"
