"""A bastion that `bastion up` started on this host: its process, its log, and its end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from bastion.own_program import own_program
from launch.commands.here.removed_bucket import until

if TYPE_CHECKING:
    from bastion.clock import Clock

_STOP_S = 10.0
"""How long it can take to give up the lead before it is killed, which is harmless."""
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ ")
_TROUBLE = re.compile(r"warning: (?:store|views): (.*?)(?: \(hint: (.*)\))?")
"""A line of its log that says why nothing can be written, and what to do."""


class LocalBastion:
    """
    A bastion that runs in the background.

    Args:
        root: URL of the bucket that it serves.
        machines: The folder of its machines.
        log: Its log is appended to this file.
    """

    def __init__(self, root: str, machines: Path, log: Path, clock: Clock) -> None:
        self.log = log
        self._clock = clock
        words = ["serve", f"--root={root}", f"--machines_dir={machines}"]
        with log.open("ab") as out:
            self._from_bytes = out.tell()
            self._process = subprocess.Popen(
                own_program("bastion.command", *words),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether its process has ended."""
        return self._process.poll() is not None

    def end(self) -> None:
        """Tell it to give up the lead and exit; kill it if it does not."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.has_ended:
                return
            os.kill(self.pid, number)
            until(self._clock, lambda: self.has_ended, _STOP_S)

    def complaint(self) -> tuple[str, str]:
        """Return why it does not lead and the hint, from its log; empty if the log does not say."""
        lines = self._lines()
        errors = [at for at, line in enumerate(lines) if line.startswith("error: ")]
        if errors:
            at = errors[-1]
            hints = [line for line in lines[at + 1 : at + 2] if line.startswith("hint: ")]
            return lines[at].removeprefix("error: "), "".join(hints).removeprefix("hint: ")
        if trouble := self.trouble():
            return trouble
        return (lines[-1] if lines and self.has_ended else ""), ""

    def trouble(self) -> tuple[str, str] | None:
        """Return the last reason in its log why it cannot write anything, and its hint."""
        for line in reversed(self._lines()):
            if found := _TROUBLE.fullmatch(line):
                return found[1], found[2] or ""
        return None

    def _lines(self) -> list[str]:
        """The lines of its log since it was started, without times."""
        with self.log.open("rb") as file:
            file.seek(self._from_bytes)
            text = file.read().decode(errors="replace")
        return [_STAMP.sub("", line, count=1) for line in text.splitlines()]
