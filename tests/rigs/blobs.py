"""Two stores for the tests: one in memory that counts calls, one in a shared folder."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


class MemoryBlobs:
    """A store that records its calls."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.created: list[str] = []

    def read(self, key: str) -> bytes | None:
        """Return the object at `key`."""
        return self.objects.get(key)

    def create(self, key: str, data: bytes) -> bool:
        """Store `data` unless there is an object."""
        if self.objects.setdefault(key, data) is not data:
            return False
        self.created.append(key)
        return True

    def exists(self, key: str) -> bool:
        """Whether there is an object."""
        return key in self.objects


class FolderBlobs:
    """A store in a folder that several processes can use."""

    def __init__(self, top: Path) -> None:
        self._top = top

    def read(self, key: str) -> bytes | None:
        """Return the object at `key`."""
        try:
            return (self._top / key).read_bytes()
        except FileNotFoundError:
            return None

    def create(self, key: str, data: bytes) -> bool:
        """Store `data` unless there is an object."""
        path = self._top / key
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=self._top)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        try:
            path.hardlink_to(temporary)
        except FileExistsError:
            return False
        finally:
            Path(temporary).unlink()
        return True

    def exists(self, key: str) -> bool:
        """Whether there is an object."""
        return (self._top / key).exists()
