"""
Reads and writes traces: CSV with a header, or JSON, as an array of objects or one object per line.

The published file of the Philly trace is read unchanged.

Every problem is reported with its line before anything is simulated; with `skip_bad`, the bad rows
are skipped, counted and kept in the workload.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from bastion.errors import SpecError
from bastion.simulator.workload.columns import BEYOND, COLUMNS, REQUIRED, column_of, job_of
from bastion.simulator.workload.job import TraceJob, Workload
from bastion.simulator.workload.philly import columns_of_philly, is_of_philly
from bastion.value import replace

MAX_SHOWN = 20
"""Problems that are listed; further ones are counted."""

Row = tuple[int, Mapping[str, Any] | str]
"""(line, or position in an array; cells by column, or why it has none)"""
Fits = Callable[[TraceJob], TraceJob | str]
"""Returns a job as it will run, or why it never can."""
_SAME = 3
"""Rows with the same problem that are listed one by one; more are listed together."""


class BadRow(NamedTuple):
    """What is wrong with one row."""

    place: int
    """Its line, or its position in an array; 0 if it does not come from a file."""
    problem: str
    name: str = ""
    """Of its job, if the row contains one."""

    def text(self, word: str) -> str:
        """Return it in words; `word` is the name of a position, such as `line`."""
        place = f"{word} {self.place}: " if self.place else ""
        return f"{place}{self.name} {self.problem}" if self.name else f"{place}{self.problem}"


def read_trace(
    path: str | Path, *, skip_bad: bool = False, fits: Fits | None = None, first: int = 0
) -> Workload:
    """
    Return the workload of a trace file.

    Args:
        path: A file that ends with `.csv`, `.json` or `.jsonl`; one with another name that begins
            like a JSON array is read as `.json`, and every other as `.csv`.
        skip_bad: Skip rows with problems; they are in `skipped` of the workload.
        fits: If it says that a job can never run, that is a problem of its row.
        first: Read only that many jobs, in the order of submission; rows behind them may be bad. 0:
            all.

    Raises:
        SpecError: The file cannot be read, a column is missing or unknown, or rows are bad: lists
            every problem, with its line.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise SpecError(f"{path}: is not text: byte {error.start} is not UTF-8") from None
    suffix = path.suffix
    if suffix not in (".csv", ".jsonl") and text.lstrip().startswith("["):
        suffix = ".json"
    is_json = suffix in (".json", ".jsonl")
    columns, rows = _json_rows(path, text, suffix) if is_json else _csv_rows(path, text)
    word = "item" if suffix == ".json" else "line"
    found = checked(rows, source=path.name, skip_bad=skip_bad, fits=fits, word=word, first=first)
    return replace(found, notes=(*_unread_note(columns), *found.notes))


def checked(
    rows: Iterable[Row],
    *,
    source: str,
    skip_bad: bool = False,
    fits: Fits | None = None,
    word: str = "line",
    first: int = 0,
) -> Workload:
    """
    Return the workload of `rows`, sorted by submission; only the `first` ones, if that is not 0.

    Raises:
        SpecError: Rows are bad, or there are no good ones.
    """
    jobs: list[TraceJob] = []
    places: list[int] = []
    bad: list[BadRow] = []
    names: dict[str, int] = {}
    last = -1.0
    unsorted: list[int] = []
    for line, row in rows:
        found = [row] if isinstance(row, str) else job_of(row, len(jobs) + len(bad), line)
        if isinstance(found, list):
            bad.append(BadRow(line, "; ".join(found)))
            continue
        name, known = found.name, names.setdefault(found.name, line)
        if known != line:
            bad.append(BadRow(line, f"name {name!r} is that of {word} {known}"))
            continue
        ready = found if fits is None else fits(found)
        if isinstance(ready, str):
            bad.append(BadRow(line, ready, name))
            continue
        found = ready
        if found.submit_s < last:
            unsorted.append(line)
        last = max(last, found.submit_s)
        jobs.append(found)
        places.append(line)
    order = sorted(range(len(jobs)), key=lambda each: jobs[each].submit_s)
    if 0 < first < len(jobs):
        order = order[:first]
        end = max(places[each] for each in order)
        bad = [each for each in bad if each.place < end]
        unsorted = [place for place in unsorted if place <= end]
    jobs = [jobs[each] for each in order]
    if bad and not skip_bad:
        raise bad_rows(source, bad, word=word)
    if not jobs:
        raise SpecError(f"{source}: no job in it" + (" that can run" if bad else ""))
    return Workload(
        jobs=jobs,
        source=source,
        skipped=tuple(each.text(word) for each in bad),
        notes=_unsorted_note(unsorted, word),
    )


def bad_rows(source: str, bad: Sequence[BadRow], *, word: str = "line") -> SpecError:
    """Return the error for the problems of some rows; equal problems are listed together."""
    alike: dict[str, list[BadRow]] = {}
    for row in bad:
        alike.setdefault(row.problem, []).append(row)
    told: list[tuple[str, int]] = []
    for problem, rows in alike.items():
        if len(rows) <= _SAME:
            told += [(row.text(word), 1) for row in rows]
        else:
            places = ", ".join(f"{row.place:,}" for row in rows[:_SAME])
            told.append((f"{word}s {places} and {len(rows) - _SAME:,} more: {problem}", len(rows)))
    shown = [f"{source}: {text}" for text, _ in told[:MAX_SHOWN]]
    more = sum(count for _, count in told[MAX_SHOWN:])
    if more:
        shown.append(f"{source}: and {more:,} more bad row{'s' if more > 1 else ''}")
    return SpecError(*shown, hint="fix the rows, or leave them out with --skip_bad")


