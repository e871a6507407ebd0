"""Lines that are not data, on stderr: notes, errors and their hints."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from launch.screen.visible import visible


def tell(message: str, hint: str = "") -> None:
    """Print an error and its hint to stderr, folded on a terminal unless it has a command."""
    print(_folded(f"error: {visible(in_one_line(message))}"), file=sys.stderr)
    if hint:
        shown = f"hint: {visible(in_one_line(hint))}"
        print(shown if _is_copied(shown) else _folded(shown), file=sys.stderr)


def note(message: str, *, is_prose: bool | None = None) -> None:
    """
    Print a line that is not data to stderr, with control characters escaped.

    On a terminal, prose is folded between words. A line with a command stays whole, to be copied,
    unless `is_prose` is set.
    """
    shown = visible(message)
    if is_prose is None:
        is_prose = not _is_copied(shown)
    print(_folded(shown) if is_prose else shown, file=sys.stderr, flush=True)


_MOST_WINDOWS = 3


def note_maintenance(windows: Sequence[object]) -> None:
    """Tell the first of these maintenance windows, and how many more there are."""
    for window in windows[:_MOST_WINDOWS]:
        note(f"maintenance closes {window}")
    more = len(windows) - _MOST_WINDOWS
    if more > 0:
        note(f"{more} more of maintenance later: bastion quota show lists all")


def note_remedy(reason: str) -> None:
    """Note what to do about `reason`, why a job failed, unless that is up to its program."""
    if "ModuleNotFoundError: No module named" in reason:
        note(
            "hint: packages come from --python_env=FILE, a lock file in the code such as"
            " requirements.txt; modules below src/ need --env=PYTHONPATH=src",
            is_prose=True,
        )


def _is_copied(shown: str) -> bool:
    """Whether a line has a command, which must stay on one line."""
    return "bastion " in shown or shown.startswith(" ")


def _folded(shown: str) -> str:
    if not sys.stderr.isatty():
        return shown
    from launch.screen.folded import fitted

    return fitted(shown)


def in_one_line(text: str) -> str:
    """Return `text` with every run of white space as one space."""
    return " ".join(text.split())
