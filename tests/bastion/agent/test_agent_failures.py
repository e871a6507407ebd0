"""The agent, its keeper or the store fails at any point: one start, one end, every byte."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from bastion.agent.attempt_key import key_of
from bastion.agent.home import FolderHome, Folders
from bastion.agent.host.claim import claim_key, end_key
from bastion.agent.keeper.fake import Script
from bastion.agent.keeper.port import KeeperGoneError
from bastion.agent.settings import AgentSettings, Tempo
from bastion.job import Claim
from bastion.logs.pace import CLOUD
from bastion.records.keys import layout
from bastion.records.reports.facts import Health, Preparing, Unkept
from bastion.spec import BundleRef
from bastion.store.memory import Fault
from tests.rigs.agent import MACHINE, OF, Rig, job, start, stop

FOREVER = Script(runs_s=float("inf"))
SHORT = Script(output=((0.01, b"hello\n"),), runs_s=0.02)
SLOW = Tempo(busy_s=1.0, idle_s=2.0, retry_s=5.0, logs=CLOUD)
ALL = ("claimed", "started", "ended", "drained")


def test_an_agent_may_die_at_any_turn() -> None:
    """Whenever the agent is killed, its successor on the same keeper completes the job, once."""
    for turns in range(25):
        rig = Rig(lambda _: replace(SHORT, runs_s=0.3))
        rig.bucket.spec(job())
        rig.bucket.instruct(start(barrier=True))
        rig.bucket.go("10.0.0.1")
        for _ in range(turns):
            rig.agent.turn()
            rig.clock.advance(0.03)
        rig.restart()
        rig.pass_s(2)
        assert rig.executions() == 1, turns
        assert rig.bucket.log() == b"hello\n", turns
        end = rig.bucket.end()
        assert end is not None
        assert (end.kind, end.codes, end.sizes) == ("exited", (0,), (6,)), turns
        assert {"claimed", "ended", "drained"} <= set(rig.bucket.told()), turns
        assert rig.keeper.attempts() == (), turns


def test_a_stopped_job_stays_stopped_when_the_agent_dies() -> None:
    """If the agent dies between a start and a stop, the job ends with the notice."""
    for turns in range(20):
        rig = Rig(lambda _: FOREVER)
        rig.bucket.spec(job())
        rig.bucket.instruct(start())
        for _ in range(turns):
            rig.agent.turn()
            rig.clock.advance(0.03)
        rig.bucket.instruct(stop())
        rig.restart()
        rig.pass_s(8)
        end = rig.bucket.end()
        assert end is not None, turns
        assert end.notice == "cancel", turns
        assert rig.executions() <= 1, turns


@pytest.mark.parametrize("leaves_strays", [True, False])
def test_a_keeper_may_die_at_any_turn(leaves_strays: bool) -> None:
    """Whenever the keeper dies, no second start follows and the claimed host ends."""
    for turns in range(20):
        rig = Rig(lambda _: replace(SHORT, runs_s=0.3))
        rig.bucket.spec(job())
        rig.bucket.instruct(start())
        for _ in range(turns):
            rig.agent.turn()
            rig.clock.advance(0.03)
        rig.keeper.crash(leaves_strays=leaves_strays)
        rig.restart()
        assert rig.keeper.life == 2
        rig.bucket.instruct(start(), life=2, number=1)
        rig.pass_s(2)
        assert rig.executions() <= 1, turns
        end = rig.bucket.end()
        assert end is not None, turns
        assert end.kind == ("lost" if not end.codes else "exited"), turns
        assert {"ended", "drained"} <= set(rig.bucket.told()), turns


@pytest.mark.parametrize("fault", Fault)
def test_a_lost_answer_changes_nothing(fault: Fault) -> None:
    """Whichever answer of the store is lost, done or not: one start, one end, every byte."""
    for spoilt in range(60):
        asked = iter(range(10_000))
        rig = Rig(
            lambda _: SHORT,
            faults=lambda *_, asked=asked, spoilt=spoilt: (
                fault if next(asked) in (spoilt, spoilt + 1) and spoilt > 3 else None
            ),
        )
        rig.bucket.spec(job())
        rig.bucket.instruct(start(barrier=True))
        rig.bucket.go("10.0.0.1")
        rig.pass_s(3)
        assert rig.executions() == 1, spoilt
        assert rig.bucket.log() == b"hello\n", spoilt
        assert [fact for fact in ALL if fact in rig.bucket.told()] == list(ALL), spoilt
        end = rig.bucket.end()
        assert end is not None
        assert end.codes == (0,), spoilt


def test_the_store_may_be_away_for_long() -> None:
    """Jobs continue while the store is away, nothing is lost, and the log has two lines."""
    away = [False]
    rig = Rig(
        lambda _: Script(output=((1.0, b"a\n"), (30.0, b"b\n")), runs_s=40.0),
        faults=lambda *_: Fault.BEFORE if away[0] else None,
    )
    rig.bucket.spec(job())
    rig.bucket.instruct(start())
    rig.pass_s(0.5)
    away[0] = True
    rig.pass_s(60, step_s=0.5)
    assert rig.bucket.end() is None
    away[0] = False
    rig.pass_s(5)
    assert rig.bucket.told() == ALL
    assert rig.bucket.log() == b"a\nb\n"
    assert [line.split(":")[0].split(" after")[0] for line in rig.said] == [
        "the store is out of reach, trying again",
        "the store answers again",
    ]


def test_a_full_disk_takes_only_output_that_is_saved() -> None:
    """Files of an older life that the keeper does not know may be the only copy."""
    rig = Rig(lambda _: replace(SHORT, runs_s=3.0))
    rig.home = FolderHome(rig.home_folder, disk_trouble=lambda _: "full")
    rig.restart()
    older = replace(OF, nonce="n9")
    rig.bucket.put_claim(Claim(machine=MACHINE, life=0), older)
    rig.bucket.spec(job())
    rig.bucket.instruct(start(), start(older))
    left = []
    for of in (OF, older):
        folder = Path(rig.home.folders(key_of(of)).output)
        (folder / "model").write_text("weights")
        left.append(folder)
    rig.pass_s(5)
    assert "drained" in rig.bucket.told()
    assert "drained" in rig.bucket.told(older)
    rig.home.clean(ended=0.0, needed=0.0, taken=0.0, spared=frozenset())
    assert [folder.exists() for folder in left] == [False, True]


def test_a_disk_that_a_job_left_full_is_told_before_its_devices_are_free() -> None:
    """The next job is placed where it can write: soon, because saved files are deleted first."""
    rig = Rig(lambda _: replace(SHORT, runs_s=3.0))
    fill = Path(rig.home.folders(key_of(OF)).code) / "fill"
    rig.home = FolderHome(rig.home_folder, disk_trouble=lambda _: "full" * fill.exists())
    rig.restart()
    rig.bucket.spec(job())
    rig.bucket.instruct(start())
    rig.pass_s(2)
    fill.write_bytes(b"0")
    rig.pass_s(4)
    facts = rig.bucket.facts()
    assert [fact.kind for fact in facts][-4:] == ["health", "ended", "drained", "health"]
    assert [fact.unwell for fact in facts if isinstance(fact, Health)] == ["", "full", ""]


def test_code_that_the_bucket_does_not_give_is_told() -> None:
    """A machine that cannot read bundles retries forever: `why` says what is missing."""
    away = [True]
    rig = Rig(
        faults=lambda _, key: Fault.BEFORE if away[0] and key.startswith(layout.BUNDLES) else None
    )
    rig.bucket.spec(job(), code=BundleRef(digest="0" * 64))
    rig.bucket.instruct(start())
    rig.pass_s(20, step_s=0.5)
    (text,) = {fact.text for fact in rig.bucket.facts() if isinstance(fact, Preparing)}
    assert text.startswith("its machine cannot read the bucket, and tries again: ")
    assert "'bundles/manifests/000" in text
    away[0] = False
    rig.pass_s(10, step_s=0.5)
    end = rig.bucket.end()
    assert end is not None
    assert "no bundle 0000" in end.detail


def test_a_claim_of_an_older_life_is_never_started() -> None:
    """An older life's claim without a record in the keeper ends as lost."""
    rig = Rig()
    rig.bucket.spec(job())
    rig.bucket.put_claim(Claim(machine=MACHINE, life=0))
    rig.bucket.instruct(start())
    rig.pass_s(1)
    assert rig.executions() == 0
    end = rig.bucket.end()
    assert end is not None
    assert end.kind == "lost"
    assert rig.bucket.told() == ("ended", "drained")


