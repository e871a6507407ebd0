"""
The bastion's own log in the bucket, in case its machine is lost or its turns fail.

It has a thread of its own, because the bucket may hang, and does not depend on a turn: a bastion
that can read root but not write it must show why. Lines wait until the bucket has them.
"""

from __future__ import annotations

from bastion.clock import Clock
from bastion.errors import ConflictError, NotFoundError, OversizeError
from bastion.lane import Lane
from bastion.records.coding.limits import LOG_TAIL_BYTES
from bastion.records.keys import layout
from bastion.records.register import create_same
from bastion.service.journal import Journal
from bastion.store import ObjectStore
from bastion.value import value

FLUSH_S = 10.0
"""Between two writes to the bucket: a busy bastion logs something in every turn."""
LAST_S = 1.0
"""How long the end of a bastion waits for its last lines to be written."""
_WORK = "log"
"""Names the write, and the problem that it fails."""


@value
class _Part:
    """Lines that are written together: a segment, until the bucket has it."""

    key: str
    data: bytes


class KeptLog:
    """
    Writes the lines of `journal` to the bucket: segments, and the tail of the log.

    Args:
        lane: Has one thread, for nothing else.
    """

    def __init__(self, journal: Journal, store: ObjectStore, clock: Clock, lane: Lane) -> None:
        self._journal = journal
        self._store = store
        self._clock = clock
        self._lane = lane
        self._flushed_at = float("-inf")
        self._named_at = 0
        self._unwritten: _Part | None = None
        self._tail: bytes | None = None
        """The tail as this process last wrote it; None before its first write."""

    def flush(self) -> None:
        """Start to write what was logged, if it is time; it never waits for the bucket."""
        self._collect()
        now = self._clock.monotonic()
        if self._lane.has_work() or now - self._flushed_at < FLUSH_S:
            return
        if self._unwritten is None and (text := self._journal.drain()):
            self._unwritten = self._named(text.encode())
        if (part := self._unwritten) is not None:
            self._flushed_at = now
            self._lane.submit(_WORK, lambda: self._write(part))

    def close(self) -> None:
        """Write the last lines if the bucket takes them within `LAST_S`, and end the thread."""
        self._lane.settle(LAST_S / 2)
        self._flushed_at = float("-inf")
        self.flush()
        self._lane.settle(LAST_S / 2)
        self._lane.close()

    def _collect(self) -> None:
        for done in self._lane.collect():
            if done.error is None:
                self._unwritten = None
                self._journal.solved(_WORK)
            elif isinstance(done.error, ConflictError) and self._unwritten is not None:
                self._unwritten = self._named(self._unwritten.data)
            else:
                self._journal.problem(_WORK, done.error)

    def _named(self, data: bytes) -> _Part:
        """Return `data` as a segment, named by the time; a clock that was set back keeps order."""
        prefix = layout.bastion_log_segments(self._journal.name)
        self._named_at = max(self._named_at + 1, int(self._clock.wall() * 1e6))
        return _Part(key=f"{prefix}{self._named_at}.log", data=data)

    def _write(self, part: _Part) -> None:
        create_same(self._store, part.key, part.data)
        key = layout.bastion_log(self._journal.name)
        try:
            found = self._store.read(key, limit_bytes=LOG_TAIL_BYTES)
        except NotFoundError:
            found = None
        except OversizeError:  # not ours: a job could create it before this bastion's first line
            self._store.delete(key)
            found = None
        if self._tail is None:  # a process that was killed has left the lines that say why
            self._tail = found.data if found is not None else b""
        tail = (self._tail + part.data)[-LOG_TAIL_BYTES:]
        try:
            if found is None:
                self._store.create(key, tail)
            else:
                self._store.swap(key, tail, if_version=found.version)
        except ConflictError:
            return  # another bastion of this name was faster; the segments have all lines
        self._tail = tail
