"""From what the keeper saw of an attempt to the `end` that the bucket keeps: pure."""

from __future__ import annotations

from bastion.agent.home import Word
from bastion.agent.keeper_port import KEEPER_STOPPED, LOST_CONTACT, ExitRecord, ProcessExit
from bastion.job import End, StopReason

_NO_WORD = Word()

_NO_CODE = -9
"""Of a process whose end nobody saw: it was killed with its keeper."""


def end_of(record: ExitRecord, *, finished: bool, checkpointed: bool, word: Word = _NO_WORD) -> End:
    """
    How the host ended, given what its keeper recorded and which marks its processes left.

    A notice given after a process had failed by itself changes nothing and is left out. `word` is
    what containers left.
    """
    sizes = tuple(process.log_size_bytes for process in record.processes)
    if record.lost:
        detail = record.last_lines or "its keeper died while it ran"
        return End(kind="lost", sizes=sizes, checkpointed=checkpointed, detail=detail)
    told = (one.setup_failure for one in record.processes)
    unstarted = next(filter(None, (*told, word.setup_failure)), "")
    if unstarted:
        return End(kind="setup_failed", sizes=sizes, detail=unstarted)
    by_itself = record.failed_by_itself
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
        detail=record.last_lines if record.first_failed is not None else "",
    )


def _code(process: ProcessExit) -> int:
    if process.code is not None:
        return process.code
    return _NO_CODE if process.signal is None else -process.signal


def _reason(reason: str) -> str:
    """The keeper's own reasons to stop everything mean, to the job, that its machine failed it."""
    return StopReason.HOST_LOST.value if reason in (LOST_CONTACT, KEEPER_STOPPED) else reason
