"""The set-up of a host, where agents follow one another in one process."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

from bastion.agent.keeper.fake import Script
from bastion.agent.kept_output import save
from bastion.lane import ThreadLane
from tests.rigs.agent import OF, Rig, job, start
from tests.rigs.limits import PATIENCE_S


def test_a_set_up_of_an_agent_before_ends_before_the_host_starts(tmp_path: Path) -> None:
    """An agent that lost its keeper for a while leaves a thread: it overwrites no job's output."""
    second = replace(OF, attempt=2, nonce="n2")
    reached, may_go_on = threading.Event(), threading.Event()

    def hold(operation: str, key: str) -> None:
        if operation == "read" and "/content/" in key and not reached.is_set():
            reached.set()
            may_go_on.wait(PATIENCE_S)

    lanes = [ThreadLane(name, workers=1) for name in ("old", "new")]
    rig = Rig(lambda _: Script(runs_s=float("inf")), faults=hold, long_lane=lanes[0])

    def turns(lane: ThreadLane) -> None:
        rig.agent.turn()
        rig.clock.advance(0.02)
        lane.wait(0.005)

    (tmp_path / "checkpoint").write_text("100")
    save(rig.memory, OF, tmp_path, 1)
    rig.bucket.spec(job())
    rig.bucket.instruct(start(second))
    while not reached.is_set():
        turns(lanes[0])
    lanes[0].close()
    rig.long_lane = lanes[1]
    rig.restart()
    for _ in range(100):
        turns(lanes[1])
    assert rig.bucket.told(second)[-1] == "claimed"
    may_go_on.set()
    while "started" not in rig.bucket.told(second):
        turns(lanes[1])
    lanes[1].close()
