"""When a log is flushed: at once for the first bytes, then the older and calmer the rarer."""

from __future__ import annotations

from bastion.value import value


@value
class Pace:
    """
    How often logs go to the bucket.

    A young log, or one that somebody follows, goes every `young_s`; an old one every `old_s`, or
    as soon as `old_bytes` wait.
    """

    young_s: float = 2.0
    young_for_s: float = 300.0
    old_s: float = 60.0
    old_bytes: int = 256 * 1024


CLOUD = Pace()
"""What a bucket bills for: about 1,500 segments a day for a process that prints all the time."""

LOCAL = Pace(young_s=0.1, old_s=0.2)
"""A folder costs nothing but its files."""


def due_at(
    pace: Pace,
    *,
    shipped_bytes: int,
    size_bytes: int,
    started_at: float,
    waiting_since: float,
    urgent_until: float,
) -> float | None:
    """
    When the bytes that wait should be flushed, on the caller's clock; None when none wait.

    Args:
        pace: How often.
        shipped_bytes: What is in the bucket.
        size_bytes: What the process wrote so far.
        started_at: When the process started.
        waiting_since: When the oldest byte that waits was seen.
        urgent_until: Until when somebody follows, or something happened that people will read.
    """
    if size_bytes <= shipped_bytes:
        return None
    if shipped_bytes == 0 or size_bytes - shipped_bytes >= pace.old_bytes:
        return waiting_since
    is_young = waiting_since < max(started_at + pace.young_for_s, urgent_until)
    return waiting_since + (pace.young_s if is_young else pace.old_s)
