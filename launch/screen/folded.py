"""Text that is longer than a line, folded between words."""

from __future__ import annotations

from quota.pattern import pattern

_COLOR = pattern(r"\x1b\[[0-9;]*m")


def folded(text: str, width: int, *, indent: int = 0, first: int | None = None) -> str:
    """
    Fold `text` between words; a path longer than a line stays whole, so that it can be copied.

    Args:
        text: One line; colors in it take no space.
        width: The width of a line, including its indent.
        indent: The indent of each line.
        first: The indent of the first line, if it differs.
    """
    at = indent if first is None else first
    lines, line, used = [], " " * at, at
    for number, word in enumerate(text.split(" ")):
        size = len(_COLOR.sub("", word))
        if number and used + 1 + size > width and line.strip():
            lines.append(line.rstrip())
            line, used = " " * indent + word, indent + size
        else:
            space = " " if number else ""
            line, used = line + space + word, used + len(space) + size
    return "\n".join([*lines, line.rstrip()])


def fitted(text: str, *, indent: int = 2) -> str:
    """Return `text` folded where it is wider than the terminal."""
    import shutil

    return folded(text, shutil.get_terminal_size().columns, indent=indent, first=0)
