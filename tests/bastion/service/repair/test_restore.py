"""Restoring a copy of root: nothing runs twice, no number goes back, nothing is lost."""

from __future__ import annotations

import pytest

from bastion.errors import ForeignRecordError, LeaseHeldError, NotFoundError, RecordError
from bastion.machine import Batch, Start, StopHost
from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.requests.answer import Answer
from bastion.records.root import Root, decode_root
from bastion.service.repair.fsck import audit
from bastion.service.repair.restore import Restore
from bastion.service.repair.restored_root import EPOCHS_UNSEEN, SEQS_UNSEEN
from bastion.spec import Array, Job, Process, Resources
from tests.rigs.leader import Rig


def copied(rig: Rig) -> str:
    """Copy root as it is; return the key."""
    found = rig.bucket.read(layout.ROOT)
    assert found is not None
    key = layout.snapshot("9999-01-01", rig.root.seq)
    rig.bucket.create(key, found.data)
    rig.clock.advance(120.0)
    return key


def restoring(rig: Rig, key: str = "") -> Restore:
    """Return the restore of a copy, by default the newest."""
    return Restore(rig.bucket, rig.clock, key=key, nonce=rig.nonce)


def brought_back(rig: Rig, key: str = "", *, root: bytes | None = None) -> Root:
    """Delete root, or set it to `root`; restore the copy, and let a bastion lead again."""
    rig.bucket.delete(layout.ROOT)
    if root is not None:
        rig.bucket.create(layout.ROOT, root)
    found = restoring(rig, key).commit()
    rig.leader = rig.take()
    return found


def test_running_jobs_continue_after_a_restore() -> None:
    """Root is deleted and restored; a job that ran before and still runs ends as usual."""
    rig = Rig()
    job = rig.start()
    agent = rig.agent_of(job)
    copied(rig)
    rig.turn(5)
    root = brought_back(rig)
    assert root.jobs[job].phase == "running"
    rig.turn(3)
    assert agent.ran == [f"{job}/1"]
    agent.end(job)
    assert rig.ended(job).attempts == 1


def test_a_log_that_an_admin_has_pruned_lets_no_number_go_back() -> None:
    """Events that only the record has keep their numbers: else later ones would never be read."""
    rig = Rig()
    rig.start()
    rig.turn(70)
    key = copied(rig)
    rig.turn(70)
    for segment in rig.keys(layout.EVENTS):
        rig.bucket.delete(segment)
    rig.bucket.delete(layout.ROOT)
    copy = rig.bucket.read(key)
    assert copy is not None
    known = decode_root(copy.data).next_event
    assert restoring(rig, key).restored.root.next_event > known > 1
    rig.bucket.create(layout.recent_file("events", 0, 1_000), b"")
    assert restoring(rig, key).restored.root.next_event > 1_000


def test_no_number_goes_back() -> None:
    """Epoch, seq and event numbers exceed all used ones, whether root can be read or not."""
    rig = Rig()
    rig.start()
    key = copied(rig)
    rig.start("later")
    rig.turn(70)
    before = rig.root
    readable = restoring(rig, key).restored.root
    assert (readable.epoch, readable.seq) == (before.epoch + 1, before.seq + 1)
    assert readable.next_event == before.next_event + 1
    assert readable.events[:-1] == before.events
    root = brought_back(rig, key, root=b"damaged")
    copy = rig.bucket.read(key)
    assert copy is not None
    assert root.epoch == decode_root(copy.data).epoch + EPOCHS_UNSEEN > before.epoch
    assert root.seq >= before.seq - 1 + SEQS_UNSEEN
    rig.turn(100)
    numbers = [event.n for event in rig.history()]
    assert numbers == list(range(len(numbers)))


