"""Your own hosts, which only their keepers' permits prove off: none is off while it rings."""

from __future__ import annotations

from bastion.errors import StoreRefusedError
from bastion.records.keys import layout
from bastion.records.reports.facts import Heartbeat
from bastion.store.memory import Fault, FaultyStore, Operation
from tests.rigs.leader import Rig
from tests.rigs.wrapped import Wrapped

CONFIG = """
[pools.own]
provider = "ssh"
hosts = ["one", "two"]
count = 2
resources = { h100 = 8 }
permit = 600
"""


def ring(rig: Rig) -> None:
    """Let every agent ring, and its bell land."""
    for agent in rig.agents.values():
        agent.ring(Heartbeat())


def pass_s(rig: Rig, seconds: int) -> None:
    """Let time pass in turns of a second, while every agent rings every 30 s."""
    for second in range(seconds):
        if second % 30 == 0:
            ring(rig)
        rig.turn()


def runs_once(rig: Rig, job: str) -> bool:
    """Whether `job` still runs as it was first started, and nowhere else."""
    ran = [each for agent in rig.agents.values() for each in agent.ran]
    return rig.phase(job) == "running" and ran == [f"{job}/1"]


def test_a_bastion_that_was_away_has_not_read_all_bells_in_its_first_turn() -> None:
    """Bells that a turn cannot read are read in the next; until then no machine is silent."""
    rig = Rig(config=CONFIG)
    job = rig.start(h100=8)
    rig.clock.advance(1200.0)
    rig.leader = rig.take(pid=2)
    rig.turn()
    pass_s(rig, 60)
    assert runs_once(rig, job)


def test_a_bastion_that_stood_still_in_a_turn_has_not_heard_what_rang_meanwhile() -> None:
    """Its list of the inbox is older than the time by which it judges."""
    pause_s = 0

    def faults(operation: Operation, key: str) -> Fault | None:
        nonlocal pause_s
        if (operation, key) == ("list", layout.INBOX):
            rig.clock.advance(pause_s)
            pause_s = 0
        return None

    rig = Rig(config=CONFIG, spoil=lambda store: FaultyStore(store, faults))
    job = rig.start(h100=8)
    pause_s = 900
    rig.turn()
    pass_s(rig, 60)
    assert runs_once(rig, job)


def test_a_host_that_never_rings_again_is_off_after_a_takeover_too() -> None:
    """Its permit is counted from the start again, and then its job starts elsewhere."""
    rig = Rig(config=CONFIG)
    job = rig.start(h100=8)
    dead = rig.agent_of(job)
    dead.is_deaf = True
    rig.clock.advance(1200.0)
    rig.leader = rig.take(pid=2)
    for _ in range(690):
        ring_but(rig, dead.name)
        rig.turn()
    assert runs_once(rig, job)
    for _ in range(60):
        ring_but(rig, dead.name)
        rig.turn()
    assert (rig.phase(job), rig.job(job).attempts) == ("running", 2)


def ring_but(rig: Rig, silent: str) -> None:
    """Let every agent but one ring."""
    for name, agent in rig.agents.items():
        if name != silent:
            agent.ring(Heartbeat())


class Undeletable(Wrapped):
    """A bucket with a retention policy: nothing in the inbox can be deleted."""

    def delete(self, key: str) -> None:
        """See the port."""
        if key.startswith(layout.INBOX):
            raise StoreRefusedError(f"{key}: a retention policy")
        super().delete(key)


def test_bells_that_cannot_be_deleted_hide_no_later_bell() -> None:
    """A machine whose old bells pile up is still heard, so its job is started nowhere else."""
    rig = Rig(config=CONFIG, spoil=Undeletable)
    job = rig.start(h100=8)
    for _ in range(6):
        for _ in range(100):
            ring(rig)
        rig.turn()
    pass_s(rig, 900)
    assert runs_once(rig, job)
