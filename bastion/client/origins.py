"""Where a launch comes from, as its submitter's machine can tell: see `bastion.records.origin`."""

from __future__ import annotations

import sys
from pathlib import Path

from bastion.records.origin import (
    Origin,
    OriginFile,
    WorkingTree,
    origin_argv,
    origin_file,
    origin_paths,
)
from bundler.errors import BundleError
from bundler.upload import Bundle


def of_this_process() -> Origin:
    """The command line of this process, and its script where it runs one."""
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    return Origin(argv=origin_argv(tuple(sys.orig_argv)), files=files_at(script or ""))


def files_at(*paths: str | Path) -> tuple[OriginFile, ...]:
    """The records of those of `paths` that can be read as text."""
    return tuple(found for path in paths if path and (found := _file_at(Path(path))))


def tree_of(bundled: Bundle | None) -> WorkingTree | None:
    """How the tree that was bundled differed from its commit; None where git cannot tell."""
    from bundler.git import dirty_diff

    if bundled is None:
        return None
    try:
        found = dirty_diff(bundled.root, told=bundled.paths)
    except BundleError:
        return None  # the record is for people, and no reason not to run
    if found is None:
        return None
    return WorkingTree(
        commit=found.commit,
        branch=found.branch,
        url=found.url,
        diff=found.diff,
        diff_is_cut=found.diff_is_cut,
        changed=origin_paths(found.changed),
        left_out=origin_paths(found.left_out),
        untracked=origin_paths(found.untracked),
    )


def _file_at(path: Path) -> OriginFile | None:
    try:
        return origin_file(path.name, path.read_text(errors="replace"))
    except OSError:
        return None
