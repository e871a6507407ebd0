"""The settings of `serve`, and the intervals that follow from the kind of store."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from bastion.store.reach import Reach, reach_of
from bastion.value import value


@value
class Pace:
    """
    How often a leader does each thing, in seconds.

    Reading a folder is free, and reading from a server on this machine almost so. A cloud store
    bills every read and accepts one write per second to one object.
    """

    busy_poll_s: float
    """Between turns while anything changes."""
    idle_poll_s: float
    """Between turns while nothing changes."""
    settle_s: float
    """Longest wait for the actions of a turn before the next one starts."""
    commit_s: float
    """Least time between two commits."""
    ttl_s: float
    """Duration of the lease."""
    files_s: float
    """Between reads of the admins' two files."""
    listing_s: float
    """Between listings of a provider."""
    sweep_s: float
    """Between reads of the registers that have been unread the longest."""
    view_s: float
    """Least time between two publications of a view."""
    turn_jobs: int = 1_000
    """Jobs that the requests of one turn can name: about half a second of CPU time."""


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
    """Return the pace that suits the store at `root_url`."""
    return {Reach.FOLDER: LOCAL, Reach.LOOPBACK: NEAR, Reach.CLOUD: CLOUD}[reach_of(root_url)]


@value
class ServeSettings:
    """The settings of one bastion."""

    root_url: str
    name: str
    machines_dir: Path
    quota_url: str = ""
    """Path or URL of the quota file if it is not in the root."""
    moved: bool = False
    """The bucket was previously led at another address, and is not a copy of it."""
    standby: bool = False
    """Wait for the lead without a time limit, and again after losing it."""
    pace: Pace
    log_level: Literal["debug", "info", "warning"] = "info"
    log_as_json: bool = False
    metrics_port: int | None = None
    """Port for Prometheus metrics; None: no metrics. 0: any free port."""
    metrics_host: str = "127.0.0.1"
    workers: int = 8
    """Threads of a store lane: on a folder, eight parallel syncs take little longer than one."""
