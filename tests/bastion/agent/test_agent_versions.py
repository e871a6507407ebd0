"""An agent that is older than its bastion, and the newer one that replaces it."""

from __future__ import annotations

import json

from bastion.agent.host.claim import claim_key
from bastion.agent.keeper.fake import Script
from bastion.job import Claim
from bastion.machine import Batch
from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.reports.registers import ClaimRegister
from tests.rigs.agent import MACHINE, OF, Rig, job, start, stop

FOREVER = Script(runs_s=float("inf"))


def newer(data: bytes) -> bytes:
    """Return `data` as a newer Bastion writes it: with a field that this one does not know."""
    return json.dumps({**json.loads(data), "new": 1}).encode()


def upgrade(rig: Rig, key: str, data: bytes) -> None:
    """Let the agent die; the next one reads the object at `key` as `data`."""
    rig.memory.delete(key)
    rig.memory.create(key, data)
    rig.restart()
    rig.pass_s(10)


def test_instructions_of_a_newer_bastion_are_kept_for_a_newer_agent() -> None:
    """Later instructions are followed meanwhile; a stop among them counts when it can be read."""
    rig = Rig(lambda _: FOREVER)
    rig.bucket.spec(job())
    rig.bucket.instruct(start(), number=1)
    key = layout.instructions(MACHINE, 1, 2)
    wanted = encode(Batch(number=2, life=1, instructions=(stop(),)))
    rig.memory.create(key, newer(wanted))
    rig.bucket.instruct(number=3)
    rig.pass_s(10)
    assert rig.bucket.told() == ("claimed", "started")
    assert [line for line in rig.said if "upgrade this one to the newest" in line] == rig.said
    upgrade(rig, key, wanted)
    end = rig.bucket.end()
    assert end is not None
    assert end.notice == "cancel"
    assert rig.executions() == 1
    rig.restart()
    rig.pass_s(1)
    assert len(rig.said) == 1, "nothing is read twice for ever"


def test_a_claim_of_a_newer_agent_is_left_to_the_newer() -> None:
    """It won, and was downgraded before it started the host: once upgraded, it continues."""
    rig = Rig(lambda _: Script(runs_s=0.1))
    rig.bucket.spec(job())
    mine = ClaimRegister(write_id="newer", claim=Claim(machine=MACHINE, life=1))
    rig.memory.create(claim_key(OF, MACHINE), newer(encode(mine)))
    rig.bucket.instruct(start())
    rig.pass_s(10)
    assert (rig.executions(), rig.bucket.end()) == (0, None)
    upgrade(rig, claim_key(OF, MACHINE), encode(mine))
    assert rig.executions() == 1
    assert rig.bucket.told() == ("claimed", "started", "ended", "drained")
