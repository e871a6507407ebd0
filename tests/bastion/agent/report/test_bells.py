"""Bells: which facts go with one another."""

from __future__ import annotations

from pathlib import Path

from bastion.agent.errands import Errands
from bastion.agent.home import FolderHome
from bastion.agent.report.bells import Bells
from bastion.lane import InlineLane
from bastion.records.coding.codec import decode
from bastion.records.keys import layout
from bastion.records.reports.facts import Bell, Drained, Fact, Heartbeat, Started, Unkept
from bastion.store.memory import MemoryStore
from tests.rigs.agent import MACHINE, OF


def sent(folder: Path, *facts: Fact) -> list[tuple[str, ...]]:
    """The kinds of the facts of each bell that these become."""
    store, said = MemoryStore(lambda: 0.0), list[str]()
    errands = Errands(InlineLane(), InlineLane(), retry_s=1.0, say=said.append)
    home = FolderHome(folder)
    bells = Bells(store, errands, home, machine=MACHINE, life=1, anew=lambda: 0, say=said.append)
    for fact in facts:
        bells.ring(fact)
    for now in range(20):
        bells.turn(float(now))
        errands.collect(float(now))
    assert bells.is_silent
    found = (store.read(entry.key, limit_bytes=1 << 20) for entry in store.list(layout.BELLS))
    rung = (decode(Bell, each.data, key="bell") for each in found if each is not None)
    return [tuple(fact.kind for fact in bell.facts) for bell in rung]


def test_a_fact_that_earlier_bastions_do_not_know_has_a_bell_of_its_own(tmp_path: Path) -> None:
    """They set aside a bell of which they cannot read a fact, and all others would go with it."""
    unkept = Unkept(of=OF, text="more than 9 files")
    told = sent(tmp_path, Started(of=OF), Heartbeat(), unkept, unkept, Drained(of=OF))
    assert told == [("started", "heartbeat"), ("unkept",), ("unkept",), ("drained",)]


def test_a_fact_that_is_no_text_holds_up_no_other(tmp_path: Path) -> None:
    """What a job or a tool wrote may hold half a character; the facts beside it are sent."""
    half = Unkept(of=OF, text="\ud800")
    assert sent(tmp_path, Started(of=OF), half, Drained(of=OF)) == [("started", "drained")]
