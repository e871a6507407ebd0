"""What `serve` is told, and the paces that follow from the kind of store."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from bastion.store.reach import Reach, reach_of
from bastion.value import value


@value
class Pace:
    """
    How often a leader does what, in seconds.

    A folder is free to look at, a server on this machine nearly so; a cloud store bills every look
    and takes one write a second to one object.
    """

    busy_poll_s: float
    """Between turns while anything moves."""
    idle_poll_s: float
    """Between turns while nothing does."""
    settle_s: float
    """Longest wait for the actions of a turn before the next one begins."""
    commit_s: float
    """Least time between two commits."""
    ttl_s: float
    """Of the lease."""
    files_s: float
    """Between looks at the admins' two files."""
    listing_s: float
    """Between listings of a provider."""
    sweep_s: float
    """Between looks at the registers that were unread the longest."""
    view_s: float
    """Least time between two publications of a view."""
    turn_jobs: int = 1_000
    """Jobs that the requests of one turn may name: about half a second of processor time."""


LOCAL = Pace(
    busy_poll_s=0.02,
    idle_poll_s=0.1,
    settle_s=0.1,
    commit_s=0.0,
    ttl_s=3.0,
    files_s=0.5,
    listing_s=1.0,
    sweep_s=1.0,
    view_s=0.1,
)
CLOUD = Pace(
    busy_poll_s=2.0,
    idle_poll_s=5.0,
    settle_s=2.0,
    commit_s=1.1,
    ttl_s=30.0,
    files_s=10.0,
    listing_s=30.0,
    sweep_s=10.0,
    view_s=5.0,
    turn_jobs=5_000,
)


NEAR = Pace(
    busy_poll_s=0.2,
    idle_poll_s=0.5,
    settle_s=0.3,
    commit_s=0.0,
    ttl_s=10.0,
    files_s=1.0,
    listing_s=1.0,
    sweep_s=2.0,
    view_s=0.3,
)
"""A server on this machine: requests to it are free."""


def pace_of(root_url: str) -> Pace:
    """The pace that suits the store at `root_url`."""
    return {Reach.FOLDER: LOCAL, Reach.LOOPBACK: NEAR, Reach.CLOUD: CLOUD}[reach_of(root_url)]


@value
class ServeSettings:
    """One bastion."""

    root_url: str
    name: str
    machines_dir: Path
    quota_url: str = ""
    """Path or URL of the quota file, when it is not in the root."""
    moved: bool = False
    """The bucket was led at another address before, and is no copy of it."""
    standby: bool = False
    """Wait for the lead as long as it takes, and again when it is lost."""
    pace: Pace
    log_level: Literal["debug", "info", "warning"] = "info"
    log_as_json: bool = False
    metrics_port: int | None = None
    """Where it answers Prometheus; None: nowhere. 0: any port that is free."""
    metrics_host: str = "127.0.0.1"
    workers: int = 8
    """Threads of a store lane: on a folder eight syncs side by side take little longer than one."""
