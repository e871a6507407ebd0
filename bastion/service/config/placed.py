"""Problems of a TOML file, each with the line that it is about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from quota.lines import Lines


def placed(file: str, text: str, problems: Iterable[str]) -> tuple[str, ...]:
    """
    Return `problems` in the order of the file's lines, each with the one that it is about.

    A problem is `PATH: what is wrong`, keys and indices joined by dots. It stands on the line of
    its path, or of the nearest table around it. One of no path in the text is of the whole file.

    Args:
        file: What it is called.
        text: Valid TOML.
        problems: Without the name of the file.
    """
    lines = {".".join(map(str, path)): line for path, line in Lines(text).items()}
    found = [(_line(problem, lines), problem) for problem in problems]
    found.sort(key=lambda each: each[0])
    return tuple(
        f"{file}: line {line}: {problem}" if line else f"{file}: {problem}"
        for line, problem in found
    )


def _line(problem: str, lines: dict[str, int]) -> int:
    """The line of the longest beginning of the problem's path that the text has; 0 for none."""
    return next((lines[path] for path in _beginnings(problem) if path in lines), 0)


def _beginnings(problem: str) -> Iterator[str]:
    path = problem.partition(": ")[0]
    while path:
        yield path
        path = path.rpartition(".")[0]
