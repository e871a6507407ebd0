"""The inbox: in the store's order, bounded, and no owner hides another."""

from __future__ import annotations

import pytest

from bastion.clock import VirtualClock
from bastion.records.keys import layout, ulid
from bastion.records.requests.inbox import (
    MAX_BYTES,
    PAGE,
    PAGES,
    PER_OWNER,
    PER_TURN,
    Inbox,
    Look,
)
from bastion.store.memory import FaultyStore, MemoryStore


class Box:
    """A store with an inbox, and a clock."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(self.clock.wall)
        self.counted = FaultyStore(self.store, lambda *_: None)
        self.look = Look(self.counted)
        self.made = 0

    def ask(self, user: str, times: int = 1, *, project: str = "p") -> None:
        """Put that many requests of a user."""
        for _ in range(times):
            self.made += 1
            name = ulid.make(self.clock.wall(), self.made.to_bytes(10, "big"))
            self.store.create(layout.request(project, user, name, "launch"), b"{}")

    def ring(self, machine: str, times: int = 1) -> None:
        """Put that many bells of a machine."""
        for number in range(times):
            self.store.create(layout.bell(machine, 1, number), b"{}")

    def absorb(self, inbox: Inbox) -> None:
        """Delete what was read."""
        taken = [each.entry for each in inbox.requests]
        taken += [each.entry for each in inbox.bells]
        taken += [each.entry for each in inbox.misplaced]
        for entry in taken:
            self.store.delete(entry.key)


def users(inbox: Inbox) -> dict[str, int]:
    """How many requests of each user were taken."""
    counts: dict[str, int] = {}
    for waiting in inbox.requests:
        counts[waiting.name.user] = counts.get(waiting.name.user, 0) + 1
    return counts


def test_an_empty_inbox_costs_one_list() -> None:
    """Nothing waits: one call to the store."""
    box = Box()
    assert box.look.once() == Inbox()
    assert dict(box.counted.counts) == {"list": 1}


def test_requests_come_in_the_stores_order() -> None:
    """By the store's time, then by ULID; bells by machine, then number."""
    box = Box()
    box.ask("zoe", 2)
    box.clock.advance(1.0)
    box.ask("ann", 1)
    box.ring("m2", 11)
    box.ring("m1", 2)
    inbox = box.look.once()
    assert [each.name.user for each in inbox.requests] == ["zoe", "zoe", "ann"]
    assert inbox.requests[0].name.ulid < inbox.requests[1].name.ulid
    bells = [(each.machine, each.number) for each in inbox.bells]
    assert bells == [("m1", 0), ("m1", 1), *(("m2", n) for n in range(11))]


def test_a_users_flood_hides_no_other_user() -> None:
    """However many requests one user sends, the others and all machines are read in the turn."""
    box = Box()
    box.ask("flood", 3000)
    box.ask("zoe", 1)
    box.ask("ann", 1, project="zz")
    box.ring("m", 3)
    inbox = box.look.once()
    assert users(inbox) == {"flood": PER_OWNER, "zoe": 1, "ann": 1}
    assert len(inbox.bells) == 3


def test_a_machines_flood_hides_no_other_machine() -> None:
    """However often one machine rings, the other machines and all users are read."""
    box = Box()
    box.ring("a-flood", 2500)
    box.ring("z", 1)
    box.ask("ann", 1)
    inbox = box.look.once()
    machines = [each.machine for each in inbox.bells]
    assert machines.count("a-flood") == PER_OWNER
    assert machines.count("z") == 1
    assert users(inbox) == {"ann": 1}


def test_many_floods_hide_no_user_for_long() -> None:
    """If more users flood than one turn can read, the next turn continues behind them."""
    box = Box()
    flooders = PER_TURN // PER_OWNER + 2
    for n in range(flooders):
        box.ask(f"flood-{n:02}", 3 * PER_OWNER)
    box.ask("zoe", 1)
    heard: set[str] = set()
    for _ in range(2):
        inbox = box.look.once()
        heard |= set(users(inbox))
        box.absorb(inbox)
        for n in range(flooders):
            box.ask(f"flood-{n:02}", PER_OWNER)
    assert "zoe" in heard
    assert len(heard) == flooders + 1


def test_everything_is_taken_in_the_end() -> None:
    """Turn after turn, for any mixture, the inbox is emptied."""
    box = Box()
    box.ask("a", 700)
    box.ask("a.b", 450)
    box.ask("a-b", 10)
    box.ring("m", 300)
    box.ring("m-2", 300)
    for _ in range(10):
        box.absorb(box.look.once())
    assert not box.store.list(layout.INBOX)


@pytest.mark.parametrize(
    "key",
    [
        "inbox/p/u/x.json",
        "inbox/p/u/01HF7YAXX00000000000000005.json",
        "inbox/p/u/01HF7YAXX00000000000000005.launch",
        "inbox/p/u/deep/01HF7YAXX00000000000000005.launch.json",
        "inbox/_bell/m/m/1.json",
        "inbox/_bell/m/m/a-1.json",
        "inbox/_bell/m/000001-000000000001.json",
        "inbox/_bell/other/gpu-2-0/000001-000000000001.json",
        "inbox/readme",
    ],
)
def test_what_has_no_name_is_misplaced(key: str) -> None:
    """An object with neither a request's nor a bell's name is returned as misplaced."""
    box = Box()
    box.store.create(key, b"")
    (misplaced,) = box.look.once().misplaced
    assert misplaced.entry.key == key
    assert misplaced.why == "its name is neither a request's nor a bell's"


def test_what_is_too_large_is_marked() -> None:
    """A request above the limit is marked, to be answered; a bell above it is misplaced."""
    box = Box()
    name = ulid.make(box.clock.wall(), bytes(10))
    big = bytes(MAX_BYTES + 1)
    box.store.create(layout.request("p", "u", name, "launch"), big)
    box.store.create(layout.bell("m", 1, 0), big)
    inbox = box.look.once()
    text = f"{MAX_BYTES + 1} bytes is too large; at most {MAX_BYTES}"
    assert [each.problem for each in inbox.requests] == [text]
    assert [each.why for each in inbox.misplaced] == [text]
    assert not inbox.bells


def test_what_is_skipped_uses_up_no_cap() -> None:
    """Old objects that stay in the bucket hide no newer ones of their owner."""
    box = Box()
    box.ring("gpu-1-0", 3 * PER_OWNER)
    box.ask("ann", 3 * PER_OWNER)
    old = {entry.key for entry in box.store.list(layout.INBOX, limit=10_000)}
    box.clock.advance(1.0)
    box.ask("ann", 5)
    box.store.create(layout.bell("gpu-1-0", 1, 3 * PER_OWNER), b"{}")
    inbox = box.look.once(old.__contains__)
    assert users(inbox) == {"ann": 5}
    assert [bell.number for bell in inbox.bells] == [3 * PER_OWNER]
    assert not inbox.misplaced


def test_a_turn_goes_through_few_pages_of_what_is_skipped() -> None:
    """However much stays in the bucket, a turn lists a part of it, and the next one continues."""
    box = Box()
    box.ring("gpu-1-0", (PAGES + 1) * PAGE)
    new = layout.bell("gpu-2-0", 1, 0)
    box.store.create(new, b"{}")
    heard = []
    for _ in range(2):
        before = box.counted.counts["list"]
        inbox = box.look.once(lambda key: key != new)
        heard.append([bell.machine for bell in inbox.bells])
        assert box.counted.counts["list"] - before <= 2 * PAGES + 1
    assert heard == [[], ["gpu-2-0"]]