def _unsorted_note(places: list[int], word: str) -> tuple[str, ...]:
    if not places:
        return ()
    rows = "1 row is" if len(places) == 1 else f"{len(places):,} rows are"
    return (f"{rows} not in the order of submission, first {word} {places[0]}: sorted",)


def write_trace(workload: Workload, path: str | Path) -> None:
    """Write the jobs of `workload` as CSV, which `read_trace` reads again."""
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for job in workload.jobs:
            cells = {
                "submit": repr(job.submit_s),
                "duration": repr(job.duration_s),
                "devices": job.devices,
                "replicas": job.replicas or "",
                "type": job.type,
                "name": job.name,
                "project": job.project,
                "user": job.user,
                "priority": job.priority,
                "kind": job.kind,
                "max_runtime": "" if job.max_runtime_s is None else repr(job.max_runtime_s),
            }
            writer.writerow([cells[column] for column in COLUMNS])


def _unread_note(columns: Sequence[str]) -> tuple[str, ...]:
    unread = ", ".join(dict.fromkeys(each for each in columns if each and each not in COLUMNS))
    return (f"columns that are not read: {unread}",) if unread else ()


def _csv_rows(path: Path, text: str) -> tuple[Sequence[str], Iterator[Row]]:
    """Return the columns, and the rows."""
    lines = _csv_lines(path, text)
    _, header = next(lines, (0, None))
    if header is None:
        raise SpecError(f"{path.name}: is empty; the first line names the columns")
    if isinstance(header, str):
        raise SpecError(f"{path.name}: line 1: {header}")
    columns = _columns(path, header)
    return columns, _csv_cells(columns, lines)


def _csv_lines(path: Path, text: str) -> Iterator[tuple[int, list[str] | str]]:
    """Yield each row with its last line: its cells, or what is wrong with it."""
    reader = csv.reader(StringIO(text), strict=True)
    while True:
        first = reader.line_num + 1
        try:
            cells = next(reader)
            yield reader.line_num, cells
        except StopIteration:
            return
        except csv.Error as error:
            if "expected after" not in str(error):
                # Everything behind an open quote is in one cell, so nothing there can be skipped.
                raise SpecError(
                    f"{path.name}: line {first}: {error}",
                    hint='does a cell begin with a quote that no other ends? Write " in it as ""',
                ) from None
            yield reader.line_num, f"is not CSV: {error}"


def _csv_cells(
    columns: Sequence[str], lines: Iterable[tuple[int, list[str] | str]]
) -> Iterator[Row]:
    for line, found in lines:
        if isinstance(found, str):
            yield line, found
            continue
        cells = [cell.strip() for cell in found]
        if any(cells):
            beyond = [*filter(None, cells[len(columns) :])]
            yield line, {**dict(zip(columns, cells)), BEYOND: beyond}


def _json_rows(path: Path, text: str, suffix: str) -> tuple[Sequence[str], Iterator[Row]]:
    """Return the columns of the first row, and the rows."""
    found = _lines(text) if suffix == ".jsonl" else _items(path, text)
    rows = [(line, _object(row)) for line, row in found]
    shown = next((row for _, row in rows if not isinstance(row, str)), None)
    if shown is None:
        return (), iter(rows)
    of_philly = is_of_philly(shown)
    read = columns_of_philly if of_philly else _by_column
    cells = ((line, row if isinstance(row, str) else read(row)) for line, row in rows)
    return () if of_philly else _columns(path, [*shown]), cells


def _lines(text: str) -> Iterator[tuple[int, Any]]:
    """Yield each line, decoded; for one that is not JSON, the error."""
    for line, row in enumerate(text.split("\n"), 1):
        if not row.strip():
            continue
        try:
            yield line, json.loads(row)
        except (ValueError, RecursionError) as error:
            yield line, error


def _items(path: Path, text: str) -> Iterator[tuple[int, Any]]:
    try:
        loaded = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SpecError(f"{path.name}: is not JSON: {error}") from None
    rows = loaded.get("jobs") if isinstance(loaded, dict) else loaded
    if not isinstance(rows, list):
        raise SpecError(f"{path.name}: no array of jobs, nor an object with `jobs`")
    yield from enumerate(rows, 1)


def _object(row: Any) -> Mapping[str, Any] | str:
    """Return `row` if it is an object, or else what is wrong with it."""
    if isinstance(row, dict):
        return row
    if isinstance(row, Exception):
        return f"is not JSON: {row}"
    return f"{row!r} is not an object"


def _by_column(row: Mapping[str, Any]) -> dict[str, Any]:
    return {column_of(key): cell for key, cell in row.items()}


def _columns(path: Path, header: list[str]) -> list[str]:
    """Return the columns that `header` names; those that nothing here reads stay unchanged."""
    columns = [column_of(name) for name in header]
    missing = [name for name in REQUIRED if name not in columns]
    if missing:
        problems = []
        for name in missing:
            near = get_close_matches(name, columns, n=1)
            nearest = f"; nearest is {near[0]}" if near else ""
            has = ", ".join(each for each in columns if each) or "none"
            problems.append(f"{path.name}: no column {name}; columns there: {has}{nearest}")
        raise SpecError(*problems, hint="columns: " + ", ".join(COLUMNS))
    twice = sorted({name for name in columns if columns.count(name) > 1 and name in COLUMNS})
    if twice:
        raise SpecError(f"{path.name}: line 1: column {twice[0]} stands twice")
    return columns
