"""
How every benchmark prints: the machine it ran on, then one table of medians.

It uses the median of several runs, because one run on a shared machine says little, and no user
will see the best run. Numbers are printed, not asserted: tests do not measure time.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median


def machine() -> str:
    """Return this machine in one line: CPU, cores we can use, Python."""
    cores = len(os.sched_getaffinity(0))
    return f"{_processor()}, {cores} cores, Python {platform.python_version()}"


def median_of(
    runs: int, measured: Callable[[], object], *, clock: Callable[[], float] = time.perf_counter
) -> float:
    """
    Return the seconds that `measured()` takes: the median of `runs` runs, after a warm-up.

    The first run pays for imports and empty caches; measure those deliberately or not at all. Pure
    computation on one thread is best measured with `time.process_time`, which is less affected by
    other programs on the machine.
    """
    measured()
    return median(_seconds(measured, clock) for _ in range(runs))


def show(rows: Sequence[Mapping[str, object]]) -> None:
    """
    Print the machine, then `rows` as aligned columns under the first row's keys.

    Seconds are best shown in a column named for its unit, such as `median_ms`.
    """
    print(machine())
    if not rows:
        return
    names = list(rows[0])
    cells = [names, *([_cell(row.get(name, "")) for name in names] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(names))]
    rightward = [all(isinstance(row.get(name), (int, float)) for row in rows) for name in names]
    for line in cells:
        aligned = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, rightward)
        )
        print("  ".join(aligned).rstrip())


def show_limits(rows: Sequence[tuple[str, float, float]]) -> int:
    """
    Print measurements beside their limits, both in the unit that each text names.

    Returns:
        The exit code: 1 if a limit is missed, else 0.
    """
    missed = [measured > limit for _, limit, measured in rows]
    verdicts = {False: "held", True: "MISSED"}
    show(
        [
            {"what": what, "limit": limit, "measured": measured, "": verdicts[is_missed]}
            for (what, limit, measured), is_missed in zip(rows, missed, strict=True)
        ]
    )
    return int(any(missed))


def _seconds(measured: Callable[[], object], clock: Callable[[], float]) -> float:
    began = clock()
    measured()
    return clock() - began


def _cell(written: object) -> str:
    if isinstance(written, float):
        return f"{written:,.3g}" if abs(written) < 100 else f"{written:,.0f}"
    return f"{written:,}" if isinstance(written, int) else str(written)


def _processor() -> str:
    """Return the CPU's own name; Linux has it in /proc, elsewhere the architecture must do."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())
