"""
The journal: which attempts this home's keepers started and how they ended, append-only.

A line is a JSON object: `life` (a keeper started), `exec` (an attempt is about to be forked),
`leaders` (the pids it got), `on_end` (its clean-up is about to be forked), `end` (its record),
`forget`. `exec`, `on_end` and `end` count only after `commit`, which syncs. The others may be lost
with the machine, and nothing depends on them then.

There is one file, not one per attempt, so a commit is one sync for everything that a turn of the
loop decided, and replay is one read. Standard library only.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os

from bastion.agent.machine.machine_fault import fault_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_COMPACT_BYTES = 1 << 18
"""Size below which compaction is not worth its cost."""


class Entry:
    """The lines of one attempt."""

    __slots__ = ("end", "exec", "leaders", "on_end")

    def __init__(self, exec_line: bytes) -> None:
        self.exec = exec_line
        self.leaders = b""
        self.on_end = b""
        self.end = b""

    def started(self) -> dict[str, object]:
        """Return the fields of the `exec` line."""
        found: dict[str, object] = json.loads(self.exec)
        return found

    def undo(self) -> list[str]:
        """Return the command that removes what no signal reaches; empty: none."""
        found = self.started().get("undo", [])
        assert isinstance(found, list)
        return found

    def sessions(self, boot: str) -> list[tuple[int, int]]:
        """Return pid and start time of its session leaders, if they are of this `boot`."""
        fields = json.loads(self.leaders or b"{}")
        return [(pid, start) for pid, start in fields["of"]] if fields.get("boot") == boot else []

    def record(self) -> dict[str, object]:
        """Return the record of its end; empty while it runs."""
        if not self.end:
            return {}
        found: dict[str, object] = json.loads(self.end)["record"]
        return found

    def size(self) -> int:
        """Return the number of bytes of its lines."""
        return len(self.lines())

    def lines(self) -> bytes:
        """Return its lines as they are in the file."""
        return self.exec + self.leaders + self.on_end + self.end


class Journal:
    """The file, replayed when opened."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._pending: list[tuple[str, bytes]] = []
        self.problem = ""
        """Why the last failed commit failed, in the system's words."""
        self.entries: dict[str, Entry] = {}
        self.life = 0
        self._size = self._replay()
        self._live = sum(entry.size() for entry in self.entries.values())

    def close(self) -> None:
        """Close the file; nothing can be added after that."""
        os.close(self._file)

    def begin(self, life: int) -> None:
        """
        Record that keeper life `life` serves this home from now on.

        Raises:
            ValueError: The home has seen this life or a later one.
        """
        if life <= self.life:
            raise ValueError(f"life {life} is over: this home has seen life {self.life}")
        self._write(_line({"life": life}))
        os.fsync(self._file)
        self.life = life

    def exec(
        self,
        key: str,
        *,
        at: float,
        processes: int,
        has_secrets: bool = False,
        undo: Sequence[str] = (),
    ) -> None:
        """Add, for the next `commit`, that `key` is about to be forked."""
        fields: dict[str, object] = {
            "exec": key,
            "life": self.life,
            "at": at,
            "processes": processes,
        }
        if has_secrets:
            # Whether there are some, never which: the shipper of its logs must know to mask them.
            fields["has_secrets"] = True
        line = _line({**fields, "undo": list(undo)} if undo else fields)
        self.entries[key] = Entry(line)
        self._live += len(line)
        self._pending.append((key, line))

    def on_end(self, key: str) -> None:
        """Add, for the next `commit`, that the clean-up of `key` is about to be forked."""
        line = self.entries[key].on_end = _line({"on_end": key})
        self._live += len(line)
        self._pending.append((key, line))

    def end(self, key: str, record: dict[str, object]) -> None:
        """Add, for the next `commit`, how `key` ended."""
        line = self.entries[key].end = _line({"end": key, "record": record})
        self._live += len(line)
        self._pending.append((key, line))

    def commit(self) -> bool:
        """
        Write and sync everything added; return False if that failed (a full disk).

        What failed stays added and is retried by the next `commit`; `withdraw` removes an `exec`.
        """
        if not self._pending:
            return True
        try:
            self._write(b"".join(line for _, line in self._pending))
            os.fdatasync(self._file)
        except OSError as error:
            self.problem = fault_text(error)
            return False
        self._pending.clear()
        return True

    @property
    def is_behind(self) -> bool:
        """Whether something added is not on the disk."""
        return bool(self._pending)

    def withdraw(self, key: str) -> None:
        """Remove an `exec` whose commit failed: `key` was never started."""
        line = self.entries.pop(key).exec
        self._live -= len(line)
        self._pending.remove((key, line))

    def leaders(self, key: str, boot: str, sessions: list[tuple[int, int]]) -> None:
        """Record, unsynced, the session leaders that `key` got in this `boot`."""
        entry = self.entries[key]
        self._live -= len(entry.leaders)
        entry.leaders = _line({"leaders": key, "boot": boot, "of": sessions})
        self._live += len(entry.leaders)
        with contextlib.suppress(OSError):
            self._write(entry.leaders)

    def forget(self, key: str) -> None:
        """Drop `key`; compact the file when most of it is of forgotten attempts."""
        self._live -= self.entries.pop(key).size()
        self._pending = [(pending, line) for pending, line in self._pending if pending != key]
        with contextlib.suppress(OSError):
            self._write(_line({"forget": key}))
            if self._size > _COMPACT_BYTES + 2 * self._live and not self._pending:
                self._compact()

    def _write(self, data: bytes) -> None:
        """
        Append all of `data`.

        Raises:
            OSError: The disk has no room; the file ends where it ended before.
        """
        try:
            written = os.pwrite(self._file, data, self._size)
            if written < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)
        except OSError:
            os.ftruncate(self._file, self._size)
            raise
        self._size += written

    def _compact(self) -> None:
        """Rewrite the file with the attempts that are not forgotten."""
        temporary = self._path + ".new"
        file = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        old, self._file, self._size = self._file, file, 0
        try:
            self._write(b"".join(self._lines()))
            os.fsync(file)
            os.replace(temporary, self._path)
        except OSError:
            self._file, self._size = old, os.fstat(old).st_size
            os.close(file)
            raise
        os.close(old)
        sync_folder(os.path.dirname(self._path))

    def _lines(self) -> Iterator[bytes]:
        yield _line({"life": self.life})
        for entry in self.entries.values():
            yield entry.lines()

    def _replay(self) -> int:
        """Apply every line, truncate the file after the last whole one, and return its size."""
        with open(self._path, "rb") as file:
            data = file.read()
        whole = data.rfind(b"\n") + 1
        os.ftruncate(self._file, whole)
        for line in data[:whole].splitlines(keepends=True):
            with contextlib.suppress(ValueError, KeyError, TypeError):
                self._apply(line, json.loads(line))
        return whole

    def _apply(self, line: bytes, fields: dict[str, str]) -> None:
        if "life" in fields and "exec" not in fields:
            self.life = int(fields["life"])
        elif "exec" in fields:
            self.entries[fields["exec"]] = Entry(line)
        elif "leaders" in fields:
            self.entries[fields["leaders"]].leaders = line
        elif "on_end" in fields:
            self.entries[fields["on_end"]].on_end = line
        elif "end" in fields:
            self.entries[fields["end"]].end = line
        elif "forget" in fields:
            del self.entries[fields["forget"]]


def sync_folder(path: str) -> None:
    """Sync a folder, so that the names in it survive a power failure."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _line(fields: dict[str, object]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"
