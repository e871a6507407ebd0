"""The `end` of a host, derived from the keeper's record of its attempt: pure functions."""

from __future__ import annotations

from bastion.agent.home import Marks, Word
from bastion.agent.keeper.attempt.spool import marker
from bastion.agent.keeper.port import (
    KEEPER_STOPPED,
    LOST_CONTACT,
    ExitRecord,
    KeeperEndingError,
    MachineFaultError,
    ProcessExit,
)
from bastion.agent.machine.machine_fault import fault_text, is_machine_fault
from bastion.agent.setup.python_env import BuildError
from bastion.errors import BastionError
from bastion.job import End, StopReason
from bastion.lifecycle.outcome import failed_first

_NO_WORD = Word()

_NO_CODE = -9
"""The code of a process whose end was not seen: it was killed with its keeper."""


def end_of(record: ExitRecord, *, finished: bool, checkpointed: bool, word: Word = _NO_WORD) -> End:
    """
    Return how the host ended, from its keeper's record and the marks of its processes.

    A notice after a process had already failed by itself is left out. `word` has the facts that
    containers left.
    """
    sizes = tuple(map(shipped_size, record.processes))
    dropped = sum(process.dropped_bytes for process in record.processes)
    if record.lost:
        detail = record.last_lines or "its keeper died while it ran"
        return End(
            kind="lost",
            sizes=sizes,
            checkpointed=checkpointed,
            detail=detail,
            on_end=record.on_end,
        )
    if record.machine_fault:
        detail = f"its machine could not start it: {record.machine_fault}"
        return End(kind="lost", sizes=sizes, by_machine=True, detail=detail, on_end=record.on_end)
    if word.lost:
        # A job may have written that itself: it counts against no machine.
        return End(kind="lost", sizes=sizes, detail=word.lost, on_end=record.on_end)
    told = (one.setup_failure for one in record.processes)
    unstarted = next(filter(None, (*told, word.setup_failure)), "")
    if unstarted:
        return End(kind="setup_failed", sizes=sizes, detail=unstarted, on_end=record.on_end)
    by_itself = record.failed_by_itself
    detail = record.last_lines if record.first_failed is not None else ""
    return End(
        kind="exited",
        codes=tuple(map(_code, record.processes)),
        first_failed=record.first_failed if by_itself else None,
        notice="" if by_itself or not record.notices else _reason(record.notices[0].reason),
        finished=finished,
        checkpointed=checkpointed,
        out_of_memory=record.out_of_memory
        or (word.out_of_memory and record.first_failed is not None),
        sizes=sizes,
        ran_s=round(max(0.0, record.ended_at - record.started_at), 3),
        detail=f"{record.idle}; stacks are in its log" if record.idle else detail,
        on_end=record.on_end,
        dropped_bytes=dropped,
    )


def tail_of(process: ProcessExit) -> bytes:
    """Return the marker that a log in the bucket ends with, if the spool had no room for it."""
    return marker(process.untold_bytes) if process.untold_bytes else b""


def shipped_size(process: ProcessExit) -> int:
    """Return how many bytes of a process's log go to the bucket."""
    return process.log_size_bytes + len(tail_of(process))


def ended_so(record: ExitRecord, marks: Marks, word: Word) -> End:
    """Return `end_of` with the marks in the host's folder."""
    is_kept = marks.checkpointed_at is not None
    return end_of(record, finished=marks.finished, checkpointed=is_kept, word=word)


def held_s(record: ExitRecord, end: End, *, life: int, now: float) -> float:
    """
    Return for how much longer a failed host is held; 0 if it is not held.

    A host of an earlier keeper life is not held: its times may be of another boot, and its devices
    were free in between.
    """
    if record.hold_until is None or record.life != life or not failed_first(end):
        return 0.0
    return max(0.0, record.hold_until - now)


def _code(process: ProcessExit) -> int:
    if process.code is not None:
        return process.code
    return _NO_CODE if process.signal is None else -process.signal


def _reason(reason: str) -> str:
    """Translate the keeper's reason for a stop: its own reasons are faults of the machine."""
    return StopReason.HOST_LOST.value if reason in (LOST_CONTACT, KEEPER_STOPPED) else reason


def end_without_start(error: BaseException) -> End:
    """
    Return the end of a host that could not start because of `error`.

    After a fault of the machine, or if its keeper ends, the host is lost, because the job can start
    elsewhere. Any other error would occur on every machine.
    """
    if isinstance(error, MachineFaultError):
        return _lost(error.message)
    if isinstance(error, KeeperEndingError):
        return End(kind="lost", detail=f"it was not started: {error.message}")
    if is_machine_fault(error):
        return _lost(_root_text(error))
    if isinstance(error, BuildError):
        return End(kind="setup_failed", detail=str(error), sizes=(len(error.printed),))
    if isinstance(error, BastionError):
        return End(kind="setup_failed", detail=error.in_a_line)
    return End(kind="setup_failed", detail=f"internal error: {error!r} of the agent")


def _lost(why: str) -> End:
    return End(kind="lost", by_machine=True, detail=f"its machine could not start it: {why}")


def _root_text(error: BaseException) -> str:
    """Return what failed, followed by the fault of the machine."""
    what = error.message if isinstance(error, BastionError) else ""
    while error.__cause__ is not None:
        error = error.__cause__
    text = fault_text(error)
    return what if text in what else f"{what}: {text}" if what else text
