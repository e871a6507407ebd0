"""The user's side: the Python API over a bucket. It knows no service, no agent and no machine."""

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
from bastion.scheduler.machine_report import MachineReport

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
