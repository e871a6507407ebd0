"""How an agent watches a host: reports silence, holds what failed, changes its limit."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from bastion.agent.keeper.fake import Script
from bastion.agent.keeper.port import ProcessStart
from bastion.machine import SetLimit
from bastion.records.reports.facts import Held, Idle
from bastion.store.memory import Fault
from tests.rigs.agent import OF, Rig, job, start, stop

FOREVER = Script(output=((0.0, b"up\n"),), runs_s=inf)
FAILS = Script(output=((0.0, b"why\n"),), runs_s=1.0, code=3)


def script(process: ProcessStart) -> Script:
    """By the name of the program."""
    tidies = Script(output=((0.0, b"tidy "), (0.1, process.argv[-1].encode())), runs_s=0.2, code=9)
    return {"fails": FAILS, "forever": FOREVER, "tidy": tidies}[process.argv[0]]


def failed(**fields: object) -> Rig:
    """Return a machine on which a host failed that is to be held for 60 s."""
    rig = Rig(script)
    rig.bucket.spec(job("fails", **fields))
    rig.bucket.instruct(start(hold_s=60.0))
    rig.pass_s(2)
    return rig


def held(rig: Rig) -> list[Held]:
    """Return the reports about held hosts."""
    return [fact for fact in rig.bucket.facts() if isinstance(fact, Held)]


def test_a_failed_host_is_kept_for_its_time() -> None:
    """No end is written before its time is over; its logs are immediately in the bucket."""
    rig = failed()
    (told,) = held(rig)
    assert 58 < told.for_s <= 60
    assert told.folder.endswith("/code")
    assert (told.end.codes, told.end.first_failed) == ((3,), 0)
    assert rig.bucket.end() is None
    assert rig.bucket.log() == b"why\n"
    rig.pass_s(57)
    assert rig.bucket.end() is None
    rig.pass_s(3)
    assert rig.bucket.end() == told.end
    assert rig.bucket.told() == ("claimed", "started", "held", "ended", "drained")


def test_a_stop_ends_what_is_kept_at_once() -> None:
    """A preemption, cancel or release frees its devices in the same turn."""
    rig = failed()
    rig.bucket.instruct(stop(reason="preempt"))
    rig.pass_s(0.2)
    end = rig.bucket.end()
    assert end is not None
    assert (end.first_failed, end.notice) == (0, "")
    assert rig.bucket.told()[-2:] == ("ended", "drained")


def test_a_new_agent_keeps_what_the_old_one_kept() -> None:
    """After kill -9 the time continues, and is reported again."""
    rig = failed()
    rig.pass_s(30)
    rig.restart()
    rig.pass_s(1)
    assert [round(told.for_s, -1) for told in held(rig)] == [60, 30]
    assert rig.bucket.end() is None
    rig.pass_s(30)
    assert rig.bucket.end() is not None


def test_a_stop_is_not_forgotten_with_the_agent_that_read_it() -> None:
    """If an agent is killed between the stop and the end, the next one finds the stop again."""
    away = [False]

    def fault(_operation: str, key: str) -> Fault | None:
        return Fault.BEFORE if away[0] and key.endswith("/end") else None

    rig = Rig(script, faults=fault)
    rig.bucket.spec(job("fails"))
    rig.bucket.instruct(start(hold_s=600.0))
    rig.pass_s(2)
    away[0] = True
    rig.bucket.instruct(stop())
    rig.pass_s(3)
    assert rig.bucket.end() is None
    away[0] = False
    rig.restart()
    rig.pass_s(1)
    assert rig.bucket.end() is not None


def test_a_dead_keeper_ends_what_was_kept() -> None:
    """Others may have used its devices since: the next life writes the end."""
    rig = failed()
    rig.keeper.crash(leaves_strays=False)
    rig.restart()
    rig.pass_s(1)
    end = rig.bucket.end()
    assert end is not None
    assert end.first_failed == 0


def test_only_failures_are_kept() -> None:
    """A host that was stopped, or had finished its work, ends immediately."""
    rig = Rig(script)
    rig.bucket.spec(job("forever"))
    rig.bucket.instruct(start(hold_s=60.0))
    rig.pass_s(1)
    rig.bucket.instruct(stop())
    rig.pass_s(1)
    assert rig.bucket.end() is not None
    assert held(rig) == []


def test_silence_is_told_and_told_again_by_a_new_agent() -> None:
    """The host continues; a new sign of life is reported too."""
    rig = Rig(lambda _: replace(FOREVER, output=((0.0, b"up\n"), (20.0, b"on\n"))))
    rig.bucket.spec(job(idle_timeout="5s", on_idle="report"))
    rig.bucket.instruct(start())
    rig.pass_s(7)
    rig.restart()
    rig.pass_s(7)
    rig.pass_s(7)
    told = [fact.text for fact in rig.bucket.facts() if isinstance(fact, Idle)]
    lacks = "no output for 5 s; stacks are in its log"
    assert told == [lacks, lacks, ""]
    assert rig.bucket.end() is None


def test_a_hang_ends_as_what_it_is() -> None:
    """The end names the missing signs, and says that its complete log has the stacks."""
    rig = Rig(lambda _: FOREVER)
    rig.bucket.spec(job(idle_timeout="5s"))
    rig.bucket.instruct(start())
    rig.pass_s(7)
    end = rig.bucket.end()
    assert end is not None
    assert (end.notice, end.detail) == ("idle", "no output for 5 s; stacks are in its log")
    assert rig.bucket.log() == b"up\n[no output for 5 s]\n"


def test_a_clean_up_is_told_how_it_ended_and_named_when_it_fails() -> None:
    """`on_end` runs where the processes ran, its output is in the log, its failure in the end."""
    rig = Rig(script)
    rig.bucket.spec(job("fails", on_end=["tidy", "up"]))
    rig.bucket.instruct(start())
    rig.pass_s(3)
    end = rig.bucket.end()
    assert end is not None
    assert (end.codes, end.detail, end.on_end) == ((3,), "why\n", "exited with code 9")
    assert rig.bucket.log() == b"why\n[on_end]\ntidy up"


def test_a_new_limit_reaches_a_host_however_far_it_is() -> None:
    """A running host gets it immediately; one that waits at its barrier is started with it."""
    rig = Rig(lambda _: FOREVER)
    rig.bucket.spec(job(max_runtime=100.0))
    other = replace(OF, nonce="n2")
    rig.bucket.instruct(start(), start(other, barrier=True, replicas=2))
    rig.pass_s(1)
    for of in (OF, other):
        rig.bucket.instruct(limit(of, 5.0))
    rig.bucket.instruct(limit(replace(OF, nonce="unknown"), 5.0))
    rig.pass_s(1)
    rig.bucket.go("127.0.0.1", of=other)
    rig.pass_s(8)
    for of in (OF, other):
        end = rig.bucket.end(of)
        assert end is not None
        assert end.notice == "time limit"


def test_a_start_may_bring_another_limit_than_the_spec() -> None:
    """A job that was changed while it waited is started with the new limit."""
    rig = Rig(lambda _: FOREVER)
    rig.bucket.spec(job(max_runtime=1.0))
    rig.bucket.instruct(start(max_runtime_s=5.0))
    rig.pass_s(3)
    assert rig.bucket.end() is None
    rig.pass_s(3)
    assert rig.bucket.end() is not None


def limit(of: object, seconds: float) -> SetLimit:
    """Return the instruction that changes a host's limit."""
    named = {name: getattr(of, name) for name in OF.__dataclass_fields__}
    return SetLimit(**named, max_runtime_s=seconds)
