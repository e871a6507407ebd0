"""The agent's protocol, on a virtual clock with a scripted keeper."""

from __future__ import annotations

import os
from collections.abc import Callable, Sized
from dataclasses import replace
from pathlib import Path

import pytest

from bastion.agent.keeper.fake import FakeKeeper, Reaction, Script
from bastion.agent.keeper.port import ProcessStart
from bastion.agent.settings import AgentSettings, Tempo
from bastion.job import Claim, End
from bastion.logs.pace import CLOUD
from bastion.machine import Follow, Leave
from bastion.pool import LEAST_BOOT_S
from bastion.records.keys import layout
from bastion.records.reports.facts import Heartbeat
from quota.amounts import Amounts
from tests.rigs.agent import MACHINE, OF, Rig, job, start, stop

FOREVER = Script(runs_s=float("inf"))
SHORT = Script(output=((0.01, b"hello\n"),), runs_s=0.02)
SLOW = Tempo(busy_s=1.0, idle_s=2.0, retry_s=5.0, logs=CLOUD)
ALL = ("claimed", "started", "ended", "drained")


def test_a_short_job_leaves_claim_end_and_facts_in_order() -> None:
    """A job that prints and exits is claimed, started, ended and drained, each reported once."""
    rig = Rig(lambda _: SHORT)
    rig.bucket.spec(job())
    rig.bucket.instruct(start())
    rig.pass_s(1)
    assert rig.bucket.told() == ALL
    assert rig.bucket.claim() == Claim(machine=MACHINE, life=1, address="127.0.0.1", port=29500)
    end = rig.bucket.end()
    assert end is not None
    assert (end.kind, end.codes, end.sizes, end.notice) == ("exited", (0,), (6,), "")
    assert rig.bucket.log() == b"hello\n"
    assert rig.keeper.attempts() == ()


def test_many_hosts_are_started_and_forgotten_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """The keeper gets one call for everything in a turn, and syncs its disk once."""

    def counted(sizes: list[int], plain: Callable[..., object]) -> Callable[..., object]:
        def call(keeper: FakeKeeper, each: Sized) -> object:
            sizes.append(len(each))
            return plain(keeper, each)

        return call

    asked: dict[str, list[int]] = {"start_all": [], "forget_all": []}
    for name in asked:
        monkeypatch.setattr(FakeKeeper, name, counted(asked[name], getattr(FakeKeeper, name)))
    rig = Rig(lambda _: SHORT)
    rig.bucket.spec(job())
    hosts = [replace(OF, replica=replica) for replica in range(5)]
    rig.bucket.instruct(*map(start, hosts))
    rig.pass_s(1)
    assert [rig.executions(of) for of in hosts] == [1] * 5
    assert asked == {"start_all": [5], "forget_all": [5]}
    assert rig.keeper.attempts() == ()


def test_hosts_that_the_keeper_refuses_together_are_lost_each() -> None:
    """A full disk ends every host that was about to start on it, and none that comes later."""
    rig = Rig(lambda _: SHORT)
    rig.bucket.spec(job())
    rig.keeper_home.full = "No space left on device"
    hosts = [replace(OF, replica=replica) for replica in range(2)]
    rig.bucket.instruct(*map(start, hosts))
    rig.pass_s(1)
    assert [end and end.kind for end in map(rig.bucket.end, hosts)] == ["lost", "lost"]
    rig.keeper_home.full = ""
    last = replace(OF, replica=2)
    rig.bucket.instruct(start(last))
    rig.pass_s(1)
    end = rig.bucket.end(last)
    assert end is not None
    assert (end.kind, end.codes) == ("exited", (0,))


def test_the_first_bell_says_hello() -> None:
    """A new life reports its resources before anything else."""
    rig = Rig()
    rig.pass_s(0.1)
    hello = rig.bucket.facts()[0]
    assert hello.kind == "hello"
    assert hello.resources == Amounts({"h100": 8})
    assert rig.memory.list(layout.BELLS)[0].key == layout.bell(MACHINE, 1, 0)


