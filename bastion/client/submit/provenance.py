"""The origin of a launch, as far as its submitter's machine knows it; `records.requests.origin`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from bastion.client.patience import warn
from bastion.client.submit.open_secrets import without_secrets
from bastion.records.requests.origin import (
    MAX_TEXT_BYTES,
    Origin,
    OriginFile,
    WorkingTree,
    origin_argv,
    origin_file,
    origin_paths,
)
from bastion.spec.launch import Launch
from bastion.value import replace

if TYPE_CHECKING:
    from pathlib import Path

    from bundler.bundle.upload import Bundle

_CELLS = "_ih"
"""The name in `__main__` that has every IPython cell. Source: IPython, `HistoryManager`."""


def origin_of(known: Origin | None, launch: Launch | str | Path, bundled: Bundle | None) -> Origin:
    """
    Return the origin of a launch.

    Args:
        known: What the caller knows of it; None: this process.
        launch: A launch, or the file that one was read from, which is stored with it.
        bundled: The folder that was uploaded as its code, if any.
    """
    found = known or of_this_process()
    files = () if isinstance(launch, Launch) else files_at(launch)
    tree = tree_of(bundled) or found.tree
    return replace(found, files=(*found.files, *files), tree=tree)


def of_this_process() -> Origin:
    """
    Return this process's command line, and its script or the notebook cells that ran so far.

    Secrets in the command line are left out.
    """
    main = sys.modules.get("__main__")
    cells = getattr(main, _CELLS, None)
    if isinstance(cells, list) and any(cells):
        files: tuple[OriginFile, ...] = (_notebook([str(cell) for cell in cells]),)
    else:
        files = files_at(getattr(main, "__file__", None) or "")
    return Origin(argv=origin_argv(without_secrets(sys.orig_argv)), files=files)


def _notebook(cells: list[str]) -> OriginFile:
    """Return the cells in the order in which they ran; if there are too many, the last ones."""
    kept: list[str] = []
    left = MAX_TEXT_BYTES
    for number in range(len(cells) - 1, 0, -1):  # cell 0 is empty
        text = f"# In [{number}]:\n{cells[number].rstrip()}\n"
        left -= len(text.encode(errors="replace")) + 1
        if left < 0 and kept:
            break
        kept.append(text)
    made = origin_file("notebook", "\n".join(reversed(kept)))
    return replace(made, is_cut=made.is_cut or len(kept) < len(cells) - 1)


def files_at(*paths: str | Path) -> tuple[OriginFile, ...]:
    """Return the records of those `paths` that can be read as text."""
    return tuple(found for path in paths if path and (found := _file_at(os.fspath(path))))


def tree_of(bundled: Bundle | None) -> WorkingTree | None:
    """Return how the bundled tree differed from its commit; None if git cannot tell."""
    if bundled is None:
        return None
    from bundler.errors import BundleError
    from bundler.repository.git import dirty_diff

    try:
        found = dirty_diff(bundled.root, told=bundled.paths)
    except BundleError as error:  # the record is for people and never stops a launch
        advice = f"; {error.hint}" if error.hint else ""
        warn(f"warning: the commit of the code is not recorded: {error.message}{advice}")
        return None
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


def _file_at(path: str) -> OriginFile | None:
    try:
        with open(path, errors="replace") as file:
            return origin_file(os.path.basename(path), file.read())
    except OSError:
        return None
