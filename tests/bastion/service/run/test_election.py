"""Which bastion can lead, and when."""

from __future__ import annotations

import pytest

from bastion.clock import VirtualClock
from bastion.errors import LeaseHeldError, OutdatedError, RecordError
from bastion.machine import Machine
from bastion.records.keys import layout
from bastion.records.root import Held, Root, RootWriter, decode_root
from bastion.service.run.election import Candidate, Election
from bastion.store.memory import Fault, FaultyStore, MemoryStore
from bastion.store.port import ObjectStore
from bastion.value import replace


class Town:
    """One bucket and its candidates."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store: ObjectStore = MemoryStore(self.clock.wall)
        self.alive = True
        self.made = 0

    def nonce(self) -> str:
        """Return a new name."""
        self.made += 1
        return f"n{self.made}"

    def election(
        self,
        holder: str = "a",
        *,
        host: str = "vm",
        boot: str = "1",
        pid: int = 1,
        address: str = "",
        is_moved: bool = False,
        build: str = "",
    ) -> Election:
        """Return a bastion that is a candidate."""
        candidate = Candidate(
            holder=holder, host=host, boot=boot, pid=pid, pid_started=0.0, ttl_s=30.0, build=build
        )
        return Election(
            RootWriter(self.store, self.clock),
            self.clock,
            candidate,
            is_alive=lambda pid, started: self.alive,
            nonce=self.nonce,
            old_name="of-its-url",
            address=address,
            is_moved=is_moved,
        )


def leads(election: Election) -> Held | None:
    """Return what it leads now, or None."""
    try:
        return election.try_once()
    except LeaseHeldError:
        return None


def test_the_first_bastion_creates_root_and_leads() -> None:
    """On an empty bucket the first bastion creates root and leads, in the store's time."""
    town = Town()
    town.clock._wall = 5.0
    held = town.election().try_once()
    assert (held.root.epoch, held.root.seq, held.root.now) == (1, 1, 5.0)
    assert held.root.leader is not None
    assert held.root.leader.holder == "a"
    assert not held.root.events, "the leader's first turn tells it, at the store's time"


def test_a_restart_on_the_same_host_leads_at_once() -> None:
    """The lease of a dead process of this boot is not waited for."""
    town = Town()
    town.election(pid=1).try_once()
    town.alive = False
    held = leads(town.election(pid=2))
    assert held is not None
    assert held.root.epoch == 2


def test_a_rebooted_host_leads_after_half_a_lease() -> None:
    """After a reboot of its host, the same bastion waits until a living one would have renewed."""
    town = Town()
    town.election(boot="1").try_once()
    again = town.election(boot="2")
    with pytest.raises(LeaseHeldError) as told:
        again.try_once()
    assert told.value.hint == "it is replaced once it has not committed for 15 s"
    town.clock.advance(15.1)
    assert leads(again) is not None


def test_two_machines_of_one_name_do_not_take_the_lead_from_each_other() -> None:
    """The living one renews in time, so the other, created by mistake, never leads."""
    town = Town()
    writer = RootWriter(town.store, town.clock)
    held = town.election(boot="1").try_once()
    twin = town.election(boot="2")
    for n in range(10):
        assert leads(twin) is None
        town.clock.advance(10.0)
        root = replace(held.root, seq=held.root.seq + 1, write_id=f"w{n}")
        held = writer.commit(root, over=held)
    assert leads(twin) is None


@pytest.mark.parametrize("holder", ["a", "b"])
def test_a_living_process_of_this_host_is_waited_for(holder: str) -> None:
    """A second bastion on the host of a living leader does not replace it."""
    town = Town()
    town.election("a").try_once()
    assert leads(town.election(holder, pid=2)) is None


def test_a_standby_elsewhere_waits_for_silence() -> None:
    """Another host takes over when root has not changed for 1.25 leases on its own clock."""
    town = Town()
    town.election("a", host="one").try_once()
    standby = town.election("b", host="two")
    assert leads(standby) is None
    town.clock.advance(37.4)
    assert leads(standby) is None
    town.clock.advance(0.2)
    held = leads(standby)
    assert held is not None
    assert held.root.epoch == 2


def test_a_commit_restarts_the_wait_of_a_standby() -> None:
    """Any commit of the leader is a sign of life, whatever its clock says."""
    town = Town()
    writer = RootWriter(town.store, town.clock)
    held = town.election("a", host="one").try_once()
    standby = town.election("b", host="two")
    for n in range(10):
        assert leads(standby) is None
        town.clock.advance(30.0)
        root = held.root
        moved = type(root)(
            epoch=1, seq=root.seq + 1, now=root.now, write_id=f"w{n}", leader=root.leader
        )
        held = writer.commit(moved, over=held)
    assert leads(standby) is None


def test_one_read_is_never_enough() -> None:
    """However old root is, a standby first watches it on its own clock."""
    town = Town()
    town.election("a", host="one").try_once()
    town.clock.advance(1e6)
    assert leads(town.election("b", host="two")) is None


def test_of_two_standbys_one_leads() -> None:
    """Two that take over at the same time do not both lead."""
    town = Town()
    town.election("a", host="one").try_once()
    standbys = [town.election(name, host=name) for name in ("b", "c")]
    assert [leads(each) for each in standbys] == [None, None]
    town.clock.advance(60.0)
    won = [held for each in standbys if (held := leads(each)) is not None]
    assert len(won) == 1


def test_a_lost_answer_is_no_lost_lead() -> None:
    """A take-over whose answer was lost is recognized as ours."""
    town = Town()
    faults = [Fault.AFTER]
    town.store = FaultyStore(
        town.store, lambda operation, _: faults.pop() if operation == "swap" and faults else None
    )
    held = leads(town.election())
    assert held is not None
    assert not faults