def test_hello_is_said_again_before_the_machine_is_given_up() -> None:
    """A greeting that the store lists but does not return is followed by more, then by none."""
    rig = Rig()
    began_at = rig.clock.monotonic()
    for until_s, said in ((50, 1), (70, 2), (190, 3), (430, 4), (910, 5), (2000, 5)):
        rig.pass_s(began_at + until_s - rig.clock.monotonic(), step_s=5.0)
        assert sum(fact.kind == "hello" for fact in rig.bucket.facts()) == said
    assert LEAST_BOOT_S > 430


@pytest.mark.parametrize("claim", [None, Claim(machine="other", life=3)])
def test_what_another_holds_is_not_started(claim: Claim | None) -> None:
    """A host whose claim is revoked, or another machine's, never runs and gets no end from here."""
    rig = Rig()
    rig.bucket.spec(job())
    rig.bucket.put_claim(claim)
    rig.bucket.instruct(start())
    rig.pass_s(1)
    assert rig.executions() == 0
    assert rig.bucket.end() is None
    assert rig.bucket.told() == ()


@pytest.mark.parametrize("together", [True, False])
def test_a_stop_before_the_start_wins(together: bool) -> None:
    """If a stop arrives before the keeper was called, nothing runs, and the end says why."""
    rig = Rig(lambda _: FOREVER)
    rig.bucket.spec(job())
    if together:
        rig.bucket.instruct(start(barrier=True), stop())
    else:
        rig.bucket.instruct(start(barrier=True))
        rig.pass_s(1)
        rig.bucket.instruct(stop())
    rig.pass_s(1)
    assert rig.executions() == 0
    assert rig.bucket.end() == End(kind="exited", notice="cancel")
    assert rig.bucket.told() == ("claimed", "ended", "drained")


def test_nothing_runs_before_the_barrier_opens() -> None:
    """A host of a gang runs only after go, and gets the addresses in go."""
    seen: list[ProcessStart] = []

    def script(process: ProcessStart) -> Script:
        seen.append(process)
        return FOREVER

    rig = Rig(script)
    rig.bucket.spec(job(replicas=2))
    rig.bucket.instruct(start(barrier=True, replicas=2))
    rig.pass_s(2)
    assert rig.executions() == 0
    assert rig.bucket.told() == ("claimed",)
    rig.bucket.go("10.0.0.1", "10.0.0.2", port=1234)
    rig.pass_s(1)
    assert rig.bucket.told() == ("claimed", "started")
    assert seen[0].env["MASTER_ADDR"] == "10.0.0.1"
    assert seen[0].env["MASTER_PORT"] == "1234"
    assert seen[0].env["BASTION_HOSTS"] == "10.0.0.1,10.0.0.2"


def test_a_revoked_barrier_ends_without_running() -> None:
    """A gang whose go is revoked ends everywhere as revoked."""
    rig = Rig()
    rig.bucket.spec(job(replicas=2))
    rig.bucket.instruct(start(barrier=True, replicas=2))
    rig.pass_s(1)
    rig.bucket.go()
    rig.pass_s(1)
    assert rig.executions() == 0
    end = rig.bucket.end()
    assert end is not None
    assert end.kind == "revoked"
    assert rig.bucket.told() == ("claimed", "ended", "drained")


def test_a_running_job_is_stopped_with_notice() -> None:
    """A stop reaches the processes, and the end says which notice they had."""
    reaction = Reaction(after_s=1.0, code=3, signal=None)
    rig = Rig(lambda _: replace(FOREVER, on_notice=reaction))
    rig.bucket.spec(job())
    rig.bucket.instruct(start())
    rig.pass_s(1)
    rig.bucket.instruct(stop(reason="preempt"))
    rig.pass_s(3)
    end = rig.bucket.end()
    assert end is not None
    assert (end.kind, end.codes, end.notice, end.first_failed) == ("exited", (3,), "preempt", None)


