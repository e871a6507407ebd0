"""
Log shipping: the logs of one host's processes, from the keeper's spool to the bucket.

The agent's thread decides which bytes are sent (`frozen`), and the lane sends them. They are fixed
before the first try, so a retry sends the same segments. One list shows what an earlier agent has
sent. Secrets are masked by `redaction`.
"""

from __future__ import annotations

from bastion.agent.errands import Errands
from bastion.agent.keeper.port import MachineFaultError, ProcessExit, Spool
from bastion.agent.machine.machine_fault import is_machine_fault
from bastion.agent.report.end_record import shipped_size, tail_of
from bastion.agent.report.redaction import Read, Redaction
from bastion.errors import NotFoundError
from bastion.logs.pace import Pace, due_at
from bastion.logs.segments import SEGMENT_BYTES, LogMismatchError, shipped_bytes, write_segment
from bastion.store.port import ObjectStore

TRACEBACK = b"Traceback (most recent call last)"
"""A log with this text is flushed immediately. Source: Python, `traceback.print_exc`."""

_AT_ONCE_BYTES = 16 << 20
"""Bytes of one log that one errand sends, so that a flood does not delay other logs."""

_LOOKED_AT_BYTES = 64 * 1024

_AGAIN_S = 1.0
"""Pause before a log is read again after the machine ran out of descriptors or memory."""


class _Log:
    """
    One process's log: `shipped` bytes are in the bucket, `frozen` are being sent, `size` are
    written.
    """

    def __init__(self, prefix: str, *, shipped: int | None) -> None:
        self.prefix = prefix
        self.shipped = shipped
        self.frozen = 0
        self.size = 0
        self.tail = b""
        """The last part of `size`: the marker of a cut that the spool had no room for."""
        self.waiting_since = 0.0

    @property
    def spooled(self) -> int:
        """The offset up to which its bytes come from the spool."""
        return self.size - len(self.tail)