@pytest.mark.parametrize("lost", [layout.VIEWS, layout.SNAPSHOTS], ids=["views", "copies"])
def test_no_number_goes_back_when_a_copy_is_restored_again(lost: str) -> None:
    """The leader since the first restore had numbers that only a later copy or a view names."""
    rig = Rig()
    rig.start()
    key = copied(rig)
    brought_back(rig, key, root=b"damaged")
    rig.turn(70)
    before = rig.root
    for each in rig.keys(lost):
        if each != key:
            rig.bucket.delete(each)
    root = brought_back(rig, key, root=b"damaged")
    assert root.epoch > before.epoch
    assert root.seq > before.seq


def test_what_is_replaced_is_kept() -> None:
    """A root that can be read becomes a copy; one that cannot is set aside."""
    rig = Rig()
    rig.turn()
    key = copied(rig)
    rig.turn(40)
    replaced = rig.root
    rig.clock.advance(1.0)
    brought_back(rig, key, root=b"damaged")
    aside = [rig.bucket.read(each) for each in rig.keys(layout.ASIDE)]
    assert [found.data for found in aside if found is not None] == [b"damaged"]
    rig.leader.give_up()
    again = rig.root
    restoring(rig, key).commit()
    kept = [rig.bucket.read(each) for each in rig.keys(layout.SNAPSHOTS)]
    roots = [decode_root(found.data) for found in kept if found is not None]
    assert again in roots
    assert replaced.seq < again.seq


def test_an_ended_job_is_not_restored() -> None:
    """A job with a final record is not in the restored root."""
    rig = Rig()
    job = rig.start()
    key = copied(rig)
    rig.agent_of(job).end(job)
    rig.ended(job)
    restored = restoring(rig, key).restored
    assert restored.ended == (job,)
    assert job not in restored.root.jobs


def test_what_may_run_unknown_is_stopped_and_held() -> None:
    """A job that started after the copy is restored as held, and its attempt is stopped."""
    rig = Rig()
    rig.turn(3)
    job = rig.submit(hold=True)
    key = copied(rig)
    rig.verb("release", job)
    rig.until(lambda: rig.phase(job) == "running")
    agent = rig.agent_of(job)
    restored = restoring(rig, key).restored
    assert restored.held == (job,)
    assert restored.stopped == (f"{job}/a1 on {agent.name}",)
    brought_back(rig, key)
    rig.turn(5)
    assert [(stop.job, stop.attempt) for stop in agent.stops] == [(job, 1)]
    assert rig.phase(job) == "queued"
    assert rig.job(job).held == "restore"
    rig.verb("release", job)
    rig.until(lambda: rig.phase(job) == "running")
    ran = [each for agent in rig.agents.values() for each in agent.ran]
    assert sorted(ran) == [f"{job}/1", f"{job}/2"], "logs are named by the number: none twice"


def test_a_record_of_a_newer_version_stops_a_restore() -> None:
    """It may be a start, so a version that cannot decode it restores nothing."""
    rig = Rig()
    rig.start()
    key = copied(rig)
    newer = layout.instructions(next(iter(rig.agents)), 1, 99)
    rig.bucket.create(newer, b'{"number":99,"life":1,"instructions":[{"kind":"new"}]}')
    with pytest.raises(ForeignRecordError, match=newer):
        restoring(rig, key)


def test_a_launch_of_a_newer_version_stops_a_restore_until_it_has_ended() -> None:
    """Going back to the older version needs no more than that its jobs have ended."""
    rig = Rig()
    rig.turn(3)
    key = copied(rig)
    job = rig.start()
    spec = layout.spec(rig.job(job).project, rig.job(job).launch)
    found = rig.bucket.read(spec)
    assert found is not None
    rig.put(spec, found.data.decode().replace("{", '{"newer":1,', 1))
    with pytest.raises(ForeignRecordError, match=f"{spec}: newer: unknown field") as refused:
        restoring(rig, key)
    assert refused.value.hint == (
        f"first, under the newer version, let {job} end, or bastion cancel {job}"
    )
    rig.agent_of(job).end(job)
    rig.ended(job)
    rig.turn(3)
    assert restoring(rig, key).restored.held == ()


