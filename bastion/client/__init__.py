"""The user's side: the Python API over a bucket. It knows no service, no agent and no machine."""

from bastion.client.busy import BusyError
from bastion.client.client import Client
from bastion.client.handle import LaunchHandle
from bastion.client.log import Chunk
from bastion.client.views import (
    EventView,
    JobView,
    LaunchStatus,
    MachineView,
    PoolsView,
    ProjectView,
    StatusView,
    Why,
)
from bastion.client.wanted import Wanted
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
