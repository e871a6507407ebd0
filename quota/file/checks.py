"""
Typed values from a parsed file; every error is recorded instead of raised.

A check that fails notes a problem and returns a stand-in that causes no second problem, so each
mistake is reported once and all mistakes are reported together.

This module must not know what the quota file is about: `quota.file.config` has the keys and their
limits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import TypeVar

from quota.choice import choose
from quota.file.duration import seconds_in
from quota.file.errors import Problem, QuotaError
from quota.lines import Path, line_of, shown
from quota.tree import People

_Word = TypeVar("_Word", bound=str)
_Node = Mapping[str, object]

MOST_SECONDS = 10**9
"""Thirty years, which stand for never."""

_NEAREST = 20
"""The most wrong words per file for which the nearest is searched: a thousand take a minute."""

_PLACES = 50
"""Digits of a number, on either side of the point: adding `0e999999999` exactly takes an hour."""


class Checks:
    """
    The errors of one file.

    Args:
        lines: The position of everything, a `quota.lines.Lines`.
    """

    def __init__(self, lines: Mapping[Path, int]) -> None:
        self._lines = lines
        self._problems: list[Problem] = []
        self._choices = 0

    def note(self, path: Path, text: str) -> None:
        """Note that the value at `path` is wrong; control characters are escaped."""
        text = text if text.isprintable() else repr(text)[1:-1]
        self._problems.append(Problem(line=line_of(self._lines, path), path=shown(path), text=text))

    @property
    def count(self) -> int:
        """Return how many errors were noted so far."""
        return len(self._problems)

    def finish(self) -> None:
        """
        Raise what was noted, in the order of the file.

        Raises:
            QuotaError: Anything was noted.
        """
        if self._problems:
            raise QuotaError(*sorted(self._problems, key=lambda problem: problem.line))

    def _choose(self, word: str, allowed: Collection[str]) -> str:
        self._choices += 1
        return choose(word, allowed, nearest=self._choices <= _NEAREST)

    def table(self, value: object, path: Path) -> _Node:
        """Read `value` as a table; an absent one is an empty table."""
        if value is None or isinstance(value, dict):
            return value or {}
        self.note(path, f"{as_text(value)} is not a table")
        return {}

    def keys(self, table: _Node, path: Path, allowed: Sequence[str]) -> None:
        """Note every key of `table` that is not in `allowed`."""
        for key in table:
            if key not in allowed:
                self.note((*path, key), f"unknown key, {self._choose(key, allowed)}")

    def known(self, word: str, path: Path, allowed: Collection[str], text: str) -> None:
        """Note `text`, and the allowed words, unless `word` is one of `allowed`."""
        if word not in allowed:
            self.note(path, f"{text}, {self._choose(word, allowed)}")

    def word(
        self, table: _Node, path: Path, key: str, allowed: tuple[_Word, ...], default: _Word
    ) -> _Word:
        """Read one of `allowed`."""
        value = table.get(key, default)
        if value in allowed:
            return allowed[allowed.index(value)]
        written = value if isinstance(value, str) else ""
        self.note((*path, key), f"{as_text(value)} is unknown, {self._choose(written, allowed)}")
        return default

    def flag(self, table: _Node, path: Path, key: str, *, default: bool) -> bool:
        """Read `true` or `false`."""
        value = table.get(key, default)
        if isinstance(value, bool):
            return value
        self.note((*path, key), f"{as_text(value)} is not allowed, write true or false")
        return default

    def whole(self, value: object, path: Path, *, least: int, most: int) -> int:
        """Read a whole number from `least` to `most`."""
        if type(value) is int and least <= value <= most:
            return value
        self.note(
            path, f"{as_text(value)} is not allowed, write a whole number from {least} to {most}"
        )
        return least

    def fraction(self, value: object, path: Path) -> Decimal | None:
        """Read a fraction from 0 to 1, exactly as written; None if it is not one."""
        number = _decimal(value)
        if number is not None and 0 <= number <= 1:
            return number
        self.note(path, f"{as_text(value)} is not allowed, write a fraction from 0 to 1")
        return None

    def number(
        self, table: _Node, path: Path, key: str, default: float, *, most: int, above: bool = False
    ) -> float:
        """Read a number from 0 to `most`; with `above`, zero itself is not allowed."""
        if key not in table:
            return default
        number = _decimal(table[key])
        if number is not None and 0 <= number <= most and not (above and number == 0):
            return float(number)
        allowed = f"above 0 and at most {most}" if above else f"from 0 to {most}"
        said = as_text(table[key])
        self.note((*path, key), f"{said} is not allowed, write a number {allowed}")
        return default

    def duration(self, table: _Node, path: Path, key: str) -> float | None:
        """Read seconds above 0, written as a number or as text such as `8h`; None if absent."""
        if key not in table:
            return None
        value = table[key]
        found = seconds_in(value) if isinstance(value, str) else _decimal(value)
        if found is not None and 0 < found <= MOST_SECONDS:
            return float(found)
        self.note(
            (*path, key),
            f"{as_text(value)} is not allowed, write a duration above 0, such as 90m, 8h or 3d",
        )
        return None

    def words(self, value: object, path: Path, what: str) -> tuple[str, ...]:
        """Read a list of texts, none empty; `what` describes an element."""
        if not isinstance(value, list):
            self.note(path, f"{as_text(value)} is not a list, write a list of {what}")
            return ()
        for index, each in enumerate(value):
            if not isinstance(each, str) or not each:
                self.note((*path, index), f"{as_text(each)} is not allowed, write {what}")
        return tuple(each for each in value if isinstance(each, str) and each)

    def people(self, value: object, path: Path) -> People:
        """Read a list of names and regular expressions."""
        if not isinstance(value, list):
            self.note(path, f'{as_text(value)} is not a list of users, write ["user1", "user2"]')
            return People()
        return People(written=tuple(self._persons(value, path)))

    def _persons(self, values: list[object], path: Path) -> Iterable[str]:
        for index, value in enumerate(values):
            if not isinstance(value, str) or not value:
                self.note(
                    (*path, index), f"{as_text(value)} is not a user, write a name or a pattern"
                )
                continue
            try:
                People(written=(value,))
            except (re.error, OverflowError, RecursionError) as error:
                self.note((*path, index), no_pattern(value, error))
            else:
                yield value


def no_pattern(value: str, error: Exception) -> str:
    """Return why `value` names no users; for a shell pattern, how to write that."""
    meant = re.sub(r"(?<!\.)\*", ".*", value)
    with suppress(re.error, OverflowError, RecursionError):
        re.compile(meant)
        return f"{as_text(value)} is not a regular expression ({error}), write {as_text(meant)}"
    return (
        f"{as_text(value)} is not a regular expression ({error}), "
        "write a name or a pattern that matches a whole name"
    )


def as_text(value: object) -> str:
    """Return a value of the file on one line, cut if long."""
    match value:
        case dict():
            return "a table"
        case list():
            return "a list"
        case bool() | str():
            text = json.dumps(value, ensure_ascii=False)
        case _:
            text = str(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def _decimal(value: object) -> Decimal | None:
    """Return a finite number that can be added exactly in reasonable time, else None."""
    if type(value) is int:
        return Decimal(value)
    if not isinstance(value, Decimal) or not value.is_finite():
        return None
    exponent = value.as_tuple().exponent
    return value if isinstance(exponent, int) and abs(exponent) <= _PLACES else None
