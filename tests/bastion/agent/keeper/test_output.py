"""How the real keeper handles real output."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bastion.agent.machine import stray_processes as strays
from tests.rigs.keepers import EXITS, TIDIES, RealWorld, attempt, python


@pytest.fixture
def world(tmp_path: Path) -> Iterator[RealWorld]:
    """A real keeper."""
    made = RealWorld(tmp_path)
    yield made
    made.close()


def test_a_flood_is_bounded_and_the_cut_is_seen(world: RealWorld) -> None:
    """Of more output than the limit, head and tail are kept around a line that counts the rest."""
    flood = python(
        "import os\nos.write(1, b'first\\n')\n"
        "for _ in range(64): os.write(1, b'y' * 65536)\nos.write(1, b'last\\n')"
    )
    world.keeper.start(replace(attempt("a", flood), spool_limit_bytes=1 << 20))
    record = world.ended("a").processes[0]
    log = world.log("a")
    assert record.code == 0
    assert len(log) == record.log_size_bytes <= 1 << 20
    assert log.startswith(b"first\nyyy")
    assert log.endswith(b"yyylast\n")
    assert b"\n[bastion: output truncated: %d bytes dropped]\n" % record.dropped_bytes in log
    written = 64 * 65536 + len(b"first\nlast\n")
    marker = len(b"\n[bastion: output truncated:  bytes dropped]\n") + len(
        str(record.dropped_bytes)
    )
    assert log.count(b"bastion") == 1
    assert len(log) - marker + record.dropped_bytes == written


def test_a_flood_without_end_can_be_stopped(world: RealWorld) -> None:
    """`yes` does not keep the keeper from reading a stop."""
    world.keeper.start(replace(attempt("a", "exec yes"), spool_limit_bytes=4 << 20))
    world.wrote("a", 1 << 20)
    world.keeper.stop("a", reason="cancel", by="alice", grace_s=10.0)
    assert world.ended("a").processes[0].signal == signal.SIGTERM


def test_binary_output_is_kept_as_it_is(world: RealWorld) -> None:
    """Every byte value passes, in order, and an undecodable tail does no harm."""
    program = "import os, sys\nos.write(1, bytes(range(256)) * 40)\nsys.exit(1)"
    world.keeper.start(attempt("a", python(program)))
    record = world.ended("a")
    assert world.log("a") == bytes(range(256)) * 40
    assert len(record.last_lines) > 0


def test_closing_output_early_is_no_end(world: RealWorld) -> None:
    """A process that closes stdout and stderr runs until it exits."""
    world.keeper.start(attempt("a", "echo bye; exec >&- 2>&-; sleep 0.2; exit 9"))
    record = world.ended("a")
    assert record.processes[0].code == 9
    assert record.ended_at - record.started_at >= 0.2
    assert world.log("a") == b"bye\n"


def test_a_grandchild_that_holds_the_pipe_does_not_hold_the_end(world: RealWorld) -> None:
    """Output held open by a child of an ended process delays nothing; nothing is lost."""
    world.keeper.start(attempt("a", "echo first; sleep 1000 & echo last"))
    world.ended("a")
    assert world.log("a") == b"first\nlast\n"
    assert strays.children(world.pid) == []


def test_a_record_has_where_a_clean_up_began_only_if_one_did(world: RealWorld) -> None:
    """Earlier builds, which may take over the home or be the agent, cannot read such a record."""
    world.keeper.start(attempt("a", EXITS))
    assert world.ended("a").cleaned_from is None
    journal = world.home / "keeper" / "journal"
    assert "cleaned_from" not in journal.read_text()
    world.keeper.start(attempt("b", EXITS, on_end=TIDIES, on_end_s=60.0))
    assert world.ended("b").cleaned_from == 0
    assert "cleaned_from" in journal.read_text()