def test_a_second_start_that_the_copy_does_not_know_is_stopped() -> None:
    """A job ran in the copy and again since: its first attempt ended, its second is stopped."""
    rig = Rig()
    job = rig.start(retries=1, retry_backoff=1.0)
    key = copied(rig)
    rig.agent_of(job).end(job, 3)
    rig.until_attempt(job, 2)
    agent = rig.agent_of(job)
    brought_back(rig, key)
    rig.turn(3)
    assert agent.stops[-1].attempt == 2
    assert rig.job(job).held == "restore"


def test_what_has_ended_unknown_is_held_and_not_stopped() -> None:
    """An attempt that started and ended since the copy may have done all of the job's work."""
    rig = Rig()
    job = rig.submit(hold=True)
    key = copied(rig)
    rig.verb("release", job)
    rig.until(lambda: rig.phase(job) == "running")
    rig.leader.give_up()
    rig.agent_of(job).end(job)
    restored = restoring(rig, key).restored
    assert (restored.held, restored.stopped) == ((job,), ())
    brought_back(rig, key)
    rig.turn(5)
    assert rig.job(job).held == "restore"
    rig.verb("release", job)
    rig.until(lambda: rig.phase(job) == "running")
    ran = [each for agent in rig.agents.values() for each in agent.ran]
    assert sorted(ran) == [f"{job}/1", f"{job}/2"], "logs are named by the number: none twice"


def test_a_task_that_has_ended_unknown_is_held_under_the_next_number() -> None:
    """A task that waits in the copy, started and ended since: it does not run again on its own."""
    rig = Rig()
    rig.turn(3)
    array = rig.submit("sweep", array=Array("0-3%1"))
    rig.until(lambda: rig.phase(f"{array}.0") == "running")
    key = copied(rig)
    rig.agent_of(f"{array}.0").end(f"{array}.0")
    task = f"{array}.1"
    rig.until(lambda: rig.phase(task) == "running")
    rig.leader.give_up()
    rig.agent_of(task).end(task)
    restored = restoring(rig, key).restored
    assert (restored.held, restored.stopped) == ((task,), ())
    brought_back(rig, key)
    rig.until(lambda: rig.phase(f"{array}.2") == "running")
    assert rig.job(task).held == "restore"
    rig.agent_of(f"{array}.2").end(f"{array}.2")
    rig.verb("release", task)
    rig.until(lambda: rig.phase(task) == "running")
    ran = [each for agent in rig.agents.values() for each in agent.ran]
    assert [each for each in sorted(ran) if each.startswith(task)] == [f"{task}/1", f"{task}/2"]


def test_a_cancel_accepted_since_is_not_forgotten() -> None:
    """A job that was cancelled after the copy is restored as held: it never starts on its own."""
    rig = Rig()
    job = rig.start()
    key = copied(rig)
    rig.agent_of(job).is_deaf = True
    rig.verb("cancel", job)
    rig.turn(2)
    assert restoring(rig, key).restored.held == (job,)


def test_lost_jobs_are_named() -> None:
    """Jobs submitted after the copy are named, from root or, without one, from their specs."""
    rig = Rig()
    first = rig.submit()
    key = copied(rig)
    later = rig.submit("later")
    rig.launch("refused", h100=99)
    rig.turn(2)
    assert restoring(rig, key).restored.lost == (later,)
    rig.bucket.delete(layout.ROOT)
    restored = restoring(rig, key).restored
    assert restored.lost == (later,)
    assert first in restored.root.jobs


def test_a_machine_that_was_being_created_is_deleted() -> None:
    """A name is for one create: a machine that is being created in the copy is deleted."""
    rig = Rig()
    rig.are_agents_up = False
    rig.turn(2)
    copied(rig)
    root = brought_back(rig)
    assert {machine.phase.value for machine in root.machines.values()} == {"deleting"}


