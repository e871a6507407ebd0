"""The jobs on local machines of this host, which `bastion down` would stop."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bastion.store.port import ObjectStore


def jobs_on(folders: Iterable[Path], store: ObjectStore) -> tuple[str, ...]:
    """
    Return the jobs that are alive on the machines in `folders`.

    They are read from root. A view is up to a second older and would miss a job that just started.
    """
    from bastion.errors import NotFoundError, RecordError
    from bastion.records.keys import layout
    from bastion.records.root import decode_root

    machines = {folder.name for folder in folders}
    try:
        found = store.read(layout.ROOT)
        jobs = decode_root(found.data).jobs if found is not None else {}
    except (NotFoundError, RecordError):  # down ends the machines anyway
        return ()
    return tuple(
        job.id
        for job in jobs.values()
        if any(host.machine in machines for replica in job.alive for host in replica.hosts)
    )