def test_a_stop_for_an_unknown_host_ends_what_this_machine_claimed() -> None:
    """A stop ends an older life's claim; without a claim there is nothing."""
    rig = Rig()
    other = replace(OF, nonce="n9")
    rig.bucket.put_claim(Claim(machine=MACHINE, life=0))
    rig.bucket.instruct(stop(), stop(other))
    rig.pass_s(1)
    end = rig.bucket.end()
    assert end is not None
    assert end.kind == "lost"
    assert rig.bucket.end(other) is None
    assert rig.bucket.claim(other) is None


def test_an_agent_of_an_older_life_stops_what_runs_and_ends() -> None:
    """An agent that sees a newer life of its machine stops its hosts, reports, and is done."""
    rig = Rig(lambda _: FOREVER)
    rig.bucket.spec(job())
    rig.bucket.instruct(start())
    rig.pass_s(1)
    rig.memory.create(layout.life(MACHINE, 2), b"{}")
    rig.pass_s(70, step_s=0.5)
    assert rig.is_finished()
    end = rig.bucket.end()
    assert end is not None
    assert end.notice == "host lost"


def test_a_permit_runs_out_with_the_store() -> None:
    """While no bell lands, everything is stopped when the permit expires, and the life ends."""
    away = [False]
    settings = AgentSettings(machine=MACHINE, permit_s=30.0, heartbeat_s=5.0)
    rig = Rig(
        lambda _: FOREVER, settings=settings, faults=lambda *_: Fault.BEFORE if away[0] else None
    )
    rig.bucket.spec(job())
    rig.bucket.instruct(start())
    rig.pass_s(100, step_s=0.5)
    assert rig.bucket.told() == ("claimed", "started")
    away[0] = True
    rig.pass_s(20, step_s=0.5)
    assert rig.keeper_home.living(rig.clock.monotonic())
    with pytest.raises(KeeperGoneError):
        rig.pass_s(20, step_s=0.5)
    assert not rig.keeper_home.living(rig.clock.monotonic())
    away[0] = False
    rig.agent = rig.restart()
    rig.pass_s(5)
    end = rig.bucket.end()
    assert end is not None
    assert end.notice == "host lost"