def test_a_new_life_of_a_machine_is_used() -> None:
    """A machine whose keeper restarted since the copy gets instructions for its new life."""
    rig = Rig()
    rig.turn(3)
    name, agent = next(iter(rig.agents.items()))
    copied(rig)
    agent.live_again()
    rig.turn(2)
    job = rig.start(h100=8, replicas=2)
    assert agent.ran == [f"{job}/1"]
    root = brought_back(rig)
    assert root.machines[name].life == 2
    told = rig.bucket.list(layout.instructions(name, 2, 0)[:-17])
    assert root.machines[name].batches == len(told) + 1, "the stop of what runs is the next"
    rig.turn(2)
    assert isinstance(agent.told[-1], StopHost)


def test_a_life_that_cannot_be_read_is_not_used() -> None:
    """A damaged register in `machines/` does not cut a machine off from its instructions."""
    rig = Rig()
    rig.turn(3)
    name, agent = next(iter(rig.agents.items()))
    copied(rig)
    rig.bucket.create(layout.life(name, 8), b'{"schema":1,"wri')
    assert brought_back(rig).machines[name].life == 1
    job = rig.start(h100=8, replicas=2)
    assert agent.ran == [f"{job}/1"]


def test_a_living_leader_is_left_alone() -> None:
    """While root changes nothing is restored; after a timeout a silent leader is replaced."""
    rig = Rig()
    rig.turn()
    copied(rig)
    clock = rig.clock
    wanted = restoring(rig)
    assert wanted.patience_s == 1.25 * rig.pace.ttl_s

    class Meanwhile:
        def sleep(self, seconds: float) -> None:
            rig.turn(int(seconds))

    wanted._clock = Meanwhile()  # type: ignore[assignment]
    before = rig.root.epoch
    with pytest.raises(LeaseHeldError, match="another bastion leads here: bastion on vm"):
        wanted.commit()
    assert rig.root.epoch == before
    silent = restoring(rig)
    began = clock.monotonic()
    assert silent.commit().epoch == before + 1
    assert clock.monotonic() - began == silent.patience_s


def test_a_root_that_cannot_be_decoded_may_have_a_leader() -> None:
    """A root of a newer schema that changes is left alone; one that does not is replaced."""
    rig = Rig()
    rig.turn()
    copied(rig)
    rig.put(layout.ROOT, '{"schema":99}')
    wanted = restoring(rig)
    clock = rig.clock

    class Meanwhile:
        def sleep(self, seconds: float) -> None:
            rig.put(layout.ROOT, '{"schema":99,"seq":2}')

    wanted._clock = Meanwhile()  # type: ignore[assignment]
    with pytest.raises(
        LeaseHeldError, match="another bastion leads here: its root cannot be decoded"
    ):
        wanted.commit()
    began = clock.monotonic()
    restoring(rig).commit()
    assert clock.monotonic() - began == 37.5


def test_a_lost_root_is_never_founded_anew() -> None:
    """A copy proves that there was a root: no bastion restarts with the first numbers."""
    rig = Rig()
    rig.turn(2)
    rig.bucket.delete(layout.ROOT)
    with pytest.raises(RecordError, match=r"state/root\.json is gone: it was deleted") as told:
        rig.take()
    assert told.value.hint.startswith("bastion restore brings a copy back")
    rig.launch()
    with pytest.raises(RecordError, match="is gone"):
        rig.turn()
    assert layout.ROOT not in rig.keys("state/")


def test_a_bastion_that_took_the_lead_meanwhile_keeps_it() -> None:
    """A bastion that takes the lead between the read and the commit is not replaced."""
    rig = Rig()
    rig.turn()
    copied(rig)
    rig.leader.give_up()
    wanted = restoring(rig)
    rig.leader = rig.take()
    with pytest.raises(LeaseHeldError, match="root was changed meanwhile"):
        wanted.commit()


