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
from pathlib import Path
from typing import Any, NamedTuple

from bastion.errors import SpecError
from bastion.simulator.workload.columns import BEYOND, COLUMNS, REQUIRED, column_of, job_of
from bastion.simulator.workload.job import TraceJob, Workload
from bastion.simulator.workload.philly import columns_of_philly, is_of_philly

MAX_SHOWN = 20
"""Problems that are listed; further ones are counted."""

Row = tuple[int, Mapping[str, Any]]
"""(line, or position in an array; cells by column)"""
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
    rows = _json_rows(path, text, suffix) if is_json else _csv_rows(path, text)
    word = "item" if suffix == ".json" else "line"
    return checked(rows, source=path.name, skip_bad=skip_bad, fits=fits, word=word, first=first)


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
        found = job_of(row, len(jobs) + len(bad), line)
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


def _csv_rows(path: Path, text: str) -> Iterator[Row]:
    reader = csv.reader(text.splitlines())
    header = next(reader, None)
    if header is None:
        raise SpecError(f"{path.name}: is empty; the first line names the columns")
    columns = _columns(path, header)
    for cells in reader:
        cells = [cell.strip() for cell in cells]
        if any(cells):
            beyond = [*filter(None, cells[len(columns) :])]
            yield reader.line_num, {**dict(zip(columns, cells)), BEYOND: beyond}


def _json_rows(path: Path, text: str, suffix: str) -> Iterator[Row]:
    try:
        if suffix == ".jsonl":
            lines = enumerate(text.splitlines(), 1)
            found = [(line, json.loads(row)) for line, row in lines if row.strip()]
        else:
            loaded = json.loads(text)
            rows = loaded.get("jobs") if isinstance(loaded, dict) else loaded
            if not isinstance(rows, list):
                raise SpecError(f"{path.name}: no array of jobs, nor an object with `jobs`")
            found = list(enumerate(rows, 1))
    except ValueError as error:
        if isinstance(error, SpecError):
            raise
        raise SpecError(f"{path.name}: is not JSON: {error}") from None
    for line, row in found:
        if not isinstance(row, dict):
            word = "line" if suffix == ".jsonl" else "item"
            raise SpecError(f"{path.name}: {word} {line}: {row!r} is not an object")
    if found and is_of_philly(found[0][1]):
        yield from ((line, columns_of_philly(row)) for line, row in found)
        return
    _columns(path, [key for _, row in found[:1] for key in row])
    for line, row in found:
        yield line, {column_of(key): cell for key, cell in row.items()}


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
