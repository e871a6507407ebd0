"""The compaction that a leader runs: when, in which process, and how failures are handled."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from bastion.__main__ import main
from bastion.clock import VirtualClock
from bastion.errors import BastionError
from bastion.lane import InlineLane
from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.reports.history import Shares
from bastion.records.root import Event, Root
from bastion.service.compaction import EVERY_S, FIRST_S, Compaction, compact_in_process
from bastion.service.journal import Journal
from bastion.store.folder.local import LocalStore
from tests.rigs.leader import QUOTA, Rig


def root(now: float) -> Root:
    return Root(epoch=1, seq=1, now=now, write_id="w")


def log_of(folder: Path) -> None:
    """Write a log of three events within two hours."""
    store = LocalStore(folder, makes_root=True)
    events = [Event(n=n, at=1e9 + n * 3600, what="leads") for n in range(3)]
    store.create(layout.events(0), b"".join(encode(event) + b"\n" for event in events))


def test_it_begins_after_minutes_and_then_every_hour() -> None:
    """A new leader waits five minutes, then compacts every hour of the store's time."""
    runs: list[float] = []
    now = 1000.0

    def compact() -> Mapping[str, str]:
        runs.append(now)
        return {}

    journal = Journal("b", VirtualClock(), out=None)
    compaction = Compaction(InlineLane(), journal, compact)
    while now < 1000 + 3 * EVERY_S:
        compaction.act(root(now))
        now += 60
    assert runs == [1000 + FIRST_S + i * EVERY_S for i in range(3)]


def test_a_failure_and_what_is_spoilt_are_told() -> None:
    """A failed compaction is among the bastion's problems, and the next one is tried."""
    results: list[object] = [BastionError("no room"), {"state/log/1:2": "not JSON"}]

    def compact() -> Mapping[str, str]:
        result = results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result  # type: ignore[return-value]

    journal = Journal("b", VirtualClock(), out=None)
    compaction = Compaction(InlineLane(), journal, compact)
    compaction.act(root(0.0))
    compaction.act(root(EVERY_S))
    compaction.act(root(EVERY_S + 1))
    assert "no room" in str(journal.problems)
    compaction.act(root(2 * EVERY_S))
    compaction.act(root(2 * EVERY_S + 1))
    assert results == []


def test_it_runs_in_a_process_of_its_own(tmp_path: Path) -> None:
    """The process compacts the bucket and reports the result; a failure has a message."""
    log_of(tmp_path)
    assert compact_in_process(tmp_path.as_uri())() == {}
    assert (tmp_path / "history/recent/events/000000000000-000000000003.parquet").is_file()
    with pytest.raises(BastionError, match="unknown, must be one of"):
        compact_in_process("ftp://nowhere")()


def test_the_bastion_never_imports_duckdb() -> None:
    """The imports of a bastion do not load DuckDB, which takes 60 MB."""
    modules = "bastion.service.run.compose, bastion.history"
    code = f"import {modules}, sys; assert not {{'duckdb', 'pyarrow'}} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_wrong_call_of_the_program_says_what_is_right(capsys: pytest.CaptureFixture[str]) -> None:
    """`compact` without a root prints its usage."""
    assert main(["compact"]) == 2
    assert "compact ROOT" in capsys.readouterr().err


def test_the_history_knows_what_projects_own() -> None:
    """A change of the quota file is an event with all shares, and so is each day."""
    rig = Rig()
    rig.turn(3)
    (first,) = shares(rig)
    assert first == {"blue": {"h100": 8}, "red": {"h100": 8}}
    rig.put(layout.QUOTA, QUOTA.replace("h100 = 0.5", "h100 = 0.25", 1))
    rig.turn(2)
    assert shares(rig)[1:] == [{"blue": {"h100": 4}, "red": {"h100": 8}}]
    rig.turn(4, seconds=43_200.0)
    assert len(shares(rig)) == 4


def shares(rig: Rig) -> list[Mapping[str, Mapping[str, int]]]:
    """Return the shares in the history, oldest first."""
    records = [event.record for event in rig.history()]
    return [each.nominal for each in records if isinstance(each, Shares)]