def test_the_bucket_is_whole_afterwards() -> None:
    """A restored root breaks no rule of the protocol."""
    rig = Rig()
    rig.turn(3)
    job = rig.submit(hold=True)
    key = copied(rig)
    rig.verb("release", job)
    rig.until(lambda: rig.phase(job) == "running")
    rig.turn(70)
    brought_back(rig, key)
    rig.turn(70)
    assert audit(rig.bucket, rig.clock) == ()


def test_a_missing_copy_is_an_error() -> None:
    """The error names the newest copy, if there is one."""
    rig = Rig()
    with pytest.raises(NotFoundError, match="there is no copy of root under state/snap/"):
        restoring(rig)
    rig.turn()
    with pytest.raises(NotFoundError, match="no copy at 'x'") as told:
        restoring(rig, "x")
    assert told.value.hint.startswith("the newest is state/snap/")


def test_the_newest_copy_comes_first() -> None:
    """Copies are listed newest first, and the newest is the default."""
    rig = Rig()
    rig.turn()
    copied(rig)
    found = restoring(rig)
    assert found.copy.key == found.copies[0].key == layout.snapshot("9999-01-01", found.copy.seq)
    assert len(found.copies) == 2


def test_the_newest_copy_is_that_of_the_latest_commit() -> None:
    """In a copied bucket, every object has the time at which it was copied."""
    rig = Rig()
    rig.turn()
    newest = copied(rig)
    (first,) = (each.key for each in restoring(rig).copies if each.key != newest)
    old = rig.bucket.read(first)
    assert old is not None
    rig.bucket.delete(first)
    rig.bucket.create(first, old.data)
    assert [each.key for each in restoring(rig).copies] == [newest, first]


def test_dependents_learn_how_their_targets_ended() -> None:
    """The targets of waiting jobs ended after the copy: their outcomes count, down a chain."""
    rig = Rig()
    rig.turn(3)
    good, bad = rig.start("good"), rig.start("bad")
    waits = rig.submit("waits", after=[good])
    fails = rig.submit("fails", after=[bad])
    chain = rig.submit("chain", after=[fails])
    copied(rig)
    rig.agent_of(good).end(good)
    rig.agent_of(bad).end(bad, 4)
    rig.until(lambda: rig.result(good) is not None and rig.result(bad) is not None)
    root = brought_back(rig)
    assert root.jobs[waits].after == ()
    assert rig.ended_later(fails).text == f"its dependency {bad} failed (exited with code 4)"
    assert rig.ended_later(chain).outcome == "cancelled"


def test_tasks_of_an_array_are_brought_up_to_date() -> None:
    """Ended tasks count, unknown or cancelled ones are held, and the rest wait."""
    rig = Rig()
    rig.turn(3)
    array = rig.submit("sweep", array=Array("0-9%2"))
    rig.until(lambda: rig.phase(f"{array}.1") == "running")
    key = copied(rig)
    rig.agent_of(f"{array}.0").end(f"{array}.0", 3)
    rig.ended(f"{array}.0")
    rig.until(lambda: rig.phase(f"{array}.2") == "running")
    agent = rig.agent_of(f"{array}.2")
    rig.verb("cancel", f"{array}.7-8")
    rig.turn(2)
    restored = restoring(rig, key).restored
    assert restored.held == (f"{array}.2", f"{array}.7-8")
    assert restored.stopped == (f"{array}.2/a1 on {agent.name}",)
    assert restored.ended == (f"{array}.0",)
    assert restored.lost == ()
    back = restored.root.arrays[array]
    assert {kind: str(over) for kind, over in back.ended.items()} == {"failed": "0"}
    assert (str(back.waiting), str(back.held)) == ("3-9", "7-8")
    jobs = {job.id: (job.attempts, job.held) for job in restored.root.jobs.values()}
    assert jobs == {f"{array}.1": (1, ""), f"{array}.2": (1, "restore")}
    brought_back(rig, key)
    rules = ("answers", "specs", "results", "tasks")
    assert not [each for each in audit(rig.bucket, rig.clock) if each.rule in rules]
    rig.turn(5)
    assert [stop.job for stop in agent.stops] == [f"{array}.2"]


