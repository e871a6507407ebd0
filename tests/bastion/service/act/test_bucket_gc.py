"""The garbage collection of the bucket: what is deleted by age, and what is kept forever."""

from __future__ import annotations

from typing import Any

import pytest

from bastion.errors import StoreRefusedError
from bastion.machine import Batch, Start
from bastion.records.coding.codec import encode
from bastion.records.coding.limits import RECORD_BYTES
from bastion.records.keys import layout
from bastion.records.requests.result import Result
from bastion.records.root import Root
from bastion.records.settings.keep import Keep
from bastion.service.act.bucket_gc import (
    DAY_S,
    DELETES,
    FOR_EVER,
    PAGE,
    REFUSALS,
    ROUND,
    Position,
    collect,
)
from bastion.store.memory import FaultyStore, MemoryStore
from tests.rigs.leader import Rig

NOW = 1_000 * DAY_S


class Old:
    """A bucket with objects of any age."""

    def __init__(self, *, page: int = PAGE, deletes: int = DELETES) -> None:
        self.page = page
        self.deletes = deletes
        self.at = 0.0
        self.store = MemoryStore(lambda: self.at)
        self._puts: list[tuple[float, str, bytes]] = []

    def put(self, key: str, days: float, data: bytes = b"x") -> str:
        """Put an object written that many days ago."""
        self._puts.append((NOW - days * DAY_S, key, data))
        return key

    def put_all(self) -> None:
        """Put them into the store, the oldest first."""
        for at, key, data in sorted(self._puts):
            self.at = at
            self.store.create(key, data)
        self._puts = []

    def keys(self) -> set[str]:
        """Return the keys in the store."""
        return {entry.key for entry in self.store.list("", limit=100_000)}

    def left(self, root: Root | None = None, *, keep: Keep = FOR_EVER) -> set[str]:
        """Return the keys that are left after one whole round."""
        self.put_all()
        root = root or empty()
        position: Position | None = None
        while position != Position():
            stood = len(self.store.list("", limit=100_000))
            position = collect(
                self.store,
                root,
                position or Position(),
                keep=keep,
                page=self.page,
                deletes=self.deletes,
            )
            assert stood - len(self.store.list("", limit=100_000)) <= self.deletes
        return self.keys()


def empty(**more: Any) -> Root:
    """Return a root as of `NOW`."""
    return Root(epoch=1, seq=1, now=NOW, write_id="w", **more)


def claim(job: str) -> str:
    """Return a register of `job`."""
    return layout.claim("blue", job, 1, "n", replica=0, host=0, machine="gpu-1-0")


def test_objects_of_a_killed_probe_are_deleted_after_a_day() -> None:
    """An object of a start-up probe is deleted when no probe can still use it."""
    old = Old()
    old.put(f"{layout.PROBES}aa", days=2)
    young = old.put(f"{layout.PROBES}bb", days=0.5)
    assert old.left() == {young}


def test_registers_go_a_month_after_their_jobs_result() -> None:
    """Registers go once they and the final record are 30 days old; the record itself stays."""
    old = Old()
    gone = [old.put(claim("ended"), 50), old.put(layout.go("blue", "ended", 1, "n"), 50)]
    stays = {
        old.put(layout.result("blue", "ended"), 31),
        old.put(claim("lately"), 50),
        old.put(layout.result("blue", "lately"), 29),
        old.put(claim("never"), 400),
        old.put(layout.claim("blue", "ended", 2, "late", replica=0, host=0, machine="gpu-1-0"), 29),
    }
    assert old.left() == stays
    assert gone


def test_registers_of_an_active_job_stay() -> None:
    """A job in root keeps its registers, whatever their age and whatever else is in the bucket."""
    rig = Rig()
    job = rig.start()
    old = Old()
    stays = {old.put(claim(job), 90), old.put(layout.result("blue", job), 80)}
    assert old.left(empty(jobs=rig.root.jobs)) == stays


def batch(*jobs: str) -> bytes:
    """Return instructions that start `jobs`."""
    starts = tuple(
        Start(
            project="blue", job=job, launch=job, index=0, attempt=1, nonce="n", replica=0, host=0,
            devices={},
        )
        for job in jobs
    )  # fmt: skip
    return encode(Batch(number=1, life=1, instructions=starts))