def test_bell_numbers_only_grow() -> None:
    """A new agent on the same keeper uses higher numbers than all earlier bells."""
    rig = Rig(lambda _: SHORT)
    rig.pass_s(1)
    before = [entry.key for entry in rig.memory.list(layout.BELLS)]
    for key in before:
        rig.memory.delete(key)
    rig.restart()
    rig.pass_s(1)
    after = [entry.key for entry in rig.memory.list(layout.BELLS)]
    assert after
    assert min(after) > max(before)


def test_damaged_numbers_are_begun_anew_without_harm() -> None:
    """Nothing is started twice, the next job is, and bell numbers exceed all earlier ones."""
    rig = Rig()
    rig.bucket.spec(job())
    rig.bucket.instruct(start())
    rig.pass_s(1)
    before = [entry.key for entry in rig.memory.list(layout.BELLS)]
    for name in ("bells", "instructions"):
        (rig.home_folder / "numbers" / name).write_text("1 \0\0\0")
    rig.restart()
    later = replace(OF, attempt=2, nonce="n2")
    rig.bucket.instruct(start(later))
    rig.pass_s(1)
    assert (rig.executions(), rig.executions(later)) == (1, 1)
    assert rig.bucket.told(later) == ("claimed", "started", "ended", "drained")
    new = [entry.key for entry in rig.memory.list(layout.BELLS) if entry.key not in before]
    assert min(new) > max(before)
    damaged = [line for line in rig.said if "damaged" in line]
    assert len(damaged) == 2


def test_damaged_numbers_find_the_oldest_instructions_that_stand() -> None:
    """An agent without a number reads from the first instructions that were not deleted."""
    rig = Rig()
    rig.bucket.spec(job())
    for number in range(1, 4):
        rig.bucket.instruct(stop(replace(OF, nonce=f"n{number}")), number=number)
    rig.pass_s(1)
    for number in range(1, 3):
        rig.memory.delete(layout.instructions(MACHINE, 1, number))
    (rig.home_folder / "numbers" / "instructions").write_text("garbage")
    rig.restart()
    rig.bucket.instruct(start(), number=4)
    rig.pass_s(1)
    assert rig.executions() == 1


def test_a_new_agent_does_not_read_all_instructions_again() -> None:
    """The home remembers what is done."""
    rig = Rig(lambda _: SHORT)
    for number in range(20):
        rig.bucket.instruct(stop(replace(OF, nonce=f"n{number}")))
    rig.pass_s(3)
    before = rig.store.counts["read"]
    rig.restart()
    rig.agent.turn()
    rig.agent.turn()
    assert rig.store.counts["read"] - before < 5


def test_a_log_that_cannot_be_written_does_not_hold_up_the_end() -> None:
    """With foreign bytes in its log, a host still ends, but is never drained."""
    rig = Rig(lambda _: SHORT)
    rig.bucket.spec(job())
    prefix = layout.log(OF.project, OF.job, OF.attempt, replica=0, host=0, process=0)
    rig.memory.create(f"{prefix}{layout.padded(0)}.log", b"something else")
    rig.bucket.instruct(start())
    rig.pass_s(1)
    end = rig.bucket.end()
    assert end is not None
    assert end.codes == (0,)
    assert rig.bucket.told() == ("claimed", "started", "ended", "unkept")
    assert "not this log's" in rig.said[0]


