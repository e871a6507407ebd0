"""The name of a machine: which pool it is of, and which commit allocated it. Nowhere else."""

from __future__ import annotations

import re

from bastion.value import value

_N = r"(\d{1,15})"
"""More digits than any commit has: of thousands Python refuses to make an integer."""
_AFTER_POOL = re.compile(rf"-{_N}-{_N}(?:-h{_N})?", re.ASCII)
_OF_ANY_POOL = re.compile(rf"(.+)-{_N}-{_N}(?:-h{_N})?", re.ASCII)


@value
class MachineName:
    """
    `<pool>-<seq>-<index>`, and of a host of a slice `<pool>-<seq>-<index>-h<host>`.

    A name is allocated by one commit and used for one create, so no machine has that of another.
    """

    pool: str
    seq: int
    """The commit that allocated it."""
    index: int
    """Which of the machines, or slices, that this commit allocated in the pool."""
    host: int | None = None
    """Which host of its slice; None for a machine of its own."""

    def __str__(self) -> str:
        host = "" if self.host is None else f"-h{self.host}"
        return f"{self.pool}-{self.seq}-{self.index}{host}"


def parse_machine(name: str, pool: str) -> MachineName | None:
    """What the name of a machine of `pool` says; None when no commit allocates such a name."""
    found = _AFTER_POOL.fullmatch(name, len(pool)) if name.startswith(pool) else None
    if found is None:
        return None
    seq, index, host = found.groups()
    return MachineName(
        pool=pool, seq=int(seq), index=int(index), host=None if host is None else int(host)
    )


def pool_of(name: str) -> str:
    """
    The pool that a machine called `name` is of: what stands before the numbers.

    A name that no commit allocates is a pool of its own, so that it shares no folder with another.
    """
    found = _OF_ANY_POOL.fullmatch(name)
    return name if found is None else found[1]
