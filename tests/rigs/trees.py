"""Trees on disk: written from a mapping, and read back as one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def write(top: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write `files` below `top`: a name ending in `/` is an empty folder."""
    top.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = top / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return top


def write_deep(top: Path, depth: int = 1_500) -> Path:
    """Create nested folders, deeper than Python's stack; `top` must not exist."""
    top.mkdir(parents=True)
    folder = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", 0o700, dir_fd=folder)
        below = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)
    return top


def read(top: Path) -> dict[str, tuple[str, bytes]]:
    """Return everything below `top`: kind or mode, and content or link target, by path."""
    found: dict[str, tuple[str, bytes]] = {}
    for folder, folders, names in os.walk(top):
        for name in [*folders, *names]:
            path = Path(folder) / name
            key = str(path.relative_to(top))
            if path.is_symlink():
                found[key] = ("link", os.fsencode(os.readlink(path)))  # noqa: PTH115  (as written)
            elif path.is_dir():
                found[key] = ("dir", b"")
            else:
                executable = bool(path.stat().st_mode & 0o100)
                found[key] = ("executable" if executable else "file", path.read_bytes())
    return found
