"""The agent's protocol, on a virtual clock with a scripted keeper."""

from __future__ import annotations

from bastion.agent.keeper_fake import Script
from bastion.job import Claim
from tests.bastion.agent.rig import MACHINE, Rig, job, start

FOREVER = Script(runs_s=float("inf"))


def test_a_short_job_leaves_claim_end_and_facts_in_order() -> None:
    """A job that prints and exits is claimed, started, ended and drained, each told once."""
    rig = Rig(lambda _: Script(output=((0.01, b"hello\n"),), runs_s=0.02, code=0))
    rig.bucket.spec(job("true"))
    rig.bucket.instruct(start())
    rig.pass_s(1)
    assert rig.bucket.told() == ("claimed", "started", "ended", "drained")
    assert rig.bucket.claim() == Claim(machine=MACHINE, life=1, address="127.0.0.1", port=29500)
    end = rig.bucket.end()
    assert end is not None
    assert (end.kind, end.codes, end.sizes, end.notice) == ("exited", (0,), (6,), "")
    assert rig.bucket.log() == b"hello\n"
    assert rig.keeper is not None
    assert rig.keeper.attempts() == ()


def test_a_revoked_claim_runs_nothing() -> None:
    """What the bastion has revoked is never started."""
    rig = Rig()
    rig.bucket.spec(job())
    rig.bucket.put_claim(None)
    rig.bucket.instruct(start())
    rig.pass_s(1)
    assert rig.executions() == 0
    assert rig.bucket.end() is None
