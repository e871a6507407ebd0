"""
Python environments that a machine keeps, and the removal of those that no host uses.

`bastion.agent.setup.python_env`, which builds them, draws their layout on the disk.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

LOCK = threading.Lock()
"""Held between finding an environment and linking it, and while old ones are deleted."""


def clean(cache: Path, *, before: float, links: Iterable[Path]) -> None:
    """Delete environments unused since `before` that none of `links` leads to."""
    used = {os.path.realpath(link) for link in links}
    gone = []
    with LOCK, suppress(FileNotFoundError):
        for folder in [path for path in (cache / "python").iterdir() if path.is_dir()]:
            whole = folder / "whole"
            at = (whole if whole.exists() else folder).stat().st_mtime
            is_used = any(os.path.realpath(path) in used for path in folder.glob("try-*"))
            if at < before and not is_used:
                # A renamed environment can no longer be found; the rest of it after a kill is
                # deleted next time.
                gone.append(folder.rename(folder.with_name(f".gone-{folder.name}")))
    for path in gone:
        delete(path)


def delete(path: Path) -> None:
    """Delete a tree that may be read-only; what cannot be deleted now is retried later."""
    for folder, _, _ in os.walk(path):
        with suppress(OSError):
            Path(folder).chmod(0o700)
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
