"""Stops, hangs, holds and clean-ups with a real agent, a real keeper and real processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bastion.agent.machine import stray_processes as strays
from bastion.machine import SetLimit
from bastion.records.reports.facts import Held
from tests.bastion.agent.real_machine import Machine, shell
from tests.rigs.agent import OF, start, stop

TREE = """
trap '' TERM
setsid sh -c 'trap "" TERM; while :; do sleep 1000; done' &
(setsid env -u BASTION_MARK sh -c 'trap "" TERM; while :; do sleep 1000; done' &)
python3 -c 'import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(1000)
    os._exit(0)
time.sleep(1000)' &
while [ $(ps -o pid= --ppid $$ | wc -l) -lt 3 ]; do sleep 0.1; done
sleep 0.3
echo up
while :; do sleep 1000; done
"""
"""A daemon, one that has wiped its mark, and a double fork; all of them ignore SIGTERM."""


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """Run a machine with an agent."""
    made = Machine(tmp_path)
    made.begin()
    try:
        yield made
    finally:
        made.close()


def below(machine: Machine) -> set[int]:
    """Return every process below the keeper."""
    pending, found = [machine.keeper_pid()], set[int]()
    while pending:
        new = set(strays.children(pending.pop())) - found
        found |= new
        pending.extend(new)
    return found


def ended(machine: Machine) -> None:
    """Wait until its end is reported and its logs are complete."""
    machine.until(lambda: "drained" in machine.bucket.told())


@pytest.mark.parametrize("reason", ["preempt", "cancel", "sibling failed"])
def test_a_stop_ends_the_whole_tree(machine: Machine, reason: str) -> None:
    """Daemons, double forks and processes that ignore SIGTERM are dead before the end."""
    machine.bucket.spec(shell(TREE))
    machine.bucket.instruct(start())
    machine.until(lambda: b"up\n" in machine.bucket.log())
    assert len(below(machine)) >= 6
    machine.bucket.instruct(stop(reason=reason, grace_s=0.3))
    machine.until(lambda: machine.bucket.end() is not None)
    assert below(machine) == set()
    end = machine.bucket.end()
    assert end is not None
    assert (end.codes, end.notice) == ((-9,), reason)
    ended(machine)


def test_a_limit_ends_the_whole_tree_and_can_be_brought_nearer(machine: Machine) -> None:
    """A long time limit is shortened while it runs, and its keeper obeys."""
    machine.bucket.spec(shell(TREE, max_runtime="1h"))
    machine.bucket.instruct(start(grace_s=0.3))
    machine.until(lambda: b"up\n" in machine.bucket.log())
    named = {name: getattr(OF, name) for name in OF.__dataclass_fields__}
    machine.bucket.instruct(SetLimit(**named, max_runtime_s=0.1))
    machine.until(lambda: machine.bucket.end() is not None)
    assert below(machine) == set()
    end = machine.bucket.end()
    assert end is not None
    assert end.notice == "time limit"
    ended(machine)


def test_what_failed_is_kept_over_a_killed_agent(machine: Machine) -> None:
    """Nothing of it is alive and no end is written until it is released."""
    machine.bucket.spec(shell(TREE.replace("echo up", "echo up; exit 3")))
    machine.bucket.instruct(start(hold_s=600.0, grace_s=0.3))
    machine.until(lambda: "held" in machine.bucket.told())
    assert below(machine) == set()
    machine.kill()
    machine.begin()
    machine.until(lambda: machine.bucket.told().count("held") == 2)
    assert machine.bucket.end() is None
    told = [fact for fact in machine.bucket.facts() if isinstance(fact, Held)]
    assert Path(told[1].folder).is_dir()
    assert told[1].for_s < told[0].for_s <= 600
    machine.bucket.instruct(stop(reason="release"))
    ended(machine)
    end = machine.bucket.end()
    assert end is not None
    assert (end.codes, end.first_failed, end.notice) == ((3,), 0, "")


def test_a_hang_is_ended_with_its_clean_up(machine: Machine) -> None:
    """One log has stacks, notice, kill and clean-up, in this order and without a gap."""
    job = shell(
        "trap 'echo told' TERM; echo up; while :; do sleep 1000; done",
        idle_timeout=0.5,
        signs_of_life=("output",),
        on_end=("sh", "-c", "echo $BASTION_OUTCOME $BASTION_JOB_ID; pwd"),
    )
    machine.bucket.spec(job)
    machine.bucket.instruct(start(grace_s=0.5))
    ended(machine)
    end = machine.bucket.end()
    assert end is not None
    assert (end.notice, end.detail) == ("idle", "no output for 0.5 s; stacks are in its log")
    assert (end.on_end, end.sizes) == ("", (len(machine.bucket.log()),))
    log = machine.bucket.log().decode()
    words = [
        "up\n",
        "no output for 0.5 s; the stacks",
        "sleep 1000",
        "end of the stacks",
        "on_end: sh",
    ]
    assert [log.index(word) for word in words] == sorted(log.index(word) for word in words)
    *_, told, folder = log.splitlines()
    assert told == f"failed {OF.job}"
    assert folder.endswith("/code")


def test_a_clean_up_killed_with_its_keeper_never_runs_again(
    machine: Machine, tmp_path: Path
) -> None:
    """If the keeper is killed (-9) in the middle, the host is lost, and its clean-up ran once."""
    ran = tmp_path / "ran"
    machine.bucket.spec(shell("exit 0", on_end=("sh", "-c", f"echo x >> {ran}; exec sleep 1000")))
    machine.bucket.instruct(start())
    machine.until(ran.exists)
    keeper = strays.look(machine.keeper_pid())
    assert keeper is not None
    strays.send(keeper, 9)
    ended(machine)
    end = machine.bucket.end()
    assert end is not None
    assert (end.kind, end.on_end) == ("lost", "died with its keeper")
    assert ran.read_text() == "x\n"
    assert below(machine) == set()
