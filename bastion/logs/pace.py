"""When a log is flushed: the first bytes immediately, later ones less often as the log ages."""

from __future__ import annotations

from bastion.value import value


@value
class Pace:
    """
    How often logs are flushed to the bucket.

    A young log, or one that a user follows, is flushed every `young_s`; an old one every `old_s`,
    or as soon as `old_bytes` are pending.
    """

    young_s: float = 2.0
    young_for_s: float = 300.0
    old_s: float = 60.0
    old_bytes: int = 256 * 1024


CLOUD = Pace()
"""For a bucket, which bills writes: 1,500 segments a day for a process that prints constantly."""

LOCAL = Pace(young_s=0.1, young_for_s=60.0, old_s=5.0)
"""For a folder, where writes are free but files are not: 17,000 a day for such a process."""


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
    Return when the pending bytes should be flushed, on the caller's clock; None if there are none.

    Args:
        pace: How often.
        shipped_bytes: Size of the log in the bucket.
        size_bytes: Size of the log on the machine.
        started_at: When the process started.
        waiting_since: When the oldest pending byte was seen.
        urgent_until: When the time ends in which a user follows the log, or is likely to read it
            after an event.
    """
    if size_bytes <= shipped_bytes:
        return None
    if shipped_bytes == 0 or size_bytes - shipped_bytes >= pace.old_bytes:
        return waiting_since
    is_young = waiting_since < max(started_at + pace.young_for_s, urgent_until)
    return waiting_since + (pace.young_s if is_young else pace.old_s)