def test_a_claim_that_cannot_be_read_is_left_alone() -> None:
    """Its owner is unknown, so nothing runs and no end is written."""
    rig = Rig()
    rig.bucket.spec(job())
    rig.memory.create(claim_key(OF, MACHINE), b"?")
    rig.bucket.instruct(start())
    rig.pass_s(1)
    assert rig.executions() == 0
    assert rig.bucket.end() is None
    assert len(rig.said) == 1


@pytest.mark.parametrize("lacks", ["full", "exhausted"])
def test_what_its_machine_has_no_room_for_is_lost(lacks: str) -> None:
    """A keeper that cannot record or start a process loses the host; the job has not failed."""
    rig = Rig(lambda _: SHORT)
    setattr(rig.keeper_home, lacks, "No space left on device")
    rig.bucket.spec(job())
    rig.bucket.instruct(start())
    rig.pass_s(1)
    end = rig.bucket.end()
    assert end is not None
    assert end.kind == "lost"
    assert "No space left on device" in end.detail
    assert rig.bucket.told()[-1] == "drained"
    assert not any("internal error" in line for line in rig.said)


class BrokenHome(FolderHome):
    """A home on a failing disk."""

    def __init__(self, path: Path, error: BaseException) -> None:
        super().__init__(path)
        self._error = error

    def folders(self, key: str) -> Folders:
        """Raise the error."""
        raise self._error


@pytest.mark.parametrize(
    ("error", "kind", "detail"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "lost", "No space left on device"),
        (MemoryError(), "lost", "its machine could not start it: Cannot allocate memory"),
        (OSError(errno.EMFILE, "x"), "lost", "Too many open files"),
        (OSError(errno.ENAMETOOLONG, "File name too long"), "setup_failed", "File name too long"),
    ],
)
def test_a_set_up_that_its_machine_fails_is_lost(
    error: BaseException, kind: str, detail: str
) -> None:
    """A lack of disk space, descriptors or memory loses the host; other errors fail it."""
    rig = Rig()
    rig.home = BrokenHome(rig.home_folder, error)
    rig.restart()
    rig.bucket.spec(job())
    rig.bucket.instruct(start())
    rig.pass_s(1)
    end = rig.bucket.end()
    assert end is not None
    assert (end.kind, rig.executions()) == (kind, 0)
    assert detail in end.detail


def test_a_stop_for_a_host_whose_end_was_deleted_writes_another_one() -> None:
    """The keeper has forgotten the host: it is not started again, and the bastion is told."""
    rig = Rig()
    rig.bucket.spec(job())
    rig.bucket.instruct(start())
    rig.pass_s(5)
    assert rig.bucket.told()[-2:] == ("ended", "drained")
    rig.memory.delete(end_key(OF, MACHINE))
    rig.pass_s(60, step_s=0.5)
    assert rig.bucket.end() is None
    rig.bucket.instruct(stop(reason="end missing"))
    rig.pass_s(5)
    end = rig.bucket.end()
    assert end is not None
    assert (end.kind, end.codes, end.notice) == ("exited", (), "end missing")
    assert rig.bucket.told()[-2:] == ("ended", "drained")
    assert rig.executions() == 1


def test_an_end_whose_detail_is_no_text_is_written_without_it() -> None:
    """Its devices become free, whatever a tool printed."""
    rig = Rig()
    rig.home = BrokenHome(rig.home_folder, OSError(errno.ENAMETOOLONG, "\ud800"))
    rig.restart()
    rig.bucket.spec(job())
    rig.bucket.instruct(start())
    rig.pass_s(1)
    end = rig.bucket.end()
    assert end is not None
    assert (end.kind, end.detail) == ("setup_failed", "")


def test_a_log_that_the_store_refuses_is_told_with_the_cause() -> None:
    """The bastion ends the job without it after a time, and its users have to know why."""
    is_refused = [True]
    prefix = layout.log(OF.project, OF.job, OF.attempt, replica=0, host=0, process=0)
    rig = Rig(
        lambda _: Script(output=((0.1, b"hello\n"),), runs_s=1.0),
        faults=lambda operation, key: (
            Fault.BEFORE
            if is_refused[0] and operation == "create" and key.startswith(prefix)
            else None
        ),
    )
    rig.bucket.spec(job("greet"))
    rig.bucket.instruct(start())
    rig.pass_s(30.0, step_s=0.1)
    (told,) = [fact for fact in rig.bucket.facts() if isinstance(fact, Unkept)]
    assert told.is_log and told.of == OF
    assert "was never answered" in told.text
    assert "drained" not in rig.bucket.told()
    is_refused[0] = False
    rig.pass_s(120.0, step_s=0.1)
    assert "drained" in rig.bucket.told()
    assert rig.bucket.log() == b"hello\n"
