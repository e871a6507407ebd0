"""One object that the bucket rejects delays only the request that needs it."""

from __future__ import annotations

import pytest

from bastion.errors import StoreError
from bastion.records.keys import layout
from bastion.records.requests.job_request import ExecRequest
from bastion.service.intake.failing import GIVEN_UP_S, Unwritten
from bastion.store.memory import Fault, FaultyStore
from tests.rigs.leader import Rig


class Taken:
    """A rig whose bucket rejects creates of keys that begin with one of `refused`."""

    def __init__(self) -> None:
        self.refused: list[str] = []
        self.tries = 0
        self.rig = Rig(spoil=lambda store: FaultyStore(store, self._fault))

    def _fault(self, operation: str, key: str) -> Fault | None:
        is_refused = operation == "create" and key.startswith(tuple(self.refused))
        self.tries += is_refused
        return Fault.BEFORE if is_refused else None


def test_a_launch_folder_that_cannot_be_written_holds_up_no_other_launch() -> None:
    """One turn is discarded; from the next on, all others are answered, start and end."""
    taken = Taken()
    rig = taken.rig
    taken.refused = ["launches/blue/bad"]
    bad, good, red = rig.launch("bad"), rig.launch("good"), rig.launch(user="cat", project="red")
    with pytest.raises(StoreError, match=r"launches/blue/bad-.*spec\.json"):
        rig.turn()
    rig.turn(3)
    (job,) = rig.answer(good).jobs
    assert rig.answer(red, user="cat", project="red").accepted
    rig.until(lambda: rig.phase(job) == "running")
    assert rig.read(layout.answer("blue", "ann", bad), dict) is None
    (problem,) = rig.journal.problems
    assert "launches/blue/bad-" in problem
    taken.refused = []
    rig.turn(3)
    assert rig.answer(bad).accepted
    assert rig.journal.problems == ()
    rig.until(lambda: rig.phase(rig.answer(bad).jobs[0]) == "running")


def test_a_launch_that_can_never_be_written_is_refused_with_the_reason() -> None:
    """It is refused after ten minutes in which the bucket accepted commits, and not before."""
    taken = Taken()
    rig = taken.rig
    taken.refused = ["launches/blue/bad"]
    bad = rig.launch("bad")
    with pytest.raises(StoreError):
        rig.turn()
    rig.turn(int(GIVEN_UP_S) - 20)
    assert rig.keys("inbox/blue/ann/") != []
    rig.turn(60)
    answer = rig.answer(bad)
    assert not answer.accepted
    (problem,) = answer.problems
    assert problem.startswith("the bastion cannot write what it needs for this: launches/blue/bad-")
    assert rig.keys("inbox/blue/ann/") == []
    tries = taken.tries
    rig.turn(3)
    assert taken.tries == tries


def test_an_outage_of_the_whole_bucket_gives_up_no_request() -> None:
    """Without a commit no failure counts; the first one after hours counts for a minute."""
    unwritten = Unwritten()
    for _ in range(1000):
        unwritten.add("inbox/one", StoreError("down"), at=5.0)
    unwritten.add("inbox/one", StoreError("down"), at=5.0 + 10 * GIVEN_UP_S)
    assert not unwritten.is_given_up("inbox/one")


def test_a_cancel_counts_though_the_launch_could_not_be_written_yet() -> None:
    """Both are in the inbox: the cancel waits for its launch, which never starts."""
    taken = Taken()
    rig = taken.rig
    taken.refused = ["launches/blue/bad"]
    bad = rig.launch("bad")
    job = f"bad-{bad[-10:].lower()}"
    cancel = rig.verb("cancel", job)
    with pytest.raises(StoreError):
        rig.turn()
    rig.turn(5)
    taken.refused = []
    rig.turn(4)
    assert rig.answer(bad).jobs == (job,)
    assert rig.answer(cancel).accepted
    result = rig.ended(job)
    assert (result.outcome, result.attempts) == ("cancelled", 0)


def test_a_command_that_cannot_be_written_holds_up_no_launch() -> None:
    """Its arguments are a separate object; others proceed immediately, this one once it lands."""
    taken = Taken()
    rig = taken.rig
    job = rig.start()
    taken.refused = ["instructions/"]
    command = rig.ask("ann", "blue", "exec", ExecRequest(job=job, argv=("x" * 5000,)))
    other = rig.launch("other")
    with pytest.raises(StoreError):
        rig.turn()
    rig.turn(2)
    assert rig.answer(other).accepted
    taken.refused = []
    rig.turn(3)
    assert rig.answer(command).accepted
