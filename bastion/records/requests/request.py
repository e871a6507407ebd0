"""What a request can hold: the bodies of users' and admins' requests, by verb."""

from __future__ import annotations

from bastion.records.requests.job_request import (
    ExecRequest,
    FollowRequest,
    JobsRequest,
    UpdateRequest,
)
from bastion.records.requests.launch_request import LaunchRequest
from bastion.records.requests.machine_request import (
    CheckRequest,
    DrainRequest,
    MachinesRequest,
    WarmRequest,
)

AdminBody = MachinesRequest | DrainRequest | CheckRequest | WarmRequest
Body = LaunchRequest | JobsRequest | UpdateRequest | FollowRequest | ExecRequest | AdminBody

ADMIN_BODIES: dict[str, type[AdminBody]] = {
    "cordon": MachinesRequest,
    "uncordon": MachinesRequest,
    "drain": DrainRequest,
    "check": CheckRequest,
    "warm": WarmRequest,
}
"""By verb, those that arrive only through the inbox of admins."""

BODIES: dict[str, type[Body]] = {
    "launch": LaunchRequest,
    "cancel": JobsRequest,
    "hold": JobsRequest,
    "release": JobsRequest,
    "update": UpdateRequest,
    "follow": FollowRequest,
    "exec": ExecRequest,
    **ADMIN_BODIES,
}
