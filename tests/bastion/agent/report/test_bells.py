"""Bells: which facts are sent together."""

from __future__ import annotations

from pathlib import Path

from bastion.agent.errands import Errands
from bastion.agent.home import FolderHome, Home
from bastion.agent.report.bells import Bells
from bastion.job import End
from bastion.lane import InlineLane
from bastion.records.coding.codec import decode
from bastion.records.coding.limits import BELL_BYTES
from bastion.records.keys import layout
from bastion.records.reports.facts import Bell, Drained, Ended, Fact, Heartbeat, Started, Unkept
from bastion.store.memory import MemoryStore
from tests.rigs.agent import MACHINE, OF


def bells_of(store: MemoryStore, errands: Errands, home: Home, *, anew: int = 0) -> Bells:
    """Return the bells of an agent that starts."""
    return Bells(
        store, errands, home, machine=MACHINE, life=1, anew=lambda: anew, say=lambda _: None
    )


def sent(folder: Path, *facts: Fact) -> list[tuple[str, ...]]:
    """Return the kinds of facts in each bell that these become."""
    store = MemoryStore(lambda: 0.0)
    errands = Errands(InlineLane(), InlineLane(), retry_s=1.0, say=lambda _: None)
    bells = bells_of(store, errands, FolderHome(folder))
    for fact in facts:
        bells.ring(fact)
    for now in range(20):
        bells.turn(float(now))
        errands.collect(float(now))
    assert bells.is_silent
    found = (store.read(entry.key, limit_bytes=BELL_BYTES) for entry in store.list(layout.BELLS))
    rung = (decode(Bell, each.data, key="bell") for each in found if each is not None)
    return [tuple(fact.kind for fact in bell.facts) for bell in rung]


def test_a_fact_that_earlier_bastions_do_not_know_has_a_bell_of_its_own(tmp_path: Path) -> None:
    """An earlier bastion sets aside a whole bell if it cannot read one of its facts."""
    unkept = Unkept(of=OF, text="more than 9 files")
    told = sent(tmp_path, Started(of=OF), Heartbeat(), unkept, unkept, Drained(of=OF))
    assert told == [("started", "heartbeat"), ("unkept",), ("unkept",), ("drained",)]


def test_a_fact_that_is_no_text_holds_up_no_other(tmp_path: Path) -> None:
    """Output of a job or a tool may end in half a character; the facts beside it are sent."""
    half = Unkept(of=OF, text="\ud800")
    assert sent(tmp_path, Started(of=OF), half, Drained(of=OF)) == [("started", "drained")]


def test_facts_with_long_texts_are_spread_over_bells(tmp_path: Path) -> None:
    """After an outage many ends wait, each with a log's end: a bell has at most 1 MiB."""
    end = End(kind="exited", codes=(1,), detail="\u20ac" * 4096)
    told = sent(tmp_path, *[Ended(of=OF, end=end)] * 300)
    assert sum(map(len, told)) == 300
    assert 8 <= len(told) < 20


def test_numbers_that_cannot_be_stored_exceed_those_of_the_agent_before(tmp_path: Path) -> None:
    """On a full disk, the used numbers are unknown: lower ones would be ignored."""
    (tmp_path / "numbers" / "bells.new").mkdir(parents=True)  # so nothing can be written
    store, numbers = MemoryStore(lambda: 0.0), list[int]()
    errands = Errands(InlineLane(), InlineLane(), retry_s=1.0, say=lambda _: None)
    for anew in (1000, 2000):
        bells = bells_of(store, errands, FolderHome(tmp_path), anew=anew)
        for now in range(10):
            bells.ring(Heartbeat())
            bells.turn(float(now))
            errands.collect(float(now))
    for entry in store.list(layout.BELLS):
        named = layout.parse_bell(entry.key)
        assert named is not None
        numbers.append(named[2])
    assert numbers == [*range(1000, 1010), *range(2000, 2010)]
