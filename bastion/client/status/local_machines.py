"""Whether the machines of a bastion that no longer leads have ended too, as this host can see."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bastion.client.status.status_view import StatusView
from bastion.provider.serving import is_standing, machines_of

CONTINUE = "jobs continue while their machines run, and no new ones start"
"""What happens to jobs while no bastion leads."""
RESTART = "its machines have ended too, and running jobs start again after bastion up"
"""The same, if all of its machines have ended."""


def have_ended(status: StatusView, pools: Iterable[Mapping[str, Any]], root_url: str) -> bool:
    """
    Whether no bastion leads, and its machines, all local to this host, have ended.

    Args:
        status: The bastion.
        pools: The rows of its pools.
        root_url: The URL of its bucket.
    """
    if not status.absence or not status.machines_dir:
        return False
    if status.machines_host != os.uname().nodename:
        return False
    if any(pool.get("provider") != "local" for pool in pools):
        return False
    ours = machines_of(Path(status.machines_dir), root_url, is_own=True)
    return not any(map(is_standing, ours))
