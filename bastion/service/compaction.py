"""
Compaction of the record, off the turn: in a separate process, once an hour.

It reads and writes Parquet with DuckDB, which takes memory and CPU time that a turn must not wait
for. A bastion without DuckDB compacts nothing: the rows stay in `state/log/`, which nothing
deletes, and the first bastion that has DuckDB compacts them all.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping

from bastion.errors import BastionError, StoreError
from bastion.lane import Lane
from bastion.own_program import own_program
from bastion.records.root import Root
from bastion.service.journal import Journal

FIRST_S = 300.0
"""Wait before the first compaction of a new leader: a restart has more urgent work."""
EVERY_S = 3600.0
LIMIT_S = 1800.0
"""Limit of one compaction: a bucket of years takes minutes, and the rest is done the next time."""

Compact = Callable[[], Mapping[str, str]]
"""Compacts the record; returns what could not be read, by its place."""


class Compaction:
    """
    Runs compactions, one at a time.

    Args:
        lane: For compactions only.
        journal: Where failures are logged.
        compact: Runs one.
    """

    def __init__(self, lane: Lane, journal: Journal, compact: Compact) -> None:
        self._lane = lane
        self._journal = journal
        self._compact = compact
        self._next_at: float | None = None

    def act(self, root: Root) -> None:
        """Report a compaction that ended, and start one if it is due as of `root`."""
        for done in self._lane.collect():
            if done.error is not None:
                self._journal.problem("compaction of the history", done.error)
            elif isinstance(done.result, Mapping):
                for place, fault in done.result.items():
                    self._journal.note(f"history: {place} is set aside: {fault}", level="warning")
        if self._next_at is None:
            self._next_at = root.now + FIRST_S
        if root.now >= self._next_at:
            self._next_at = root.now + EVERY_S
            self._lane.submit("compaction", self._compact)

    def close(self) -> None:
        """Start no more; one under way ends on its own, and another bastion may repeat it."""
        self._lane.close()


def compact_in_process(root_url: str) -> Compact:
    """Return a compaction of the bucket at `root_url` that runs in its own process."""

    def compact() -> Mapping[str, str]:
        command = own_program("bastion", "compact", root_url)
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise StoreError(f"the process of the compaction did not end: {error}") from error
        if done.returncode:
            raise BastionError(_fault(done.stderr) or f"ended with code {done.returncode}")
        spoilt: Mapping[str, str] = json.loads(done.stdout)["spoilt"]
        return spoilt

    return compact


def _fault(stderr: str) -> str:
    """Return the line that says what went wrong: the first, but the last of a traceback."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    is_bug = any(line.startswith("Traceback") for line in lines)
    return (lines[-1] if is_bug else lines[0]) if lines else ""