def test_a_process_that_ignores_the_notice_is_killed() -> None:
    """After the grace period, nothing of it is left."""
    rig = Rig(lambda _: replace(FOREVER, on_notice=None))
    rig.bucket.spec(job())
    rig.bucket.instruct(start())
    rig.pass_s(1)
    rig.bucket.instruct(stop(grace_s=2.0))
    rig.pass_s(1.5)
    assert rig.bucket.end() is None
    rig.pass_s(1.5)
    end = rig.bucket.end()
    assert end is not None
    assert end.codes == (-9,)


def test_instructions_are_obeyed_once_however_often_they_come() -> None:
    """The same start or stop in several batches has no further effect."""
    rig = Rig(lambda _: SHORT)
    rig.bucket.spec(job())
    rig.bucket.instruct(start(), start())
    rig.bucket.instruct(start())
    rig.pass_s(1)
    rig.bucket.instruct(start(), stop(), stop())
    rig.pass_s(1)
    assert rig.executions() == 1
    assert rig.bucket.told()[:4] == ALL
    end = rig.bucket.end()
    assert end is not None
    assert end.notice == ""


def test_an_end_of_the_bastion_is_accepted() -> None:
    """If the bastion wrote the end first, that end is reported."""
    rig = Rig(lambda _: SHORT)
    rig.bucket.spec(job())
    rig.bucket.put_end(End(kind="revoked"))
    rig.bucket.instruct(start())
    rig.pass_s(1)
    ended = next(fact for fact in rig.bucket.facts() if fact.kind == "ended")
    assert ended.end == End(kind="revoked")
    assert rig.bucket.told() == ALL


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[1]", b'{"number":1,"life":7}', b'{"number":1,"life":1,"new":2}']
)
def test_a_bad_batch_is_stepped_over(data: bytes) -> None:
    """A batch that cannot be read, or is another life's, is logged; the next one is followed."""
    rig = Rig(lambda _: SHORT)
    rig.bucket.spec(job())
    rig.memory.create(layout.instructions(MACHINE, 1, 1), data)
    rig.bucket.instruct(start(), number=2)
    rig.pass_s(1)
    assert rig.bucket.told() == ALL
    assert [line for line in rig.said if line.startswith("instructions 1 are stepped over: ")]


def test_old_instructions_start_nothing_and_say_so() -> None:
    """Instructions more than seven days old start nothing: the host ends as lost."""
    rig = Rig(lambda _: SHORT)
    rig.bucket.spec(job())
    rig.bucket.instruct(start())
    rig.clock.advance(8 * 86400.0)
    rig.pass_s(1)
    assert rig.executions() == 0
    assert "8.0 days old" in rig.said[0]
    end = rig.bucket.end()
    assert end is not None
    assert end.kind == "lost"
    assert "8.0 days old" in end.detail
    assert "ended" in rig.bucket.told()


@pytest.mark.parametrize("data", [b"", b"{}", b'{"schema":1,"write_id":"go","addr'])
def test_an_unreadable_barrier_loses_the_attempt(data: bytes) -> None:
    """A malformed go is not the job's fault: its host ends as lost, with the object's name."""
    rig = Rig()
    rig.bucket.spec(job(replicas=2))
    rig.bucket.instruct(start(barrier=True, replicas=2))
    key = layout.go(OF.project, OF.job, OF.attempt, OF.nonce)
    rig.memory.create(key, data)
    rig.pass_s(1)
    assert rig.executions() == 0
    end = rig.bucket.end()
    assert end is not None
    assert end.kind == "lost"
    assert end.detail.startswith(f"{key}: ")
    assert rig.bucket.told() == ("claimed", "ended", "drained")


def test_a_missing_spec_is_a_failed_set_up() -> None:
    """A start without a spec ends as set-up failed, and says which object is missing."""
    rig = Rig()
    rig.bucket.instruct(start())
    rig.pass_s(1)
    end = rig.bucket.end()
    assert end is not None
    assert end.kind == "setup_failed"
    assert layout.spec("vision", "launch-abc") in end.detail


