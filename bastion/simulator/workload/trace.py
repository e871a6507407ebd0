"""
Read and write traces: CSV with a header, or JSON, an array of objects or one object a line.

Every problem is named with its line before anything is simulated; with `skip_bad` the bad rows are
left out, counted and kept in the workload.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bastion.errors import SpecError
from bastion.simulator.workload.columns import COLUMNS, REQUIRED, column_of, job_of
from bastion.simulator.workload.job import TraceJob, Workload
from quota.choice import choose

MAX_SHOWN = 20
"""Problems that are told; more are counted."""

Row = tuple[int, Mapping[str, Any]]
"""(line, cells by column)"""


def read_trace(path: str | Path, *, skip_bad: bool = False) -> Workload:
    """
    Return the workload of a trace file.

    Args:
        path: A file that ends with `.csv`, `.json` or `.jsonl`.
        skip_bad: Leave out rows with problems; they are in `skipped` of the workload.

    Raises:
        SpecError: The file cannot be read, a column is missing or unknown, or rows are bad: every
            problem, with its line.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise SpecError(f"{path}: is not text: byte {error.start} is no UTF-8") from None
    rows = _json_rows(path, text) if path.suffix in (".json", ".jsonl") else _csv_rows(path, text)
    return checked(rows, source=path.name, skip_bad=skip_bad)


def checked(rows: Iterable[Row], *, source: str, skip_bad: bool = False) -> Workload:
    """
    Return the workload of `rows`, sorted by submission.

    Raises:
        SpecError: Rows are bad, or there is none that is not.
    """
    jobs: list[TraceJob] = []
    problems: list[str] = []
    names: dict[str, int] = {}
    last = -1.0
    unsorted: list[int] = []
    for line, row in rows:
        found = job_of(row, len(jobs) + len(problems), line)
        if isinstance(found, list):
            problems.append(f"line {line}: {'; '.join(found)}")
            continue
        if found.name in names:
            problems.append(f"line {line}: name {found.name!r} is that of line {names[found.name]}")
            continue
        names[found.name] = line
        if found.submit_s < last:
            unsorted.append(line)
        last = max(last, found.submit_s)
        jobs.append(found)
    if unsorted:
        jobs.sort(key=lambda job: job.submit_s)
    if problems and not skip_bad:
        raise bad_rows(source, problems)
    if not jobs:
        raise SpecError(f"{source}: no job in it")
    return Workload(
        jobs=jobs, source=source, skipped=tuple(problems), notes=_unsorted_note(unsorted)
    )


def bad_rows(source: str, problems: list[str]) -> SpecError:
    """The error for the problems of some rows."""
    shown = [f"{source}: {each}" for each in problems[:MAX_SHOWN]]
    if len(problems) > MAX_SHOWN:
        shown.append(f"{source}: and {len(problems) - MAX_SHOWN:,} more bad rows")
    return SpecError(*shown, hint="mend the rows, or leave them out with --skip_bad")


def _unsorted_note(lines: list[int]) -> tuple[str, ...]:
    if not lines:
        return ()
    return (
        f"{len(lines):,} rows are not in the order of submission, first line {lines[0]}: sorted",
    )


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
        if any(cell.strip() for cell in cells):
            yield reader.line_num, dict(zip(columns, (cell.strip() for cell in cells)))


def _json_rows(path: Path, text: str) -> Iterator[Row]:
    try:
        if path.suffix == ".jsonl":
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
        raise SpecError(f"{path.name}: is no JSON: {error}") from None
    for line, row in found:
        if not isinstance(row, dict):
            raise SpecError(f"{path.name}: line {line}: {row!r} is no object")
    _columns(path, [key for _, row in found[:1] for key in row])
    for line, row in found:
        yield line, {column_of(key): cell for key, cell in row.items()}


def _columns(path: Path, header: list[str]) -> list[str]:
    """The columns that `header` means; those that nothing here reads are left as they are."""
    columns = [column_of(name) for name in header]
    missing = [name for name in REQUIRED if name not in columns]
    if missing:
        problems = []
        for name in missing:
            near = choose(name, [each for each in columns if each])
            problems.append(f"{path.name}: line 1: no column {name}; it has: {near}")
        raise SpecError(*problems, hint="columns: " + ", ".join(COLUMNS))
    twice = sorted({name for name in columns if columns.count(name) > 1 and name in COLUMNS})
    if twice:
        raise SpecError(f"{path.name}: line 1: column {twice[0]} stands twice")
    return columns
