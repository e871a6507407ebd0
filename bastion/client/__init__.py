"""
The user's side: the Python API over a bucket. It knows no service, no agent and no machine.

In come Python values and launch files; out go requests, and views of what the bastion published.
Read `client` first, everything that a user may do; it extends `reader`, everything that one may
look up, over a `connection`. A launch is checked in `submit/` and its code sent by `code/`;
`change/` sends requests and waits for answers; `look/` reads views and final records; `follow/`
reads logs. `handle` is one submitted launch, and `patience` retries what may be retried.
"""

from bastion.client.change.busy_error import BusyError
from bastion.client.client import Client
from bastion.client.follow.log_filter import Wanted
from bastion.client.follow.log_reader import Chunk
from bastion.client.handle import LaunchHandle
from bastion.client.look.views import (
    EventView,
    JobView,
    LaunchStatus,
    MachineView,
    PoolsView,
    ProjectView,
    StatusView,
    Why,
)
from bastion.scheduler.reasons.machine_report import MachineReport

__all__ = [
    "BusyError",
    "Chunk",
    "Client",
    "EventView",
    "JobView",
    "LaunchHandle",
    "LaunchStatus",
    "MachineReport",
    "MachineView",
    "PoolsView",
    "ProjectView",
    "StatusView",
    "Wanted",
    "Why",
]