def test_a_spec_of_a_newer_version_is_left_to_other_machines() -> None:
    """It may ask for what this agent does not do, which is the fault of the machine."""
    rig = Rig()
    key = layout.spec("vision", "launch-abc")
    rig.memory.create(key, b'{"schema":1,"newer":1}')
    rig.bucket.instruct(start())
    rig.pass_s(1)
    end = rig.bucket.end()
    assert end is not None
    assert (end.kind, end.by_machine) == ("lost", True)
    assert end.detail.startswith(f"its machine could not start it: {key}: ")
    assert end.detail.endswith(
        "; the agent of this machine is older than the launch; drain the machine: its agent is"
        " upgraded once no job runs there"
    )


def test_a_program_that_does_not_exist_is_a_failed_set_up() -> None:
    """The keeper's message about a program that it cannot start reaches the end."""
    rig = Rig(lambda _: Script(setup_failure="no program 'trian'"))
    rig.bucket.spec(job("trian"))
    rig.bucket.instruct(start())
    rig.pass_s(1)
    end = rig.bucket.end()
    assert end is not None
    assert (end.kind, end.detail) == ("setup_failed", "no program 'trian'")


def test_silence_is_broken_by_a_heartbeat() -> None:
    """If nothing vouches for the machine, it reports that it lives, no more often than asked."""
    rig = Rig(settings=AgentSettings(machine=MACHINE, heartbeat_s=30.0))
    rig.pass_s(100, step_s=0.5)
    assert sum(isinstance(fact, Heartbeat) for fact in rig.bucket.facts()) == 3


def test_a_user_who_follows_sees_lines_soon() -> None:
    """On a cloud store, an old, calm log is flushed rarely, but immediately for a follower."""
    lines = tuple((600.0 + 10 * n, b"x\n") for n in range(60))
    settings = AgentSettings(machine=MACHINE, tempo=SLOW)
    rig = Rig(lambda _: Script(output=((0.0, b"x\n"), *lines), runs_s=2000), settings=settings)
    rig.bucket.spec(job())
    rig.bucket.instruct(start())
    rig.pass_s(655, step_s=0.5)
    assert len(rig.bucket.log()) == 2
    rig.pass_s(20, step_s=0.5)
    assert len(rig.bucket.log()) > 2
    rig.bucket.instruct(Follow(project=OF.project, job=OF.job, for_s=60.0))
    rig.pass_s(15, step_s=0.5)
    shown = len(rig.bucket.log())
    rig.pass_s(20, step_s=0.5)
    assert len(rig.bucket.log()) >= shown + 4


def test_a_traceback_is_flushed_at_once() -> None:
    """Users want to read it now, however old and calm the log is."""
    output = ((0.0, b"x\n"), (600.0, b"Traceback (most recent call last):\n"))
    settings = AgentSettings(machine=MACHINE, tempo=SLOW)
    rig = Rig(lambda _: Script(output=output, runs_s=2000), settings=settings)
    rig.bucket.spec(job())
    rig.bucket.instruct(start())
    rig.pass_s(606, step_s=0.5)
    assert b"Traceback" in rig.bucket.log()


def test_an_agent_told_to_leave_finishes_what_runs() -> None:
    """After leave nothing new starts; running hosts continue, and then the agent is done."""
    rig = Rig(lambda _: replace(SHORT, runs_s=5.0))
    other = replace(OF, nonce="n2")
    rig.bucket.spec(job())
    rig.bucket.instruct(start(), Leave(), start(other))
    rig.pass_s(1)
    assert not rig.is_finished()
    rig.pass_s(6)
    assert rig.is_finished()
    assert rig.bucket.told() == ALL
    assert rig.executions(other) == 0


def test_marks_are_told() -> None:
    """A checkpoint mark is reported while the job runs; both marks are in the end."""
    rig = Rig(lambda _: Script(runs_s=5.0, on_notice=Reaction(code=1, signal=None)))
    rig.bucket.spec(job())
    rig.bucket.instruct(start())
    rig.pass_s(1)
    (marks,) = (rig.home_folder / "work").iterdir()
    (marks / "checkpointed").touch()
    rig.pass_s(1)
    assert rig.bucket.told() == ("claimed", "started", "checkpointed")
    (marks / "finished").touch()
    rig.bucket.instruct(stop(reason="preempt"))
    rig.pass_s(2)
    end = rig.bucket.end()
    assert end is not None
    assert (end.finished, end.checkpointed, end.notice) == (True, True, "preempt")