class Shipping:
    """
    The logs of one host.

    Args:
        key: The keeper's key of the host, or of the command.
        prefixes: Where the segments of each log lie.
        is_new: Whether nothing can have been shipped yet.
        started_at: When the processes started, on the agent's clock.
        redaction: What is masked.
    """

    def __init__(
        self,
        store: ObjectStore,
        spool: Spool,
        errands: Errands,
        pace: Pace,
        *,
        key: str,
        prefixes: tuple[str, ...],
        is_new: bool,
        started_at: float,
        redaction: Redaction,
    ) -> None:
        self._store = store
        self._spool = spool
        self._errands = errands
        self._pace = pace
        self._key = key
        self._started_at = started_at
        self._redaction = redaction
        self._urgent_until = 0.0
        self._closed = False
        self._sent_at = 0.0
        self._again_at = 0.0
        self._unseen: dict[int, int] = {}
        """New sizes of logs, by process, that could not be read yet."""
        self.broken = ""
        """Why nothing more can ever be shipped; empty while it can be."""
        self._logs = [_Log(prefix, shipped=0 if is_new else None) for prefix in prefixes]

    @property
    def is_complete(self) -> bool:
        """Whether the logs are complete in the bucket."""
        return self._closed and all(
            log.shipped is not None and log.shipped >= log.size for log in self._logs
        )

    @property
    def trouble(self) -> str:
        """Return why the store refused it at the last try; empty if it did not."""
        return self._errands.trouble(f"logs {self._key}")

    def grew(self, process: int, size_bytes: int, now: float) -> None:
        """Record that the log of a process has grown to `size_bytes`."""
        self._unseen[process] = size_bytes
        try:
            self._see(process, size_bytes, now)
        except MachineFaultError:
            return  # the next turn looks again
        del self._unseen[process]

    def _see(self, process: int, size_bytes: int, now: float) -> None:
        log = self._logs[process]
        size_bytes = self._redaction.settled(size_bytes, self._reader(process))
        if size_bytes <= log.size:
            return
        if log.shipped is not None and log.size <= log.shipped:
            log.waiting_since = now
        if self._is_calm(now) and self._shows_trouble(process, log.size, size_bytes):
            self.hurry(now)
        log.size = size_bytes

    def hurry(self, now: float, *, for_s: float = 0.0) -> None:
        """Flush immediately, and often for the next `for_s` seconds."""
        self._urgent_until = max(self._urgent_until, now + for_s)
        for log in self._logs:
            log.waiting_since = min(log.waiting_since, now - self._pace.old_s)

    def close(self, processes: tuple[ProcessExit, ...]) -> None:
        """Record how the processes ended, with the final sizes, and flush the rest now."""
        for log, process in zip(self._logs, processes, strict=True):
            log.tail = tail_of(process)
            log.size = shipped_size(process)
        self._closed = True
        self._unseen.clear()

    def last_lines(self, process: int, size_bytes: int, *, until: int | None = None) -> str:
        """
        Return the last part of a closed log, masked, with undecodable bytes replaced.

        If `until` is given, it is the part before that offset. Empty if the log cannot be read just
        now.
        """
        spooled = self._logs[process].spooled
        end = spooled if until is None else min(until, spooled)
        first = max(0, end - size_bytes)
        try:
            masked = self._redaction.masked(first, end, self._reader(process), log_end=spooled)
        except MachineFaultError:
            return ""
        return masked.decode("utf-8", "replace")

    def turn(self, now: float) -> float:
        """Send what is due, and return when to call this again."""
        if self.broken or self.is_complete:
            return now + 1.0
        if now < self._again_at:
            return self._again_at
        for process, size_bytes in tuple(self._unseen.items()):
            self.grew(process, size_bytes, now)
        times = [self._due_at(log) for log in self._logs]
        wake = min((at for at in times if at is not None), default=now + 1.0)
        if wake > now:
            return wake
        errand = f"logs {self._key}"
        if not self._errands.is_free(errand, now):
            return now
        for log, at in zip(self._logs, times, strict=True):
            # After a restart, the first errand only finds out how much was sent.
            if at is None or at > now or log.shipped is None:
                continue
            if log.frozen <= log.shipped:
                log.frozen = min(log.size, log.shipped + _AT_ONCE_BYTES)
        self._sent_at = now
        self._errands.send(errand, self._send, self._sent, now=now, otherwise=self._break)
        return now

    def _due_at(self, log: _Log) -> float | None:
        if log.shipped is None:
            return 0.0
        if self._closed:
            return 0.0 if log.shipped < log.size else None
        return due_at(
            self._pace,
            shipped_bytes=log.shipped,
            size_bytes=log.size,
            started_at=self._started_at,
            waiting_since=log.waiting_since,
            urgent_until=self._urgent_until,
        )

    def _is_calm(self, now: float) -> bool:
        return now > self._started_at + self._pace.young_for_s and self._pace.old_s > 1.0

    def _shows_trouble(self, process: int, first: int, end: int) -> bool:
        return TRACEBACK in self._reader(process)(max(first, end - _LOOKED_AT_BYTES), end)

    def _reader(self, process: int) -> Read:
        """Return a function that reads the log; it returns less where the spool ends."""

        def read(first: int, end: int) -> bytes:
            try:
                return self._spool.read(self._key, process, offset=first, size_bytes=end - first)
            except NotFoundError:
                return b""

        return read

    def _send(self) -> list[int]:
        """Send every log up to `frozen`, in the lane, and return what is now shipped of each."""
        return [self._send_one(process, log) for process, log in enumerate(self._logs)]

    def _send_one(self, process: int, log: _Log) -> int:
        at = log.shipped
        if at is None:
            at = shipped_bytes(self._store, log.prefix)
        while at < log.frozen:
            end = min(at + SEGMENT_BYTES, log.frozen)
            data = self._bytes(process, log, at, end)
            if not data:
                raise LogMismatchError(
                    f"the spool of process {process} of {self._key} ends at {at} bytes,"
                    f" {log.frozen} were announced"
                )
            at = self._write(log.prefix, at, data)
        return at

    def _bytes(self, process: int, log: _Log, first: int, end: int) -> bytes:
        """
        Return the bytes of a log from `first` to `end` as they are sent: masked, except for our
        marker.
        """
        read, spooled = self._reader(process), log.spooled
        if not self._closed:
            return self._redaction.masked(first, end, read)
        told = log.tail[max(0, first - spooled) : max(0, end - spooled)]
        if first >= spooled:
            return told
        masked = self._redaction.masked(first, min(end, spooled), read, log_end=spooled)
        return masked + told if first + len(masked) == spooled else masked

    def _write(self, prefix: str, at: int, data: bytes) -> int:
        try:
            return write_segment(self._store, prefix, at, data)
        except LogMismatchError:
            # Another agent masked only the values, when they were still known.
            stands = shipped_bytes(self._store, prefix) if self._redaction.is_blind else at
            if stands <= at:
                raise
            return stands

    def _sent(self, shipped: list[int]) -> None:
        for log, at in zip(self._logs, shipped, strict=True):
            log.shipped = at
            log.waiting_since = max(log.waiting_since, self._sent_at)

    def _break(self, error: Exception) -> None:
        if is_machine_fault(error) or isinstance(error, MachineFaultError):
            # Nothing is wrong with the log: it is sent once the machine can read it again.
            self._again_at = self._sent_at + _AGAIN_S
            return
        self.broken = str(error)
