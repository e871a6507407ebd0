"""Files that a command names, and that exist here but not in the uploaded code."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from quota.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bastion.spec.launch import Launch
    from bundler.bundle.upload import Bundle

_BETWEEN = pattern(r"[\s=,;:'\"<>|&()\[\]{}]+")
"""Separates the words of a shell line, and a flag from its value."""
_SHOWN = 5


def missing_file_warnings(launch: Launch, bundled: Bundle) -> tuple[str, ...]:
    """Return a warning if commands of `launch` name files that were left out of its code."""
    names = sorted(name for name in set(_words(launch)) if _is_left_out(name, bundled))
    if not names:
        return ()
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return (
        f"a command names {', '.join(names[:_SHOWN])}{more}, left out of the code by .gitignore,"
        " .bastionignore or exclude; a line such as !NAME in .bastionignore keeps it",
    )


def _words(launch: Launch) -> Iterator[str]:
    for job in launch.jobs:
        for process in job.processes:
            for word in process.argv:
                yield from _BETWEEN.split(word)


def _is_left_out(name: str, bundled: Bundle) -> bool:
    """Whether `name` is a file below the top of the code, and not in the bundle."""
    path = os.path.normpath(name) if name else "."
    if path.startswith(("/", "..", "~")) or path in bundled.paths or "\0" in path:
        return False
    above = path.split("/")[:-1]
    folders = ("/".join(above[: depth + 1]) for depth in range(len(above)))
    # A link to a folder in the bundle leads to files that may be in it too.
    return (bundled.root / path).is_file() and not any(each in bundled.paths for each in folders)
