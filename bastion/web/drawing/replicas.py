"""The replicas that a reason names, so that a page can link each to its log."""

from __future__ import annotations

import re
from collections.abc import Iterator

_REPLICA = re.compile(r"\breplica (\d{1,6})\b", re.ASCII)
_FAILED = re.compile(r"replica (\d{1,6}): ", re.ASCII)


def replicas_in(text: str) -> Iterator[tuple[str, int | None]]:
    """Yield `text` in pieces, each with the number of the replica that it names, or None."""
    end = 0
    for found in _REPLICA.finditer(text):
        if found.start() > end:
            yield text[end : found.start()], None
        yield found[0], int(found[1])
        end = found.end()
    if end < len(text):
        yield text[end:], None


def failed_replica(text: str) -> int:
    """Return the replica that failed according to a reason; 0 if it names none."""
    found = _FAILED.match(text)
    return int(found[1]) if found is not None else 0
