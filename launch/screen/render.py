"""
Output formats: tables for people, JSON for programs, ids for pipes.

Only data goes to stdout. On a terminal, rich draws tables of up to 200 rows; anything else is
printed as plain columns, so that listing ten thousand jobs is fast. Color never carries information
that is not in the text.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from math import isfinite
from os import PathLike
from typing import Any, Generic, TypeVar

from bastion.value import fields, has_fields, value
from launch.screen.visible import all_visible, visible

_T = TypeVar("_T")

RICH_ROWS = 200

STATE_COLORS = {
    "queued": "yellow",
    "held": "yellow",
    "starting": "magenta",
    "running": "blue",
    "stopping": "orange",
    "draining": "blue",
    "succeeded": "green",
    "failed": "red",
    "timed_out": "red",
    "out_of_memory": "red",
    "setup_failed": "red",
    "lost": "red",
    "unreadable": "red",
    "cancelled": "grey",
    "preempted": "orange",
}
_CODES = {
    "yellow": "33",
    "magenta": "35",
    "blue": "34",
    "green": "32",
    "red": "31",
    "grey": "90",
    "orange": "38;5;208",
    "bold": "1",
    "dim": "2",
}
"""SGR parameters. Source: ECMA-48; 208 is orange in xterm's 256 colors."""


_CLIP_CHARACTERS = 80
"""The width of the last column of a table, so that a row fits most windows."""


@value
class Column(Generic[_T]):
    """One column of a table."""

    title: str
    text: Callable[[_T], str]
    wide: bool = False
    """Whether it is shown only with `-o wide`."""
    is_state: bool = False
    """Whether its words are colored."""
    full: Callable[[_T], str] | None = None
    """The whole text if `text` is cut, to print on its own line."""


