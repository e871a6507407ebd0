"""The two files of the admins: the last good contents of each are in force."""

from __future__ import annotations

from typing import Any

import pytest

from bastion.clock import VirtualClock
from bastion.errors import StoreError
from bastion.records.keys import layout
from bastion.records.root import Root
from bastion.service.config.admin_files import LONGEST_S, AdminFiles
from bastion.store.memory import Fault, FaultyStore, MemoryStore
from tests.rigs.leader import CONFIG, QUOTA, Rig


def files(store: MemoryStore | None = None, *, every_s: float = 0.0) -> AdminFiles:
    """Provide the files of a bucket."""
    store = store or MemoryStore(lambda: 0.0)
    return AdminFiles(store, store, VirtualClock(), every_s=every_s)


def root(**more: Any) -> Root:
    """Return a root that knows earlier contents."""
    return Root(epoch=1, seq=1, now=0.0, write_id="w", **more)


def test_nothing_is_in_force_at_first() -> None:
    """Without files there is no quota, no pool, and a problem for each."""
    made = files()
    assert not made.quota
    made.refresh()
    assert made.problems == (
        "there is none at project-quotas/project-quotas.config",
        "there is none at config/bastion.toml",
    )


def test_earlier_contents_are_gone_on_with() -> None:
    """What was in force when root was committed is in force again, whatever the file says now."""
    store = MemoryStore(lambda: 0.0)
    store.create(layout.QUOTA, b"broken")
    made = files(store)
    made.adopt(root(quota_text=QUOTA, config_text=CONFIG))
    made.refresh()
    assert made.quota is not None
    assert set(made.config.pools) == {"gpu"}
    assert made.quota_problem
    assert made.rules.options.grace_s == 5.0


def test_contents_that_this_version_refuses_are_not_adopted() -> None:
    """Contents of another version's root that cannot be read are a problem, not a crash."""
    made = files()
    made.adopt(root(quota_text="[nonsense]", config_text="= ="))
    assert made.quota is None
    assert made.config.pools == {}
    assert len(made.problems) == 2


def test_contents_that_this_version_refuses_are_kept_until_others_are_in_force() -> None:
    """The version that reads them goes on with them; that they are not in force now is news."""
    store = MemoryStore(lambda: 0.0)
    store.create(layout.QUOTA, b"[newer]")
    store.create(layout.CONFIG, b"newer = 1")
    made = files(store)
    made.adopt(root(quota_text="[newer]", config_text="newer = 1"))
    assert made.refresh(), "it is to be told"
    assert not made.refresh(), "once"
    assert (made.quota_text, made.config_text) == ("[newer]", "newer = 1")
    store.delete(layout.CONFIG)
    store.create(layout.CONFIG, CONFIG.encode())
    assert made.refresh()
    assert made.config_text == CONFIG


def test_a_slow_expression_is_not_put_in_force_and_stays_if_it_was() -> None:
    """A user could choose a name that keeps the bastion busy; jobs of a running pool go on."""
    slow = QUOTA.replace("[project_membership]", "[project_membership]\nslow = ['(a+)+']", 1)
    assert slow != QUOTA
    store = MemoryStore(lambda: 0.0)
    store.create(layout.QUOTA, slow.encode())
    fresh, standing = files(store), files(store)
    standing.adopt(root(quota_text=slow))
    for made in (fresh, standing):
        made.refresh()
        assert "takes minutes for some names" in made.quota_problem
    assert fresh.quota is None
    assert standing.quota is not None


def test_hosts_of_two_names_are_a_problem_and_what_was_in_force_stays() -> None:
    """A new file that names one host twice is not in force; an older one in force is adopted."""
    store = MemoryStore(lambda: 0.0)
    store.create(layout.QUOTA, QUOTA.encode())
    store.create(layout.CONFIG, CONFIG.encode())
    shared = ("pools.gpu.hosts: one host twice",)
    made = AdminFiles(store, store, VirtualClock(), every_s=0.0, shared_hosts=lambda _: shared)
    made.refresh()
    assert made.config_problem == shared[0]
    assert made.config.pools == {}
    made.adopt(root(config_text=CONFIG))
    made.refresh()
    assert set(made.config.pools) == {"gpu"}


def test_a_file_that_cannot_be_looked_at_is_no_bad_file() -> None:
    """In an outage the last good file is in force, and a newer one is not called bad."""
    store = MemoryStore(lambda: 0.0)
    store.create(layout.CONFIG, CONFIG.encode())
    store.create(layout.QUOTA, QUOTA.encode())
    is_away = False
    faulty = FaultyStore(store, lambda *_: Fault.BEFORE if is_away else None)
    made = AdminFiles(faulty, faulty, VirtualClock(), every_s=0.0)
    made.refresh()
    is_away = True
    assert not made.refresh(), "nothing in force has changed"
    assert made.problems == ()
    assert all(made.troubles.values())
    assert "the last good one is in force" in made.troubles[layout.CONFIG]
    is_away = False
    made.refresh()
    assert not any(made.troubles.values())