def test_a_root_that_cannot_be_decoded_is_left_alone() -> None:
    """A root of an unknown schema is never overwritten."""
    town = Town()
    town.store.create(layout.ROOT, b'{"schema": 99}')
    with pytest.raises(RecordError, match="schema"):
        town.election().try_once()
    found = town.store.read(layout.ROOT)
    assert found is not None
    assert found.data == b'{"schema": 99}'


def test_a_root_of_another_build_is_kept_as_it_was() -> None:
    """That build may not read what is committed from then on; with the copy it has a way back."""
    town = Town()
    town.alive = False
    town.election(build="old").try_once()
    old = town.election(build="old").try_once()
    assert not town.store.list(layout.SNAPSHOTS), "one of the same build needs no copy"
    found = town.store.read(layout.ROOT)
    assert found is not None
    for _ in range(2):
        town.election(build="new").try_once()
    (entry,) = town.store.list(layout.SNAPSHOTS)
    assert entry.key == layout.snapshot("2023-11-14", old.root.seq)
    kept = town.store.read(entry.key)
    assert kept is not None
    assert kept.data == found.data


def test_a_root_that_names_no_build_is_kept_as_it_was() -> None:
    """It is of an older version, of whichever schema."""
    town = Town()
    town.alive = False
    town.election().try_once()
    town.election(build="new").try_once()
    assert len(town.store.list(layout.SNAPSHOTS)) == 1


def test_an_hourly_copy_of_the_same_commit_stands() -> None:
    """It is the same root, compressed differently."""
    town = Town()
    town.alive = False
    old = town.election(build="old").try_once()
    town.store.create(layout.snapshot("2023-11-14", old.root.seq), b"the same")
    assert town.election(build="new").try_once().root.epoch == 2


def test_a_wrong_clock_does_not_enter_root() -> None:
    """The time in root is the store's, whatever the clock of the creating machine says."""
    store = MemoryStore(lambda: 100.0)
    town = Town()
    town.store = store
    town.election().try_once()
    found = store.read(layout.ROOT)
    assert found is not None
    assert decode_root(found.data).now == 100.0


@pytest.mark.parametrize(
    "trace",
    [
        layout.result("blue", "a-0123456789"),
        layout.answer("blue", "ann", "0" * 26),
        layout.spec("blue", "a-0123456789"),
        layout.view("queue"),
        layout.events(0),
        layout.instructions("gpu-1-0", 1, 1),
        layout.go("blue", "a-0123456789", 1, "n"),
        layout.snapshot("2026-11-21", 7),
    ],
)
def test_a_bucket_that_was_led_is_never_begun_anew(trace: str) -> None:
    """Without root, anything that only a bastion writes shows that one led: jobs would be lost."""
    town = Town()
    town.store.create(trace, b"{}")
    with pytest.raises(RecordError, match="is gone: it was deleted") as told:
        town.election().try_once()
    assert trace in str(told.value)
    assert [entry.key for entry in town.store.list("state/root")] == []


def test_requests_and_machines_may_come_before_the_first_bastion() -> None:
    """What users, admins and agents write does not prevent a first bastion."""
    town = Town()
    for key in (
        layout.QUOTA,
        layout.CONFIG,
        layout.request("blue", "ann", "0" * 26, "launch"),
        layout.origin("0" * 64),
    ):
        town.store.create(key, b"{}")
    assert town.election().try_once().root.epoch == 1


def test_a_bucket_is_named_once_for_all() -> None:
    """A new bucket gets a name with its first commit, and every later leader keeps it."""
    town = Town()
    held = town.election("a").try_once()
    assert held.root.bucket.startswith("n")
    town.alive = False
    assert town.election("b").try_once().root.bucket == held.root.bucket


def test_a_bucket_older_than_names_keeps_what_its_machines_carry() -> None:
    """A root without a name gets the one that its machines derived from its URL: no orphans."""
    town = Town()
    RootWriter(town.store, town.clock).commit(
        Root(epoch=0, seq=0, now=0.0, write_id="old"), over=None
    )
    assert town.election().try_once().root.bucket == "of-its-url"


def test_a_copy_of_a_bucket_with_machines_is_not_led() -> None:
    """Its machines obey the original; an admin can say that it has moved, and that applies."""
    town = Town()
    town.alive = False
    led = town.election(address="gs://old").try_once()
    machine = Machine(name="gpu-1-0", pool="gpu", zone="a")
    with_machine = replace(
        led.root, seq=led.root.seq + 1, write_id="w", machines={machine.name: machine}
    )
    RootWriter(town.store, town.clock).commit(with_machine, over=led)
    with pytest.raises(OutdatedError, match=r"gs://new, was last led as gs://old.*gpu-1-0") as said:
        town.election(address="gs://new").try_once()
    assert "bastion serve --moved" in said.value.hint
    assert town.election(address="gs://old").try_once().root.address == "gs://old"
    assert town.election(address="gs://new", is_moved=True).try_once().root.address == "gs://new"
    assert leads(town.election(address="gs://new")) is not None


@pytest.mark.parametrize("machine", [None, Machine(name="here-1-0", pool="here")])
def test_a_bucket_that_moved_without_machines_elsewhere_is_led(machine: Machine | None) -> None:
    """Nothing obeys the old address: a machine of this host ends with its bucket."""
    town = Town()
    town.alive = False
    led = town.election(address="file:///old").try_once()
    machines = {machine.name: machine} if machine is not None else {}
    root = replace(led.root, seq=led.root.seq + 1, write_id="w", machines=machines)
    RootWriter(town.store, town.clock).commit(root, over=led)
    assert town.election(address="file:///new").try_once().root.address == "file:///new"