def test_instructions_go_with_all_the_jobs_they_name() -> None:
    """A batch to a machine that is gone is deleted a month after each of its jobs ended."""
    old = Old()
    stays = {
        old.put(layout.result("blue", "a"), 40),
        old.put(layout.result("blue", "b"), 20),
        old.put(layout.instructions("m", 1, 2), 50, batch("a", "b")),
        old.put(layout.instructions("m", 1, 3), 50, batch("a", "unknown")),
        old.put(layout.instructions("m", 1, 4), 20, batch("a")),
    }
    old.put(layout.instructions("m", 1, 1), 50, batch("a"))
    old.put(layout.instructions("m", 1, 5), 50, batch())
    old.put(layout.instructions("m", 1, 6), 50, b"undecodable")
    assert old.left() == stays


def test_instructions_to_a_living_machine_stay() -> None:
    """Instructions to the life in root are kept, so that its agent never waits on a gap."""
    rig = Rig()
    rig.turn(3)
    name, machine = next(iter(rig.root.machines.items()))
    assert machine.life == 1
    old = Old()
    stays = {old.put(layout.instructions(name, 1, 1), 50, batch())}
    old.put(layout.instructions(name, 0, 1), 50, batch())
    assert old.left(empty(machines=rig.root.machines)) == stays


def test_old_instructions_to_a_current_life_are_deleted_in_order() -> None:
    """The oldest are deleted, up to the newest, or one that names a job that has not ended."""
    rig = Rig()
    rig.turn(3)
    name = next(iter(rig.root.machines))
    old = Old()
    stays = {
        old.put(layout.result("blue", "a"), 40),
        old.put(layout.instructions(name, 1, 3), 50, batch("runs")),
        old.put(layout.instructions(name, 1, 4), 49, batch("a")),
    }
    old.put(layout.instructions(name, 1, 1), 52, batch("a"))
    old.put(layout.instructions(name, 1, 2), 51, batch("a"))
    root = empty(machines=rig.root.machines)
    assert old.left(root) == stays, "no agent that reads from the first on meets a gap"
    stays -= {layout.instructions(name, 1, 3)}
    stays.add(old.put(layout.result("blue", "runs"), 35))
    assert old.left(root) == stays, "the newest is kept for ever: no number is allocated twice"


def test_the_newest_life_stays() -> None:
    """Only the newest life of each machine is kept, so that no number is allocated twice."""
    old = Old()
    strange = old.put(f"{layout.lives('m')}none", 100)
    for number in (1, 2, 3):
        old.put(layout.life("m", number), 100 - number)
    old.put(layout.life("other", 7), 100)
    assert old.left() == {layout.life("m", 3), layout.life("other", 7), strange}


def test_answers_go_after_a_month_unless_their_request_waits() -> None:
    """An answer to a request that is still in the inbox keeps it from being applied again."""
    old = Old()
    waits = "01" + "A" * 24
    stays = {
        old.put(layout.answer("blue", "ann", "young"), 29),
        old.put(layout.answer("blue", "ann", waits), 60),
        old.put(layout.request("blue", "ann", waits, "launch"), 61),
    }
    old.put(layout.answer("blue", "ann", "old"), 31)
    old.put(layout.answer("red", "cat", waits), 60)
    assert old.left() == stays


def test_objects_set_aside_are_deleted_after_a_month() -> None:
    """Everything below `state/aside/` has the same age limit."""
    old = Old()
    stays = {old.put(layout.aside("inbox/x"), 29)}
    old.put(layout.aside("inbox/y"), 31)
    assert old.left() == stays


def test_copies_of_root_thin_out() -> None:
    """Every copy of the last two days stays, then the first of each day, for 30 days."""
    old = Old()
    stays = {
        old.put(layout.snapshot("day-30", 100), 1.0),
        old.put(layout.snapshot("day-30", 101), 0.5),
        old.put(layout.snapshot("day-10", 50), 20.0),
    }
    old.put(layout.snapshot("day-10", 51), 19.9)
    old.put(layout.snapshot("day-10", 52), 19.8)
    old.put(layout.snapshot("day-00", 1), 31.0)
    assert old.left() == stays


def test_the_history_is_kept_for_ever() -> None:
    """Logs, specs, final records, events, kept outputs and bundles are never deleted."""
    old = Old()
    stays = {
        old.put(layout.log("blue", "j", 1, replica=0, host=0, process=0) + "0.log", 999),
        old.put(layout.spec("blue", "j"), 999),
        old.put(layout.result("blue", "j"), 999),
        old.put(layout.events(0), 999),
        old.put(layout.output_content("blue", "j", "d"), 999),
        old.put(f"{layout.BUNDLES}packs/d", 999),
        old.put(layout.ROOT, 999),
        old.put(layout.QUOTA, 999),
        old.put(layout.bell("m", 1, 1), 999),
    }
    assert old.left() == stays