def test_an_array_that_ended_or_was_cancelled_since_does_not_run_again() -> None:
    """With a final record it is not restored; cancelled as a whole, it is held as a whole."""
    rig = Rig()
    ended = rig.submit("ended", array=Array("0-1"))
    cancelled = rig.submit("cancelled", array=Array("0-9%1"))
    rig.until(lambda: rig.phase(f"{ended}.1") == "running")
    key = copied(rig)
    rig.verb("cancel", cancelled)
    for task in (0, 1):
        rig.agent_of(f"{ended}.{task}").end(f"{ended}.{task}")
    rig.ended_later(ended)
    restored = restoring(rig, key).restored
    assert ended not in restored.root.arrays
    assert ended in restored.ended
    assert not [job for job in restored.root.jobs if job.startswith(ended)]
    rig.until(lambda: cancelled not in rig.root.arrays)
    again = restoring(rig, key).restored
    assert cancelled in again.ended


def test_a_damaged_copy_is_skipped_and_named() -> None:
    """The newest copy that can be decoded is restored; newer ones are named."""
    rig = Rig()
    rig.turn()
    good = copied(rig)
    cut, empty = layout.snapshot("9999-01-02", 2), layout.snapshot("9999-01-03", 3)
    rig.bucket.create(cut, b'{"schema":2,"epoch":')
    rig.clock.advance(1.0)
    rig.bucket.create(empty, b"")
    found = restoring(rig)
    assert found.copy.key == good
    assert list(found.damaged) == [empty, cut]
    assert all(found.damaged.values())
    with pytest.raises(RecordError, match=cut):
        restoring(rig, cut)
    for key in rig.keys(layout.SNAPSHOTS):
        if key not in (cut, empty):
            rig.bucket.delete(key)
    with pytest.raises(RecordError, match="no copy of root can be decoded"):
        restoring(rig)


def test_a_copy_of_a_newer_version_is_not_skipped() -> None:
    """It is intact, so an older copy replaces it only if that is named explicitly."""
    rig = Rig()
    rig.turn()
    good = copied(rig)
    rig.bucket.create(layout.snapshot("9999-01-02", 3), b'{"schema":99}')
    rig.bucket.create(layout.snapshot("9999-01-03", 2), b"damaged")
    with pytest.raises(RecordError, match="schema 99") as refused:
        restoring(rig)
    assert refused.value.hint.endswith(
        f"; to go back to this version: bastion restore --snapshot={good}"
    )
    assert restoring(rig, good).copy.key == good


def test_a_damaged_final_record_stops_no_restore() -> None:
    """A task whose final record cannot be decoded still counts as ended."""
    rig = Rig()
    rig.turn(3)
    array = rig.submit("sweep", array=Array("0-3%1"))
    rig.until(lambda: rig.phase(f"{array}.0") == "running")
    key = copied(rig)
    rig.agent_of(f"{array}.0").end(f"{array}.0", 0)
    rig.ended(f"{array}.0")
    rig.put(layout.result("blue", f"{array}.0"), "{")
    back = restoring(rig, key).restored.root.arrays[array]
    assert str(back.ended["failed"]) == "0"


def with_a_full_house() -> tuple[Rig, str]:
    """Return a rig whose machines are full, so that new jobs wait, and the key of a copy."""
    rig = Rig()
    rig.turn(3)
    rig.start("full", h100=8, replicas=2)
    return rig, copied(rig)


