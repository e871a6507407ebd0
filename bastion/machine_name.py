"""The name of a machine: its pool and the commit that allocated it. Only this file parses names."""

from __future__ import annotations

import re

from bastion.value import value
from quota.pattern import pattern

_N = r"(\d{1,15})"
"""More digits than any commit has, but few enough: Python refuses to parse thousands of digits."""
_AFTER_POOL = pattern(rf"-{_N}-{_N}(?:-h{_N})?", re.ASCII)
_OF_ANY_POOL = pattern(rf"(.+)-{_N}-{_N}(?:-h{_N})?", re.ASCII)


@value
class MachineName:
    """
    `<pool>-<seq>-<index>`, or `<pool>-<seq>-<index>-h<host>` for a host of a slice.

    One commit allocates a name, and it is used for one create, so no two machines share one.
    """

    pool: str
    seq: int
    """The commit that allocated it."""
    index: int
    """Index among the machines, or slices, that this commit allocated in the pool."""
    host: int | None = None
    """Index of the host in its slice; None for a machine without a slice."""

    def __str__(self) -> str:
        host = "" if self.host is None else f"-h{self.host}"
        return f"{self.pool}-{self.seq}-{self.index}{host}"


def parse_machine(name: str, pool: str) -> MachineName | None:
    """Parse the name of a machine of `pool`; None if no commit allocates such a name."""
    found = _AFTER_POOL.fullmatch(name, len(pool)) if name.startswith(pool) else None
    if found is None:
        return None
    seq, index, host = found.groups()
    return MachineName(
        pool=pool, seq=int(seq), index=int(index), host=None if host is None else int(host)
    )


def pool_of(name: str) -> str:
    """
    Return the pool of a machine called `name`: the part before the numbers.

    A name that no commit allocates is its own pool, so it shares no folder with another.
    """
    found = _OF_ANY_POOL.fullmatch(name)
    return name if found is None else found[1]
