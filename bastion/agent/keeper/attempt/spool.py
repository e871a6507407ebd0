"""
The spool: one bounded file per process, which takes all output of a pipe and never blocks it.

The file is the log, byte for byte, and is shipped by offset. Bytes once counted in `size` never
change. When the limit is reached or the disk is full, bytes are dropped and counted, and the last
64 KiB are held in memory. The file continues with a marker line and those last bytes, at the end of
the log or as soon as a full disk has room again. So a truncation is visible and offsets stay
contiguous. If the disk stays full to the end, even the marker has no room: the count is then in
`untold`, and the shipper of the log adds the line. Standard library only.
"""

from __future__ import annotations

import contextlib
import os

TAIL_BYTES = 1 << 16
"""Bytes that do not fit and are held in memory: enough for any traceback."""

_READ_BYTES = 1 << 16
"""One read of a pipe: the capacity of a Linux pipe."""

_READS_A_TURN = 16
"""At most 1 MiB from one pipe before the next pipe is read."""

_MARKER_BYTES = 80
"""Room kept for the marker line: its text and a 19-digit number."""

_RETRY_S = 1.0
"""Between two tries to write to a full disk."""


def marker(dropped: int) -> bytes:
    """Return the line that marks missing bytes."""
    return b"\n[bastion: output truncated: %d bytes dropped]\n" % dropped


class Spool:
    """One log file, and the count of output that it could not keep."""

    __slots__ = ("_cut", "_file", "_head_limit", "_held", "_retry_at", "dropped", "size", "untold")

    def __init__(self, path: str, *, limit_bytes: int) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._head_limit = max(0, limit_bytes - TAIL_BYTES - _MARKER_BYTES)
        self._held = b""
        self._cut = 0
        self._retry_at = 0.0
        self.size = 0
        self.dropped = 0
        self.untold = 0
        """Dropped bytes that no marker in the file counts, for lack of room."""

    def take(self, pipe: int, now: float) -> bool:
        """Move the data of `pipe` (non-blocking) into the log; return False at its end."""
        for _ in range(_READS_A_TURN):
            try:
                data = os.read(pipe, _READ_BYTES)
            except BlockingIOError:
                return True
            if not data:
                return False
            self.put(data, now)
        return True

    def put(self, data: bytes, now: float) -> None:
        """Append `data`, or hold and count it if it has no room; a full disk is no error."""
        if self._held and self.size < self._head_limit and now >= self._retry_at:
            self._write_held(now)
        if not self._held:
            room = self._head_limit - self.size
            written = self._write(data[:room]) if room > 0 else 0
            self.size += written
            data = data[written:]
            self._retry_at = now + _RETRY_S
        if data:
            self._held += data
            excess = max(0, len(self._held) - TAIL_BYTES)
            self._cut += excess
            self._held = self._held[excess:]

    def tail(self, size_bytes: int) -> bytes:
        """Return the last bytes of the log, without unreadable ones; only before `close`."""
        size = min(size_bytes, self.size)
        written = b""
        with contextlib.suppress(OSError):
            written = os.pread(self._file, size, self.size - size)
        return (written + self._held)[-size_bytes:]

    def close(self, now: float) -> None:
        """Write the held bytes, if the disk has room, and close the file."""
        if self._held:
            self._write_held(now)
        self.untold = self._cut + len(self._held)
        self.dropped += self.untold
        with contextlib.suppress(OSError):
            os.close(self._file)  # a network file system may report a full disk here

    def _write_held(self, now: float) -> None:
        """Append the marker and the held bytes: all of it or nothing."""
        text = (marker(self._cut) if self._cut else b"") + self._held
        if self._write(text) < len(text):
            # If truncation fails, the next try overwrites: it starts at the same byte.
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self.size)
            self._retry_at = now + _RETRY_S
            return
        self.size += len(text)
        self.dropped += self._cut
        self._cut = 0
        self._held = b""

    def _write(self, data: bytes) -> int:
        """Write at the end of the log; return how many bytes had room."""
        done = 0
        while done < len(data):
            try:
                done += os.pwrite(self._file, data[done:], self.size + done)
            except OSError:
                break
        return done


def remove_spool(folder: str) -> None:
    """Delete an attempt's logs; files that cannot be deleted stay."""
    # shutil would load three compressors into the keeper's memory.
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            os.unlink(f"{folder}/{name}")
        os.rmdir(folder)