def test_a_launch_that_never_started_is_requeued() -> None:
    """A launch with only a spec and an answer joins the queue, and runs once."""
    rig, key = with_a_full_house()
    (full,) = rig.root.jobs
    later = rig.submit("later")
    asked = rig.launch("both", jobs=(_job("a"), _job("b")))
    array = rig.submit("sweep", array=Array("0-3%1"))
    rig.turn(3)
    restored = restoring(rig, key).restored
    gang = rig.answer(asked).jobs
    assert set(restored.queued) == {later, array, *gang}
    assert restored.lost == ()
    root = brought_back(rig, key)
    assert root.jobs[later].phase == "queued"
    assert str(root.arrays[array].waiting) == "0-3"
    assert {root.jobs[job].gang for job in gang} == {gang}
    rig.turn(3)
    for name in list(rig.agents):
        if any(run.startswith(full) for run in rig.agents[name].ran):
            rig.agents[name].end(full)
    rig.until(lambda: rig.phase(later) == "running")
    ran = [each for agent in rig.agents.values() for each in agent.ran]
    assert ran.count(f"{later}/1") == 1
    rules = ("answers", "specs", "results", "tasks", "ends")
    assert not [each for each in audit(rig.bucket, rig.clock) if each.rule in rules]


def test_a_launch_that_is_held_is_requeued_as_held() -> None:
    """It is held if it was submitted held or held later, unless it has been released."""
    rig, key = with_a_full_house()
    came, since, free = rig.submit("came", hold=True), rig.submit("since"), rig.submit("free")
    some = rig.submit("some", array=Array("0-3"))
    released = rig.submit("released", hold=True)
    rig.verb("hold", since, f"{some}.2-3")
    rig.verb("release", released)
    rig.turn(3)
    restored = restoring(rig, key).restored
    assert set(restored.queued) == {came, since, free, some, released}
    root = restored.root
    held = {job: record.held for job, record in root.jobs.items() if record.held}
    assert held == {came: "ann", since: "ann"}
    assert (str(root.arrays[some].held), root.arrays[some].held_by) == ("2-3", "ann")


def _job(name: str) -> Job:
    return Job(name=name, processes=(Process(["true"], resources=Resources(h100=1)),))


@pytest.mark.parametrize("trace", ["cancelled", "started", "printed", "registered", "unanswered"])
def test_a_launch_that_may_have_started_is_not_requeued(trace: str) -> None:
    """With a cancel, an instruction, a log, a register, or no answer, it is named as lost."""
    rig, key = with_a_full_house()
    job = rig.submit("later")
    rig.turn(3)
    record = rig.job(job)
    match trace:
        case "cancelled":
            ulid = "0" * 25 + "1"
            cancel = Answer(ulid=ulid, verb="cancel", accepted=True, jobs=(job,))
            rig.bucket.create(layout.answer("blue", "ann", ulid), encode(cancel))
        case "started":
            start = Start(
                project="blue", job=job, launch=job, index=0, attempt=1, nonce="n", replica=0,
                host=0, devices={},
            )  # fmt: skip
            batch = Batch(number=99, life=1, instructions=(start,))
            rig.bucket.create(layout.instructions(next(iter(rig.agents)), 1, 99), encode(batch))
        case "printed":
            stream = layout.log("blue", job, 1, replica=0, host=0, process=0)
            rig.bucket.create(f"{stream}000000000000.log", b"x")
        case "registered":
            name = next(iter(rig.agents))
            rig.bucket.create(
                layout.claim("blue", job, 1, "n", replica=0, host=0, machine=name), b"{}"
            )
        case _:
            rig.bucket.delete(layout.answer(record.project, record.user, record.ulid))
    restored = restoring(rig, key).restored
    assert restored.queued == ()
    assert restored.lost == (job,)
    assert job not in restored.root.jobs


def test_a_launch_with_dependencies_is_not_requeued() -> None:
    """The outcomes of its targets may be lost too."""
    rig, key = with_a_full_house()
    (full,) = rig.root.jobs
    after = rig.submit("after", after=[full])
    rig.turn(3)
    restored = restoring(rig, key).restored
    assert restored.queued == ()
    assert restored.lost == (after,)