def test_an_outage_is_no_news_of_a_file_that_is_not_there() -> None:
    """Its absence was reported; that it cannot be checked now replaces no problem."""
    is_away = False
    faulty = FaultyStore(MemoryStore(lambda: 0.0), lambda *_: Fault.BEFORE if is_away else None)
    made = AdminFiles(faulty, faulty, VirtualClock(), every_s=0.0)
    made.refresh()
    before = made.problems
    is_away = True
    assert not made.refresh()
    assert made.problems == before
    assert any(made.troubles.values())


@pytest.mark.parametrize("data", [b"", b"\n", b"# nothing\n"])
def test_an_emptied_configuration_is_not_in_force(data: bytes) -> None:
    """An editor that truncates the file for a moment removes no pool."""
    store = MemoryStore(lambda: 0.0)
    first = store.create(layout.CONFIG, CONFIG.encode())
    made = files(store)
    made.refresh()
    store.swap(layout.CONFIG, data, if_version=first.version)
    made.refresh()
    assert set(made.config.pools) == {"gpu"}
    assert "holds no table" in made.config_problem


@pytest.mark.parametrize("data", [b"\xff\xfe", b"[", b"", QUOTA.encode() + b"\nx = 1\n"])
def test_a_bad_file_never_replaces_a_good_one(data: bytes) -> None:
    """Whatever is wrong with a newer file, the older contents stay until a good one comes."""
    store = MemoryStore(lambda: 0.0)
    first = store.create(layout.QUOTA, QUOTA.encode())
    made = files(store)
    assert made.refresh()
    good = made.quota
    second = store.swap(layout.QUOTA, data, if_version=first.version)
    assert made.refresh(), "a new problem is news"
    assert made.quota is good
    assert made.quota_problem
    assert made.quota_text == QUOTA
    store.swap(layout.QUOTA, b"\xef\xbb\xbf" + QUOTA.encode(), if_version=second.version)
    assert made.refresh()
    assert not made.quota_problem


def test_an_unchanged_file_is_no_news() -> None:
    """Reading the same contents again changes nothing."""
    store = MemoryStore(lambda: 0.0)
    store.create(layout.QUOTA, QUOTA.encode())
    store.create(layout.CONFIG, CONFIG.encode())
    made = files(store)
    assert made.refresh()
    assert not made.refresh()


def test_files_are_looked_at_every_so_often() -> None:
    """Between two checks, the interval of the pace passes."""
    store = MemoryStore(lambda: 0.0)
    clock = VirtualClock()
    made = AdminFiles(store, store, clock, every_s=10.0)
    made.refresh()
    store.create(layout.QUOTA, QUOTA.encode())
    clock.advance(9.0)
    assert not made.refresh()
    clock.advance(1.0)
    assert made.refresh()


def test_a_bucket_that_hangs_is_looked_at_seldom() -> None:
    """Otherwise every turn would wait for the quota file; once it answers, edits count again."""
    clock = VirtualClock()
    store = MemoryStore(clock.wall)
    store.create(layout.QUOTA, QUOTA.encode())
    hung_s = [0.0]

    def hang(operation: str, key: str) -> Fault | None:
        clock.advance(hung_s[0])
        return Fault.BEFORE if hung_s[0] else None

    made = AdminFiles(store, FaultyStore(store, hang), clock, every_s=10.0)
    assert made.refresh()
    hung_s[0] = 20.0
    waited_s, began = 0.0, clock.monotonic()
    while clock.monotonic() - began < 3600.0:
        clock.advance(2.0)
        before = clock.monotonic()
        made.refresh()
        waited_s += clock.monotonic() - before
    assert waited_s < 3600.0 / 5
    hung_s[0] = 0.0
    found = store.read(layout.QUOTA)
    assert found is not None
    store.swap(layout.QUOTA, QUOTA.replace("16", "8").encode(), if_version=found.version)
    clock.advance(LONGEST_S)
    assert made.refresh()


def test_an_edit_takes_effect_on_the_next_turn() -> None:
    """A user removed from a project is refused on the next turn; running jobs continue."""
    rig = Rig()
    job = rig.start()
    rig.put(layout.QUOTA, QUOTA.replace('["ann", "ben"]', '["ben"]'))
    asked = rig.launch("second")
    rig.turn()
    assert not rig.answer(asked).accepted
    rig.turn(3)
    assert rig.phase(job) == "running"


def test_an_outage_at_the_first_look_refuses_no_request() -> None:
    """If nothing is known of a file yet, an outage ends the turn: the file is not missing."""
    store = MemoryStore(lambda: 0.0)
    store.create(layout.CONFIG, CONFIG.encode())
    store.create(layout.QUOTA, QUOTA.encode())
    is_away = True
    faulty = FaultyStore(store, lambda *_: Fault.BEFORE if is_away else None)
    made = AdminFiles(faulty, faulty, VirtualClock(), every_s=60.0)
    with pytest.raises(StoreError):
        made.refresh()
    is_away = False
    assert made.refresh(), "it is looked at again at once"
    assert made.quota is not None