@value
class Output:
    """How this command prints."""

    format: str = "table"
    """table, wide, json or name."""
    colored: bool = False
    terminal: bool = False
    date: Callable[[], float] = float
    """The current time, for relative times."""

    @property
    def now(self) -> float:
        """The current time, in seconds since 1970."""
        return self.date()

    @property
    def is_quiet(self) -> bool:
        """Whether only data is printed."""
        return self.format in ("name", "json")

    def show(
        self,
        kind: str,
        items: Sequence[_T],
        columns: Sequence[Column[_T]],
        *,
        name: Callable[[_T], str],
        more: Mapping[str, object] | None = None,
    ) -> None:
        """
        Print a list of values.

        Args:
            kind: The name of the list in JSON.
            items: The values.
            columns: The columns of the table.
            name: Returns the id of a value, for `-q`.
            more: Further fields of the JSON object.
        """
        match self.format:
            case "json":
                self.json({**(more or {}), kind: [plain(item) for item in items]})
            case "name":
                write_lines([name(item) for item in items])
            case _:
                shown = [each for each in columns if self.format == "wide" or not each.wide]
                self._table(items, shown)

    def json(self, content: Mapping[str, object]) -> None:
        """
        Print one JSON object, with the number of its schema.

        A number that JSON cannot express is null, which every parser reads.
        """
        import json

        whole, indent = {"schema": 1, **content}, 2 if self.terminal else None
        try:
            text = json.dumps(whole, indent=indent, allow_nan=False)
        except ValueError:
            text = json.dumps(finite(whole), indent=indent, allow_nan=False)
        write_lines([text])

    def fields(self, pairs: Iterable[tuple[str, str]]) -> None:
        """
        Print the fields of one thing, one per line, without empty ones.

        A reason wider than the terminal is folded. Commands and paths stay whole, to be copied.
        """
        shown = [(name, visible(text)) for name, text in pairs if text]
        width = max((len(name) for name, _ in shown), default=0)
        for name, text in shown:
            line = f"{self.paint(f'{name:<{width}}', 'dim')}  {text}"
            write_lines(self.prose(line, indent=width + 2) if name == "why" else [line])

    def prose(self, text: str, *, indent: int = 2) -> list[str]:
        """Return the lines of a sentence: one, or as many as it needs on a terminal."""
        if not sys.stdout.isatty():
            return [visible(text)]
        from launch.screen.folded import fitted

        return fitted(visible(text), indent=indent).split("\n")

    def paint(self, text: str, color: str) -> str:
        """Return `text` in a color, if colors are on."""
        return f"\x1b[{_CODES[color]}m{text}\x1b[0m" if self.colored and color else text

    def state(self, word: str, shown: str = "") -> str:
        """Return a job's state, or the words `shown` for it, in its color."""
        return self.paint(shown or word, STATE_COLORS.get(word.strip(), ""))

    def time(self, seconds: float | None) -> str:
        """Return a moment: relative on a terminal, ISO 8601 elsewhere; `-` for none."""
        if not seconds:
            return "-"
        return f"{span(self.now - seconds)} ago" if self.terminal else iso(seconds)

    def moment(self, seconds: float | None) -> str:
        """Return a past moment: local time and age on a terminal, ISO 8601 elsewhere."""
        if not seconds:
            return "-"
        if not self.terminal:
            return iso(seconds)
        return f"{local(seconds)} ({span(self.now - seconds)} ago)"

    def _table(self, items: Sequence[_T], columns: Sequence[Column[_T]]) -> None:
        if not self.terminal or not 0 < len(items) <= RICH_ROWS:
            write_lines(list(self._plain(items, columns)))
            return
        import shutil

        width = shutil.get_terminal_size().columns
        if _needed(items, columns) <= width:
            self._rich(items, columns)
        else:
            write_lines(self._narrow(items, columns, width))

    def _narrow(
        self, items: Sequence[_T], columns: Sequence[Column[_T]], width: int
    ) -> Iterator[str]:
        """
        Print a table on a terminal that is too narrow for it, without cutting or folding names.

        Columns whose cells are all equal are removed, the state last, until the rest fits; one line
        at the end lists them. If the rest does not fit, the last columns get their own lines, but a
        reason stays in its row if it fits there. A single row is printed as a list of its cells.
        """
        if len(items) == 1:
            yield from self._cells(items[0], columns, width)
            return
        kept = list(columns)
        for column in sorted(columns[1:], key=lambda each: each.is_state):
            if _needed(items, kept) <= width:
                break
            if len({column.text(item) for item in items}) == 1:
                kept.remove(column)
        if _needed(items, kept) <= width:
            yield from self._plain(items, kept)
        else:
            yield from self._unfit(items, columns, kept, width)
        gone = [column for column in columns if column not in kept]
        told = [(each.title.lower(), visible((each.full or each.text)(items[0]))) for each in gone]
        cells = [f"{name} {text}" for name, text in told if text not in ("", "-")]
        if cells:
            from launch.screen.folded import folded

            yield folded(f"in every row: {', '.join(cells)}", width - 1)

    def _unfit(
        self,
        items: Sequence[_T],
        columns: Sequence[Column[_T]],
        kept: Sequence[Column[_T]],
        width: int,
    ) -> Iterator[str]:
        """Print rows whose last columns are on their own lines."""
        from launch.screen.folded import folded

        *short, last = kept if kept[-1] is columns[-1] else [*kept, columns[-1]]
        moved: list[Column[_T]] = []
        while len(short) > 1 and _needed(items, short) > width:
            moved.insert(0, short.pop())
        is_prose = last.full is not None or any(" " in last.text(item) for item in items)
        label = "" if is_prose else f"{last.title.lower()} "
        room = width - _needed(items, short) - 2 if is_prose and not moved else 0
        texts = [visible((last.full or last.text)(item)) for item in items]
        beside = [text if len(text) <= room else "" for text in texts]
        rows = self._plain(items, short, beside=beside, title=last.title if any(beside) else "")
        yield next(rows)
        for row, item, text, has_room in zip(rows, items, texts, beside, strict=True):
            yield row
            cells = [(f"{each.title.lower()} ", visible(each.text(item))) for each in moved]
            cells += [] if has_room else [(label, text)]
            if told := "; ".join(f"{a}{b}" for a, b in cells if b not in ("", "-")):
                yield folded(told, width - 1, indent=4)

    def _cells(self, item: _T, columns: Sequence[Column[_T]], width: int) -> Iterator[str]:
        """Print one row as a list: one or more lines for each of its cells."""
        from launch.screen.folded import folded

        pairs = ((column.title.lower(), (column.full or column.text)(item)) for column in columns)
        shown = [(name, visible(text)) for name, text in pairs if text]
        most = max(len(name) for name, _ in shown)
        for name, text in shown:
            told = folded(text, max(20 + most + 2, width - 1), indent=most + 2).lstrip()
            yield f"{self.paint(f'{name:<{most}}', 'dim')}  {told}"

    def _plain(
        self,
        items: Sequence[_T],
        columns: Sequence[Column[_T]],
        *,
        beside: Sequence[str] = (),
        title: str = "",
    ) -> Iterator[str]:
        """Print the headings, then the rows, with the text `beside` each row under `title`."""
        texts = (all_visible([column.text(item) for item in items]) for column in columns)
        # A row is one line, even if the reason of a cordon has several.
        cells = [[text.replace("\n", " ") or "-" for text in column] for column in texts]
        widths = [max(map(len, (c.title, *cell))) for c, cell in zip(columns, cells, strict=True)]
        heads = [f"{c.title:<{width}}" for c, width in zip(columns, widths, strict=True)]
        yield self.paint("  ".join([*heads, title]).rstrip(), "bold")
        for at, (column, width) in enumerate(zip(columns, widths, strict=True)):
            if column.is_state and self.colored:
                cells[at] = [self.state(f"{text:<{width}}") for text in cells[at]]
        line = "  ".join([f"{{:<{width}}}" for width in widths] + ["{}"] * bool(beside))
        for row in zip(*cells, *([beside] if beside else []), strict=True):
            yield line.format(*row).rstrip()

    def _rich(self, items: Sequence[_T], columns: Sequence[Column[_T]]) -> None:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, header_style="bold" if self.colored else "")
        for column in columns:
            table.add_column(Text(visible(column.title)), overflow="fold")
        for item in items:
            table.add_row(
                *(
                    Text.from_ansi(self.state(visible(column.text(item))))
                    if column.is_state
                    else Text(visible(column.text(item)) or "-")
                    for column in columns
                )
            )
        Console(no_color=not self.colored, highlight=False).print(table)


