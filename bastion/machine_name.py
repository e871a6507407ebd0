"""The name of a machine: which pool it is of, and which commit allocated it. Nowhere else."""

from __future__ import annotations

import re

from bastion.value import value

_AFTER_POOL = re.compile(r"-(\d+)-(\d+)(?:-h(\d+))?", re.ASCII)


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