def job_logs(job: str) -> list[str]:
    """Return part of a log, samples, and the output and the end of a command of `job`."""
    command = layout.command_log("blue", job, "U" * 26)
    samples = layout.usage("blue", job, 1, replica=0, host=0)
    return [
        layout.log("blue", job, 1, replica=0, host=0, process=0) + "000000000000.log",
        layout.usage_segment(samples, 0),
        f"{command}000000000000.log",
        layout.command_end(command),
    ]


KEEP = Keep(logs_s=90 * DAY_S, results_s=400 * DAY_S)


def test_logs_and_final_records_have_ages_of_their_own() -> None:
    """Logs are deleted some time after the job's end, its final record later; the record never."""
    old = Old()
    for job, ended in (("gone", 401), ("old", 91), ("new", 89)):
        for key in job_logs(job):
            old.put(key, 500)
        old.put(layout.result("blue", job), ended)
    stays = {
        *job_logs("new"),
        layout.result("blue", "new"),
        layout.result("blue", "old"),
        old.put(layout.log("blue", "old", 2, replica=0, host=0, process=0) + "0.log", 20),
        old.put(layout.spec("blue", "gone"), 999),
        old.put(layout.events(0), 999),
        old.put(layout.day_file("attempts", "2026-11-21", 1, 2), 999),
        old.put(layout.bastion_log_segments("west") + "000000000001.log", 999),
        old.put(layout.output_content("blue", "gone", "d"), 999),
        old.put("logs/blue/gone/notes.txt", 999),
    }
    assert old.left(keep=KEEP) == stays


@pytest.mark.parametrize(("ended_days", "is_kept"), [(2, True), (500, False)])
def test_a_clock_that_was_behind_makes_no_job_older(ended_days: int, is_kept: bool) -> None:
    """Times in root never go back, so a job ended no earlier than its final record says."""
    old = Old()
    ended_at = NOW - ended_days * DAY_S
    record = Result(
        id="ended",
        project="blue",
        user="ann",
        launch="ended",
        name="train",
        outcome="succeeded",
        text="",
        submitted_at=ended_at,
        ended_at=ended_at,
    )
    every = {old.put(key, 600) for key in (*job_logs("ended"), claim("ended"))}
    every.add(old.put(layout.result("blue", "ended"), 600, encode(record)))
    assert old.left(keep=KEEP) == (every if is_kept else set())


def test_jobs_that_go_on_lose_nothing_by_age() -> None:
    """A job in root keeps its logs, and so do the tasks of an array that is not over."""
    rig = Rig()
    job = rig.start()
    old = Old()
    array = rig.root.jobs[job]
    stays = {old.put(key, 900) for key in (*job_logs(job), *job_logs("sweep-0123456789.3"))}
    stays.add(old.put(layout.result("blue", "sweep-0123456789.4"), 900))
    never = {old.put(key, 399) for key in job_logs("unknown")}
    root = empty(jobs=rig.root.jobs, arrays={"sweep-0123456789": array})
    assert old.left(root, keep=KEEP) == stays | never


def test_what_a_round_missed_goes_by_its_own_age() -> None:
    """Logs, registers and instructions without a final record are deleted at the same age."""
    old = Old()
    for key in (*job_logs("lost"), claim("lost")):
        old.put(key, 401)
    old.put(layout.instructions("m", 1, 1), 401, batch("lost"))
    stays = {old.put(claim("later"), 399)}
    assert old.left(keep=KEEP) == stays


@pytest.mark.parametrize(("page", "deletes"), [(1, 1), (3, 2)])
def test_no_log_outlives_its_final_record(page: int, deletes: int) -> None:
    """With small steps and equal ages, logs are gone when the final record is deleted."""
    old = Old(page=page, deletes=deletes)
    keys = [key for job in ("a", "b") for key in job_logs(job)]
    for key in keys:
        old.put(key, 101)
    for job in ("a", "b"):
        old.put(layout.result("blue", job), 100)
    assert not old.left(keep=Keep(logs_s=100 * DAY_S, results_s=100 * DAY_S))


def test_unknown_names_are_kept() -> None:
    """An object whose name the layout does not know is never deleted."""
    old = Old()
    prefixes = (layout.RUNS, layout.BARRIERS, layout.MACHINES, layout.INSTRUCTIONS, layout.ANSWERS)
    stays = {old.put(f"{prefix}something/else", 99) for prefix in prefixes}
    assert old.left() == stays


