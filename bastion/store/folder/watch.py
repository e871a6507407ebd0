"""
`Watch`: learn immediately that another process has written to a bucket in a folder.

Every object passes through the store's folder of temporary files, and its temporary file leaves
that folder once the object is written. The file's name shows the folders of the object, so one
folder is watched for the whole bucket. A watch is a hint that ends a pause early, and never a
guarantee: the next poll finds what it misses. If the system cannot watch, it only pauses.
"""

from __future__ import annotations

import os
import select
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from bastion.clock import Clock
from bastion.store.folder.mark import DEPTH, NAME_CHARACTERS, mark_of

if TYPE_CHECKING:
    from ctypes import CDLL

_EVENT = struct.Struct("iIII")
"""Source: inotify(7), `struct inotify_event`; a name of the given length follows."""
_MOVED_FROM, _DELETED = 0x40, 0x200
_SELF_DELETED = 0x400
"""An unmounted disk is not deleted: it has an event of its own. Source: inotify(7)."""
_SELF_GONE = _SELF_DELETED | 0x800
_OVERFLOWN, _IGNORED = 0x4000, 0x8000
"""Source: inotify(7), <sys/inotify.h>."""
_READ_BYTES = 1 << 16

REMOVED_S = 60.0
"""How long to wait for a bucket whose folder was deleted: it may be restored from a copy."""


class Watch(Protocol):
    """A wait that ends early on news."""

    def wait(self, timeout_s: float) -> bool:
        """Wait for news, at most `timeout_s`; return whether there is any."""
        ...

    def has_news(self) -> bool:
        """Whether there is news since the last call."""
        ...

    def hears(self) -> bool:
        """Whether there is news, which `has_news` will still report."""
        ...

    def fileno(self) -> int:
        """Return a descriptor that is readable when there may be news; -1 if there is none."""
        ...

    def is_removed(self) -> bool:
        """Whether the bucket was deleted, as far as `has_news` saw; an unmount does not count."""
        ...

    def close(self) -> None:
        """Stop watching; a later call starts again."""
        ...


class Pause:
    """The watch of a place that cannot be watched: it only waits."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def wait(self, timeout_s: float) -> bool:
        """See `Watch`."""
        self._clock.sleep(timeout_s)
        return False

    def has_news(self) -> bool:
        """See `Watch`."""
        return False

    def hears(self) -> bool:
        """See `Watch`."""
        return False

    def fileno(self) -> int:
        """See `Watch`."""
        return -1

    def is_removed(self) -> bool:
        """See `Watch`."""
        return False

    def close(self) -> None:
        """See `Watch`."""


class FolderWatch:
    """
    The watch of the keys below one folder of a bucket in a folder.

    Args:
        temps: The store's folder of temporary files.
        below: The folder, such as `inbox/` or `instructions/pool/machine/`.
        clock: For waiting if the system cannot watch.
    """

    def __init__(self, temps: str, below: str, *, clock: Clock) -> None:
        self._temps = temps
        parts = below.rstrip("/").split("/")
        # A folder with fewer levels than a mark is recognized by its first name only.
        mark = mark_of(f"{below}-") if len(parts) >= DEPTH else f"{parts[0][:NAME_CHARACTERS]}-"
        self._mark = f".{mark}".encode()
        self._clock = clock
        self._handle = -1
        self._is_deleted = self._has_heard = False
        self._libc = _libc()
        self._begin()

    def wait(self, timeout_s: float) -> bool:
        """See `Watch`."""
        until = self._clock.monotonic() + timeout_s
        while True:
            left_s = until - self._clock.monotonic()
            if self.fileno() < 0:
                self._clock.sleep(max(0.0, left_s))
                return False
            poll = select.poll()
            poll.register(self._handle, select.POLLIN)
            if not poll.poll(max(0.0, left_s) * 1e3):
                return False
            if self.has_news():
                return True

    def has_news(self) -> bool:
        """See `Watch`."""
        found = self.hears()
        self._has_heard = False
        return found

    def hears(self) -> bool:
        """See `Watch`."""
        self._has_heard = self._read() or self._has_heard
        return self._has_heard

    def _read(self) -> bool:
        found = False
        while self.fileno() >= 0:
            try:
                data = os.read(self._handle, _READ_BYTES)
            except BlockingIOError:
                return found
            except OSError:
                self._end()
                return True
            found = self._has_mark(data) or found
        return found

    def fileno(self) -> int:
        """See `Watch`."""
        if self._handle < 0:
            self._begin()
        return self._handle

    def is_removed(self) -> bool:
        """See `Watch`; a folder that lost only its temporary files is still there."""
        return self._is_deleted and not os.path.lexists(os.path.dirname(self._temps))  # noqa: PTH120

    def close(self) -> None:
        """See `Watch`."""
        self._end()

    def _has_mark(self, data: bytes) -> bool:
        found, at = False, 0
        while at + _EVENT.size <= len(data):
            _, mask, _, size = _EVENT.unpack_from(data, at)
            at += _EVENT.size
            found |= bool(mask & _OVERFLOWN) or self._mark in data[at : at + size]
            at += size
            self._is_deleted |= bool(mask & _SELF_DELETED)
            if mask & (_SELF_GONE | _IGNORED):  # another folder may be there by now
                self._end()
                return True
        return found

    def _begin(self) -> None:
        if self._libc is None:
            return
        handle = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if handle < 0:
            return
        mask = _MOVED_FROM | _DELETED | _SELF_GONE
        if self._libc.inotify_add_watch(handle, os.fsencode(self._temps), mask) < 0:
            os.close(handle)
            return
        self._handle, self._is_deleted = handle, False

    def _end(self) -> None:
        if self._handle >= 0:
            with suppress(OSError):
                os.close(self._handle)
        self._handle = -1


def _libc() -> CDLL | None:
    """Return the C library, or None if it has no inotify."""
    import ctypes

    try:
        libc = ctypes.CDLL(None, use_errno=True)
        _ = libc.inotify_init1, libc.inotify_add_watch
    except (OSError, AttributeError):
        return None
    return libc
