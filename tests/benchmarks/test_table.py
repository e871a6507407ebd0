"""All benchmarks print in the same form: the machine, then medians."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from benchmarks import table


def test_the_machine_is_named() -> None:
    """A table has the CPU, the number of cores and the Python version of its numbers."""
    assert f" cores, Python {platform.python_version()}" in table.machine()


def test_columns_are_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    """Text is aligned left, numbers right, with the machine above them."""
    table.show(
        [{"what": "decide", "jobs": 10_000, "ms": 42.123}, {"what": "x", "jobs": 1, "ms": 0.5}]
    )
    assert capsys.readouterr().out.splitlines() == [
        table.machine(),
        "what      jobs    ms",
        "decide  10,000  42.1",
        "x            1   0.5",
    ]


def test_no_rows_print_no_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Without rows only the machine is printed."""
    table.show([])
    assert capsys.readouterr().out == f"{table.machine()}\n"


def test_a_limit_that_is_missed_is_an_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    """Each row says whether its limit holds, and a script sees a missed one."""
    assert table.show_limits([("turn, s", 1.0, 0.5), ("memory, MB", 150.0, 150.0)]) == 0
    assert "MISSED" not in capsys.readouterr().out
    assert table.show_limits([("turn, s", 1.0, 1.5), ("memory, MB", 150.0, 100.0)]) == 1
    assert capsys.readouterr().out.splitlines()[2:] == [
        "turn, s         1       1.5  MISSED",
        "memory, MB    150       100  held",
    ]


def test_the_median_leaves_out_the_first_run() -> None:
    """`median_of` runs once more than asked and times each of the others."""
    calls: list[int] = []
    seconds = table.median_of(3, lambda: calls.append(1))
    assert len(calls) == 4
    assert 0 <= seconds < 1


def test_every_benchmark_is_listed() -> None:
    """`python -m benchmarks` names no shared file and fails on none."""
    listed = subprocess.run(
        [sys.executable, "-m", "benchmarks"], capture_output=True, text=True, check=True
    ).stdout
    assert "benchmarks.table" not in listed
    assert all(line.startswith("  python -m benchmarks.") for line in listed.splitlines())
