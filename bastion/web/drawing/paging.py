"""A part of a long table, and the addresses of the others; tabs above it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Generic, TypeVar
from urllib.parse import urlencode

from bastion.value import value

_T = TypeVar("_T")
_Other = TypeVar("_Other")

ROWS = 50
MOST_PAGES = 10_000
_DIGITS = 9


@value
class Part(Generic[_T]):
    """Some rows of a longer table."""

    rows: tuple[_T, ...]
    number: int
    """Counted from 1."""
    total: int
    path: str
    query: Mapping[str, str]
    size: int = ROWS
    """The rows of each part but the last."""

    def showing(self, rows: tuple[_Other, ...]) -> Part[_Other]:
        """Return the same part with `rows` derived from its rows."""
        return Part(
            rows=rows,
            number=self.number,
            total=self.total,
            path=self.path,
            query=self.query,
            size=self.size,
        )

    @property
    def first(self) -> int:
        """The number of its first row, counted from 1; 0 if there is none."""
        return (self.number - 1) * self.size + 1 if self.rows else 0

    @property
    def last(self) -> int:
        """The number of its last row."""
        return (self.number - 1) * self.size + len(self.rows)

    @property
    def before(self) -> str:
        """The address of the part before it; empty if there is none."""
        return self._address(self.number - 1) if self.number > 1 else ""

    @property
    def after(self) -> str:
        """The address of the part after it; empty if there is none."""
        return self._address(self.number + 1) if self.last < self.total else ""

    def _address(self, number: int) -> str:
        given = {name: text for name, text in self.query.items() if text}
        return f"{self.path}?{urlencode(given | {'page': str(number)})}"


@value
class Tab:
    """One kind of rows that match the filters."""

    name: str
    address: str
    count: int
    is_shown: bool


def tabs_of(
    names: Mapping[str, str],
    counts: Mapping[str, int],
    show: str,
    *,
    path: str,
    query: Mapping[str, str],
    anchor: str = "",
) -> tuple[Tab, ...]:
    """Return the tabs of a table: `names` by what `show` is in their address, empty for all."""

    def address(key: str) -> str:
        asked = {name: text for name, text in {**query, "show": key}.items() if text}
        return f"{path}{'?' if asked else ''}{urlencode(asked)}{anchor}"

    return tuple(
        Tab(name=name, address=address(key), count=counts[key], is_shown=key == show)
        for key, name in names.items()
    )


def part_of(
    rows: Iterable[_T], number: int, *, path: str, query: Mapping[str, str], size: int = ROWS
) -> Part[_T]:
    """Return the `number`-th part of `rows`; the last one if there are fewer."""
    every = list(rows)
    last = max(1, -(-len(every) // size))
    number = min(max(1, number), last)
    shown = tuple(islice(every, (number - 1) * size, number * size))
    return Part(rows=shown, number=number, total=len(every), path=path, query=query, size=size)


def page_number(text: str) -> int:
    """Return the number of a part from an address; 1 for anything else."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= _DIGITS
    return min(int(text), MOST_PAGES) if is_number else 1