@pytest.mark.parametrize(("page", "deletes"), [(1, 1), (2, 1), (3, 2), (1000, 1)])
def test_a_round_in_small_steps_comes_to_the_same(page: int, deletes: int) -> None:
    """However little one step does, a round deletes the same objects."""
    old = Old(page=page, deletes=deletes)
    stays = {old.put(layout.result("blue", f"job-{n}"), 40) for n in range(3)}
    for n in range(3):
        old.put(claim(f"job-{n}"), 50)
        old.put(layout.life("m", n), 50)
        old.put(layout.snapshot("day-00", n), 5 - n / 10)
    stays |= {layout.life("m", 2), layout.snapshot("day-00", 0)}
    assert old.left() == stays


def test_the_leader_collects_at_a_slow_pace() -> None:
    """A leader starts after ten minutes, takes one step per minute, and pauses after a round."""
    lists: list[str] = []

    def listed(operation: str, key: str) -> None:
        if operation == "list":
            lists.append(key)

    rig = Rig(spoil=lambda store: FaultyStore(store, listed))
    rig.bucket.create(layout.aside("inbox/x"), b"x")
    lists.clear()
    rig.turn(9, seconds=60.0)
    assert layout.RUNS not in lists
    rig.turn(40, seconds=60.0)
    assert [lists.count(prefix) for prefix in (layout.RUNS, layout.SNAPSHOTS)] == [1, 1]
    rig.turn(40, seconds=DAY_S)
    assert not rig.keys(layout.ASIDE)


def test_a_final_record_too_large_to_read_stops_no_round() -> None:
    """Its age is known from the list; later objects are collected too."""
    old = Old()
    old.put(layout.result("blue", "big"), 50, b"x" * (RECORD_BYTES + 1))
    old.put(claim("big"), 50)
    old.put(layout.result("blue", "ended"), 50)
    old.put(claim("ended"), 50)
    assert old.left() == {layout.result("blue", each) for each in ("big", "ended")}


def test_an_object_under_a_hold_stops_no_round() -> None:
    """An object that cannot be deleted stays and is a problem; later objects are collected."""
    held = {layout.aside(f"inbox/a{n:02}") for n in range(2 * REFUSALS)}

    def refuse(operation: str, key: str) -> None:
        if operation == "delete" and key in held:
            raise StoreRefusedError(f"{key} is under a hold")

    rig = Rig(spoil=lambda store: FaultyStore(store, refuse))
    for key in (*held, layout.aside("inbox/b")):
        rig.bucket.create(key, b"x")
    rig.turn()
    rig.clock.advance(40 * DAY_S)
    told: set[str] = set()
    for _ in range(40):
        rig.turn(seconds=59.0)
        told.update(rig.journal.problems)
    assert set(rig.keys(layout.ASIDE)) == held
    more = f"and {REFUSALS - 1} more like it"
    assert f"garbage: {min(held)} is not deleted, {more}: {min(held)} is under a hold" in told


def test_a_final_record_that_is_not_given_stops_no_round() -> None:
    """The registers of its job stay and are a problem; those of others are collected."""
    old = Old()
    unread = old.put(layout.result("blue", "a"), 40)
    stays = {unread, old.put(layout.result("blue", "b"), 40), old.put(claim("a"), 40)}
    old.put(claim("b"), 40)

    def refuse(operation: str, key: str) -> None:
        if operation == "read" and key == unread:
            raise StoreRefusedError(f"{key}: 403 Forbidden")

    store, told = FaultyStore(old.store, refuse), dict[str, str]()
    old.put_all()
    position = collect(store, empty(), Position(), refused=told)
    assert position.prefix == 1
    assert old.keys() == stays
    assert told == {claim("a"): f"{unread}: 403 Forbidden"}


def test_a_machine_that_is_long_gone_costs_a_round_no_list() -> None:
    """The page that names its life shows that there is no newer one."""
    old = Old()
    stays = {old.put(layout.life(f"gpu-{n}-0", 2), 40) for n in range(50)}
    for n in range(50):
        old.put(layout.life(f"gpu-{n}-0", 1), 40)
    old.put_all()
    store = FaultyStore(old.store, lambda *_: None)
    collect(store, empty(), Position(prefix=ROUND.index(layout.MACHINES)))
    assert old.keys() == stays
    assert store.counts["list"] <= 52, "the page, one for each older life, and one at its end"
