"""
What a running job may say: that it saved its state, that it is done, how it goes.

Plain files in the folder that BASTION_MARKS_DIR names; a job written in another language, or
without `bastion` installed, writes them itself. Outside a job nothing happens. Standard library
only: a training program must not pay for anything else.

    checkpointed    its state is safe: a preemption after this loses nothing earlier
    finished        its work is complete, whatever its exit code
    report          one JSON object a line: numbers that policies and people may read
"""

from __future__ import annotations

import json
import os
from pathlib import Path

MARKS_DIR = "BASTION_MARKS_DIR"
NOTICE_FILE = "BASTION_NOTICE_FILE"


def checkpointed() -> None:
    """Say that the state saved so far is safe, and may be resumed from."""
    _write("checkpointed", "")


def finished() -> None:
    """Say that the work is complete: a preemption that comes now does not run it again."""
    _write("finished", "")


def report(**numbers: float) -> None:
    """
    Report how it goes, as in `report(loss=0.3, step=100)`.

    Raises:
        TypeError: A value is not a number.
    """
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            raise TypeError(f"report({name}={number!r}): not a number")
    folder = os.environ.get(MARKS_DIR)
    if folder:
        with (Path(folder) / "report").open("a") as file:
            file.write(json.dumps(numbers) + "\n")


def notice() -> dict[str, object] | None:
    """
    The notice that this job must stop, as the bastion wrote it, or None while there is none.

    It says at least `reason`, `by` and `deadline`.
    """
    path = os.environ.get(NOTICE_FILE)
    if not path:
        return None
    try:
        told: dict[str, object] = json.loads(Path(path).read_text())
    except FileNotFoundError:
        return None
    return told


def _write(name: str, text: str) -> None:
    """Replace a mark in one step: its time is what the agent looks at."""
    folder = os.environ.get(MARKS_DIR)
    if folder:
        new = Path(folder) / f".{name}.{os.getpid()}"
        new.write_text(text)
        new.replace(Path(folder) / name)
