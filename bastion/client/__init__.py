"""
The user's side: the Python API over a bucket. It must not know services, agents or machines.

Python values and launch files come in; requests go out, and so do views of what the bastion
published. Read `client` first: it has every operation of a user. It extends `reader`, which has
every lookup, on top of `event_reader` (events), `quota_reader` and a `connection`. `submit/` checks
a launch and `code/` uploads its code. `status/` reports whether a bastion leads. `change/` sends
requests and waits for answers. `look/` reads views and final records. `follow/` reads logs.
`handle` is one submitted launch, `handle_client` is the part of the client that it needs, and
`patience` retries what is safe to retry. `other_names` suggests our method for a method name of
another client.

Methods import what only they need when they are called: a command that only submits loads nothing
about jobs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
        Why,
    )
    from bastion.client.status.status_view import BudgetView, ProjectView, StatusView
    from bastion.scheduler.machine_report import MachineReport

__all__ = [
    "BudgetView",
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

_PLACES = {
    "bastion.client.change.busy_error": ("BusyError",),
    "bastion.client.client": ("Client",),
    "bastion.client.follow.log_filter": ("Wanted",),
    "bastion.client.follow.log_reader": ("Chunk",),
    "bastion.client.handle": ("LaunchHandle",),
    "bastion.client.status.status_view": ("BudgetView", "ProjectView", "StatusView"),
    "bastion.client.look.views": (
        "EventView",
        "JobView",
        "LaunchStatus",
        "MachineView",
        "PoolsView",
        "Why",
    ),
    "bastion.scheduler.machine_report": ("MachineReport",),
}
"""Imported on first use: a command that only submits reads no logs."""
_HOMES = {name: place for place, names in _PLACES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found