def _needed(items: Sequence[_T], columns: Sequence[Column[_T]]) -> int:
    """Return the width of the table without folding."""
    widest = (max(len(c.title), *(len(visible(c.text(item))) for item in items)) for c in columns)
    return sum(widest) + 2 * (len(columns) - 1)


def write_lines(lines: Iterable[str]) -> None:
    """Print data, with control characters escaped."""
    shown = all_visible(lines) if isinstance(lines, list) else map(visible, lines)
    sys.stdout.writelines(f"{line}\n" for line in shown)
    sys.stdout.flush()


def plain(item: Any, *, name: str = "", has_our_keys: bool = False) -> Any:
    """
    Return `item` as JSON values: amounts as objects, moments as ISO 8601.

    A field is a moment by its name. A key of a mapping is one only in a reason, whose keys are
    ours. Other keys are a user's, as in the numbers that a job reports.
    """
    if item is None or isinstance(item, (str, bool, int)):
        return item
    if isinstance(item, float):
        return iso(item) if _is_moment(name) else item
    if isinstance(item, PathLike):
        return str(item)
    if hasattr(item, "__float__"):  # a decimal number from the record
        return float(item)
    kind: Any = type(item)
    names = _field_names(kind)
    if names:
        return {each: plain(getattr(item, each), name=each) for each in names}
    if hasattr(item, "items"):
        ours = has_our_keys or name == "reason"
        return {
            key: plain(each, name=key if ours else "", has_our_keys=ours)
            for key, each in item.items()
        }
    return [plain(each, has_our_keys=has_our_keys) for each in item]


def finite(item: Any) -> Any:
    """Return `item` with null in place of each number that is not finite."""
    if isinstance(item, dict):
        return {key: finite(each) for key, each in item.items()}
    if isinstance(item, list | tuple):
        return [finite(each) for each in item]
    return None if isinstance(item, float) and not isfinite(item) else item


@cache
def _field_names(kind: Any) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind)) if has_fields(kind) else ()


@cache
def _is_moment(name: str) -> bool:
    return name in ("at", "as_of") or name.endswith(("_at", "since"))


def clip(text: str) -> str:
    """Return `text` cut to the width of a column; `-o wide` shows all of it."""
    return text if len(text) <= _CLIP_CHARACTERS else f"{text[: _CLIP_CHARACTERS - 1]}…"


def counted(number: int, noun: str) -> str:
    """Return `1 job`, `2 jobs`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def iso(seconds: float) -> str:
    """Return a moment as ISO 8601 in UTC, in whole milliseconds."""
    from datetime import UTC, datetime

    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def local(seconds: float) -> str:
    """Return a moment in the local time of this machine, in whole seconds."""
    from datetime import datetime

    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def span(seconds: float) -> str:
    """Return a readable duration; a negative one is 0."""
    from bastion.spec.values.quantity import text_of_seconds

    return text_of_seconds(max(0.0, seconds))


def amounts(units: Any) -> str:
    """Return readable amounts: devices first, memory in its own units, empty for none."""
    return _amounts(units.items())


@cache
def _amounts(items: tuple[tuple[str, int], ...]) -> str:
    from bastion.spec.values.quantity import text_of_units

    return text_of_units(items)
