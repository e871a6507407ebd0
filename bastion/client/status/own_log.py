"""
The tail of a bastion's own log, read by others: its last warning shows why it has fallen silent.

Lines are text or JSON, as `serve --log_format` says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime

from bastion.value import value

_WARNING = " warning: "


@value
class LogLine:
    """One warning of a bastion."""

    at: float
    """Seconds since 1970, by the clock of the bastion's machine."""
    text: str


def last_warning(tail: bytes, *, since: float) -> LogLine | None:
    """Return the last warning in `tail` that was logged at `since` or later; None if none was."""
    last = next(_latest_first(tail.decode(errors="replace")), None)
    return last if last is not None and last.at >= since else None


def _latest_first(text: str) -> Iterator[LogLine]:
    """Yield the warnings; a line that the cut or a traceback has left without its time is none."""
    for line in reversed(text.splitlines()):
        try:
            if line.startswith("{"):
                told = json.loads(line)
                stamp, said = (told["at"], told["text"]) if told["level"] == "warning" else ("", "")
            else:
                stamp, _, said = line.partition(_WARNING)
            if said:
                yield LogLine(at=datetime.fromisoformat(stamp).timestamp(), text=str(said))
        except (ValueError, KeyError, TypeError):
            continue
