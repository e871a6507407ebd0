"""From the keeper's record to the end in the bucket, case by case."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bastion.agent.keeper.attempt.spool import marker
from bastion.agent.keeper.port import ExitRecord, Notice, ProcessExit
from bastion.agent.report.end_record import end_of
from bastion.job import End


def exit_of(
    code: int | None = 0, *, signal: int | None = None, setup: str = "", size: int = 3
) -> ProcessExit:
    """Return how one process ended."""
    return ProcessExit(
        code=code,
        signal=signal,
        setup_failure=setup,
        ended_at=20.0,
        log_size_bytes=size,
        dropped_bytes=0,
    )


RECORD = ExitRecord(
    key="k",
    life=1,
    started_at=10.0,
    ended_at=20.5,
    processes=(exit_of(),),
    notices=(),
    first_failed=None,
    failed_by_itself=False,
    last_lines="",
    timed_out=False,
    out_of_memory=False,
    lost=False,
)
EXITED = End(kind="exited", codes=(0,), sizes=(3,), ran_s=10.5)


def notice(reason: str) -> Notice:
    """Return a notice."""
    return Notice(reason=reason, by="x", at=15.0)


FAILED = replace(
    RECORD,
    processes=(exit_of(), exit_of(7)),
    first_failed=1,
    failed_by_itself=True,
    notices=(notice("sibling failed"),),
    last_lines="boom\n",
)


@pytest.mark.parametrize(
    ("record", "end"),
    [
        (RECORD, EXITED),
        (
            FAILED,
            replace(EXITED, codes=(0, 7), first_failed=1, sizes=(3, 3), detail="boom\n"),
        ),
        (
            replace(FAILED, notices=(*FAILED.notices, notice("preempt"))),
            replace(EXITED, codes=(0, 7), first_failed=1, sizes=(3, 3), detail="boom\n"),
        ),
        (
            replace(
                RECORD,
                processes=(exit_of(None, signal=15),),
                notices=(notice("preempt"), notice("cancel")),
                first_failed=0,
                last_lines="x",
            ),
            replace(EXITED, codes=(-15,), notice="preempt", detail="x"),
        ),
        (replace(RECORD, notices=(notice("cancel"),)), replace(EXITED, notice="cancel")),
        (
            replace(RECORD, notices=(notice("time limit"),), timed_out=True),
            replace(EXITED, notice="time limit"),
        ),
        (
            replace(RECORD, notices=(notice("lost contact"),)),
            replace(EXITED, notice="host lost"),
        ),
        (
            replace(RECORD, notices=(notice("keeper stopped"),)),
            replace(EXITED, notice="host lost"),
        ),
        (
            replace(RECORD, processes=(exit_of(None, signal=9),), out_of_memory=True),
            replace(EXITED, codes=(-9,), out_of_memory=True),
        ),
        (
            replace(RECORD, processes=(exit_of(), exit_of(None, setup="no program 'x'", size=0))),
            End(kind="setup_failed", sizes=(3, 0), detail="no program 'x'"),
        ),
        (
            replace(RECORD, processes=(exit_of(None),), lost=True),
            End(kind="lost", sizes=(3,), detail="its keeper died while it ran"),
        ),
    ],
)
def test_records_become_ends(record: ExitRecord, end: End) -> None:
    """Each kind of record gives the end that the table of outcomes requires."""
    assert end_of(record, finished=False, checkpointed=False) == end


def test_marks_are_kept() -> None:
    """Both marks are in the end; a lost host's checkpoint counts too."""
    assert end_of(RECORD, finished=True, checkpointed=True) == replace(
        EXITED, finished=True, checkpointed=True
    )
    lost = end_of(replace(RECORD, lost=True), finished=True, checkpointed=True)
    assert (lost.kind, lost.checkpointed) == ("lost", True)


def test_what_the_machine_had_no_room_for_is_lost() -> None:
    """If its machine could not start a process, the host is lost, and set-up has not failed."""
    record = replace(
        RECORD,
        processes=(exit_of(None, setup="cannot start 'sh': Too many open files"),),
        first_failed=0,
        failed_by_itself=True,
        machine_fault="Too many open files",
    )
    assert end_of(record, finished=False, checkpointed=False) == End(
        kind="lost",
        by_machine=True,
        sizes=(3,),
        detail="its machine could not start it: Too many open files",
    )


def test_what_no_log_kept_is_told_and_its_marker_counts() -> None:
    """The end says how many bytes were dropped; its sizes include the shipped marker."""
    process = replace(exit_of(size=15), dropped_bytes=100, untold_bytes=45)
    end = end_of(replace(RECORD, processes=(process,)), finished=False, checkpointed=False)
    assert end.dropped_bytes == 100
    assert end.sizes == (15 + len(marker(45)),)
