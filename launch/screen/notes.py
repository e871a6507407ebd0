"""Lines that are not data, on stderr: notes, errors and their hints."""

from __future__ import annotations

import sys

from launch.screen.folded import fitted
from launch.screen.visible import visible


def tell(message: str, hint: str = "") -> None:
    """Print an error line to stderr, with its hint."""
    print(f"error: {visible(in_one_line(message))}", file=sys.stderr)
    if hint:
        print(f"hint: {visible(in_one_line(hint))}", file=sys.stderr)


def note(message: str, *, is_prose: bool = False) -> None:
    """
    Print a line that is not data to stderr; control characters in it are shown.

    Prose is folded between words on a terminal; other lines have commands and paths to copy.
    """
    shown = visible(message)
    print(fitted(shown, sys.stderr) if is_prose else shown, file=sys.stderr, flush=True)


def in_one_line(text: str) -> str:
    """Return `text` with every run of white space as one space."""
    return " ".join(text.split())
