"""
The line of every key and list element in a TOML text.

The standard parser reports no positions, so the text is read a second time for them alone. That
parser must already have accepted it: nothing is checked here, and a path unknown to this scan gets
the line of its nearest ancestor.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from quota.pattern import pattern

Path = tuple[str | int, ...]
"""Keys and list indices from the top of the file down; empty for the file itself."""

_TOKEN = pattern(
    r"""
      (?P<text> \"{3} (?:\\.|[^\\])*? \"{3,5} | '{3} .*? '{3,5} | "(?:\\.|[^"\\])*" | '[^']*' )
    | (?P<comment> \#[^\n]* )
    | (?P<newline> \n )
    | (?P<mark> [\[\]{},=.] )
    | (?P<word> [^\s\[\]{},=."'\#]+ )
    """,
    re.VERBOSE | re.DOTALL,
)
"""Source: the grammar of TOML 1.0.0 (toml.io), reduced to what separates keys from values."""


class Lines(Mapping[Path, int]):
    """
    The line, from 1, of every table, key and list element of a text.

    The text is scanned on the first request for a line: for a valid file there is none.

    Args:
        text: Valid TOML.
    """

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def _found(self) -> dict[Path, int]:
        try:
            return _Scan(self._text).statements()
        except RecursionError:  # nested almost too deep for TOML's own parser: no line
            return {}

    def __getitem__(self, path: Path) -> int:
        return self._found[path]

    def __iter__(self) -> Iterator[Path]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


def line_of(lines: Mapping[Path, int], path: Path) -> int:
    """Return the line of `path`, or of its nearest ancestor that is written, or 1."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


def shown(path: Path) -> str:
    """Return `path` as people write it: `total_resources[1].v4`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            bare = re.fullmatch(r"[A-Za-z0-9_-]+", part)
            text += ("." if text else "") + (part if bare else repr(part))
    return text


def placed(file: str, text: str, problems: Iterable[str]) -> tuple[str, ...]:
    """
    Return `problems` in the order of the file's lines, each with its line.

    A problem is `PATH: what is wrong`, keys and indices joined by dots. Its line is that of its
    path, or of the nearest table around it. A problem without a path in the text concerns the whole
    file.

    Args:
        file: The name of the file.
        text: Valid TOML.
        problems: Without the name of the file.
    """
    lines = {".".join(map(str, path)): line for path, line in Lines(text).items()}
    found = [(_line_told(problem, lines), problem) for problem in problems]
    found.sort(key=lambda each: each[0])
    return tuple(
        f"{file}: line {line}: {problem}" if line else f"{file}: {problem}"
        for line, problem in found
    )


def _line_told(problem: str, lines: dict[str, int]) -> int:
    """Return the line of the longest prefix of the problem's path in the text; 0 for none."""
    return next((lines[path] for path in _beginnings(problem) if path in lines), 0)


def _beginnings(problem: str) -> Iterator[str]:
    path = problem.partition(": ")[0]
    while path:
        yield path
        path = path.rpartition(".")[0]


class _Scan:
    """One pass over the tokens; only the position in the text changes."""

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str, int]] = []
        self._place = 0
        self._lines: dict[Path, int] = {}
        self._tables: dict[Path, int] = {}
        line = 1
        for found in _TOKEN.finditer(text):
            kind = str(found.lastgroup)
            if kind != "comment":
                self._tokens.append((kind, found.group(), line))
            line += found.group().count("\n")
        self._tokens.append(("end", "", line))

    def statements(self) -> dict[Path, int]:
        """Read to the end."""
        table: Path = ()
        while self._after_newlines():
            if self._peek() == "[":
                table = self._header()
            else:
                self._pair(table)
        return self._lines

    def _header(self) -> Path:
        """Read `[a.b]` or `[[a.b]]`: the table of the pairs below it."""
        line = self._tokens[self._place][2]
        self._take()
        listed = self._peek() == "["
        if listed:
            self._take()
        keys = self._key()
        for _ in range(1 + listed):
            self._take()
        path: Path = ()
        for key in keys[:-1]:
            self._lines.setdefault((*path, key), line)
            path = self._last_of((*path, key))
        path = (*path, keys[-1])
        if listed:
            self._tables[path] = self._tables.get(path, -1) + 1
        self._lines.setdefault(path, line)
        path = self._last_of(path)
        self._lines.setdefault(path, line)
        return path

    def _last_of(self, path: Path) -> Path:
        return (*path, self._tables[path]) if path in self._tables else path

    def _pair(self, table: Path) -> None:
        """Read `a.b = value`."""
        line = self._tokens[self._place][2]
        path = table
        for key in self._key():
            path = (*path, key)
            self._lines.setdefault(path, line)
        self._take()
        self._value(path)

    def _key(self) -> list[str]:
        """Read the parts of a dotted key; stop at the first mark that is not part of it."""
        keys = []
        while True:
            kind, word, _ = self._take()
            keys.append(word if kind == "word" else str(tomllib.loads(f"k = {word}")["k"]))
            if self._peek() != ".":
                return keys
            self._take()

    def _value(self, path: Path) -> None:
        match self._peek():
            case "[":
                self._list(path)
            case "{":
                self._inline_table(path)
            case _:
                while self._tokens[self._place][0] in ("text", "word") or self._peek() == ".":
                    self._take()

    def _list(self, path: Path) -> None:
        self._take()
        index = 0
        while self._after_newlines() != "]":
            if self._peek() == ",":
                self._take()
                continue
            self._lines[*path, index] = self._tokens[self._place][2]
            self._value((*path, index))
            index += 1
        self._take()

    def _inline_table(self, path: Path) -> None:
        self._take()
        while self._peek() != "}":
            if self._peek() == ",":
                self._take()
            else:
                self._pair(path)
        self._take()

    def _peek(self) -> str:
        return self._tokens[self._place][1]

    def _take(self) -> tuple[str, str, int]:
        self._place += 1
        return self._tokens[self._place - 1]

    def _after_newlines(self) -> str:
        """Skip line ends; return the token there, or nothing after the last one."""
        while self._tokens[self._place][0] == "newline":
            self._place += 1
        return self._peek()
