"""Git on the machine where a submission is made."""

from __future__ import annotations

import os
from pathlib import Path

from bundler.command import run_git
from bundler.errors import BundleError

_LOCAL_S = 60.0


def tracked_although_ignored(root: Path) -> tuple[str, ...]:
    """Paths below `root` that git tracks although a `.gitignore` names them; none without git."""
    try:
        answer = run_git(
            ["ls-files", "-z", "--cached", "--ignored", "--exclude-per-directory=.gitignore"],
            folder=root,
            timeout_s=_LOCAL_S,
        )
    except BundleError:
        return ()
    if answer.code:
        return ()
    return tuple(os.fsdecode(path) for path in answer.out.split(b"\0") if path)
