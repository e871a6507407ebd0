"""
Marks: messages from a running job to its agent (checkpointed, finished, a report of numbers).

They are plain files in the folder that BASTION_MARKS_DIR names. A job in another language, or
without `bastion` installed, writes them itself. Outside a job nothing is written. It uses only the
standard library, so that a training program imports nothing else.

    checkpointed    its state is saved: a preemption after this loses nothing earlier
    finished        its work is complete, even if its exit code is not 0
    report          one JSON object per line: numbers that policies and users can read
"""

from __future__ import annotations

import json
import os
from pathlib import Path

MARKS_DIR = "BASTION_MARKS_DIR"
NOTICE_FILE = "BASTION_NOTICE_FILE"


def checkpointed() -> None:
    """Mark the state saved so far as a checkpoint that the job can resume from."""
    _write("checkpointed", "")


def finished() -> None:
    """Mark the work as complete: a preemption after this does not run it again."""
    _write("finished", "")


def report(**numbers: float) -> None:
    """
    Report numbers about the progress, for example `report(loss=0.3, step=100)`.

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
    Return the notice that this job must stop, or None if there is none.

    It has at least the fields `reason`, `by` and `deadline`.
    """
    path = os.environ.get(NOTICE_FILE)
    if not path:
        return None
    try:
        found: dict[str, object] = json.loads(Path(path).read_text())
    except FileNotFoundError:
        return None
    return found


def _write(name: str, text: str) -> None:
    """Replace a mark atomically: the agent compares its modification time."""
    folder = os.environ.get(MARKS_DIR)
    if folder:
        new = Path(folder) / f".{name}.{os.getpid()}"
        new.write_text(text)
        new.replace(Path(folder) / name)