@pytest.mark.parametrize(("age_s", "told"), [(10.0, 2), (9 * 3600.0, 1)])
def test_an_agent_that_begins_again_tells_no_old_checkpoint_as_new(age_s: float, told: int) -> None:
    """The bastion counts from the report; only a mark that may have been missed is reported."""
    rig = Rig(lambda _: Script(runs_s=1e6))
    rig.bucket.spec(job())
    rig.bucket.instruct(start())
    rig.pass_s(1)
    (marks,) = (rig.home_folder / "work").iterdir()
    (marks / "checkpointed").touch()
    os.utime(marks / "checkpointed", (rig.clock.wall(), rig.clock.wall()))
    rig.pass_s(1)
    rig.clock.advance(age_s)
    rig.restart()
    rig.pass_s(1)
    assert rig.bucket.told().count("checkpointed") == told
    os.utime(marks / "checkpointed", (rig.clock.wall(), rig.clock.wall()))
    rig.pass_s(10)
    assert rig.bucket.told().count("checkpointed") == told + 1


def test_checkpoints_are_told_now_and_then() -> None:
    """One after each step does not cost a commit each; the first and the last are reported."""
    rig = Rig(lambda _: Script(runs_s=1e6))
    rig.bucket.spec(job())
    rig.bucket.instruct(start())
    rig.pass_s(1)
    (marks,) = (rig.home_folder / "work").iterdir()
    told = []
    for step in range(15):
        (marks / "checkpointed").touch()
        os.utime(marks / "checkpointed", (step, step))
        rig.pass_s(1)
        told.append(rig.bucket.told().count("checkpointed"))
    assert (told[0], told[8], told[14]) == (1, 1, 2)
    rig.pass_s(10)
    assert rig.bucket.told().count("checkpointed") == 3


def test_reports_are_told_now_and_then() -> None:
    """Changed numbers are reported, but not more often than every ten seconds."""
    rig = Rig(lambda _: Script(runs_s=60.0, on_notice=Reaction(code=1, signal=None)))
    rig.bucket.spec(job())
    rig.bucket.instruct(start())
    rig.pass_s(1)
    (marks,) = (rig.home_folder / "work").iterdir()
    for step in range(12):
        (marks / "report").write_text(f'{{"step": {step}}}\n')
        rig.pass_s(1)
    assert rig.bucket.told().count("reported") == 2


def test_output_goes_on_to_the_next_attempt() -> None:
    """What one attempt left in its output folder exists before the next one starts."""
    seen: list[str] = []

    def script(process: ProcessStart) -> Script:
        folder = Path(process.env["BASTION_OUTPUT_DIR"])
        seen.append(",".join(sorted(path.name for path in folder.iterdir())))
        (folder / f"step{len(seen)}").write_text("x")
        return SHORT

    rig = Rig(script)
    rig.bucket.spec(job())
    rig.bucket.instruct(start())
    rig.pass_s(1)
    rig.bucket.instruct(start(replace(OF, attempt=2, nonce="n2")))
    rig.pass_s(1)
    assert seen == ["", "step1"]


def test_one_bad_host_harms_itself_alone() -> None:
    """A host that meets an unexpected error ends as failed; the others continue."""
    rig = Rig(lambda _: SHORT)
    rig.bucket.spec(job())
    broken = replace(OF, nonce="n2")
    rig.bucket.instruct(start(broken, hosts=0, devices={"h100": (0,)}), start())
    rig.pass_s(1)
    end = rig.bucket.end(broken)
    assert end is not None
    assert end.kind == "setup_failed"
    assert "internal error" in end.detail
    assert rig.bucket.told() == ALL
