"""The clock of a machine, compared with the bucket's before the greeting."""

from __future__ import annotations

from bastion.clock import Clock
from bastion.errors import ConflictError, StoreError
from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.reports.facts import Bell, Heartbeat
from bastion.store.port import ObjectStore

MAX_CLOCK_OFF_S = 60.0
"""
The bastion trusts no machine's clock, but jobs do: for certificates, signed requests (S3 refuses
those that are 15 minutes off) and files of several hosts.
"""
_TRIES = 3


def clock_trouble(off_s: float) -> str:
    """Return what is wrong with a clock that is `off_s` ahead of the bucket's, or empty."""
    if abs(off_s) <= MAX_CLOCK_OFF_S:
        return ""
    where = "ahead of" if off_s > 0 else "behind"
    return f"its clock is {abs(off_s):.0f} s {where} the bucket's"


def look_at_clock(store: ObjectStore, machine: str, life: int, clock: Clock) -> str:
    """
    Return what is wrong with the clock of this machine, or empty if that cannot be determined now.

    It writes a bell without news, because only a newly written object shows the bucket's time.
    """
    for tried in range(_TRIES):
        before = clock.wall()
        key = layout.bell(machine, life, int(before) + tried)
        try:
            told = store.create(key, encode(Bell(facts=(Heartbeat(),)))).modified_at
        except ConflictError:
            continue
        except StoreError:
            return ""
        after = clock.wall()
        # It was written at some time between the two.
        return clock_trouble(max(before - told, 0.0) or min(after - told, 0.0))
    return ""
