"""An instance as EC2 describes it, and as a machine of a pool. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bastion.provider.aws.batch import KEYS, machine_of
from bastion.provider.port import Listed, State
from bastion.value import value

# Source: botocore's description of `InstanceStateName`.
_STATES: Mapping[str, State] = {
    "pending": "creating",
    "running": "running",
    "stopping": "running",  # it cannot be started again before it has stopped
    "stopped": "stopped",
    "shutting-down": "deleting",
    "terminated": "gone",
}
_LIVELIEST: tuple[State, ...] = ("running", "creating", "stopped", "deleting", "gone")


@value
class Instance:
    """One instance of a pool."""

    id: str
    machine: str
    """The name of its machine."""
    token: str
    status: str
    """EC2's name for its state."""
    zone: str
    text: str
    created_at: str
    account: str
    tags: Mapping[str, str]
    """The tags by which it was found."""

    @property
    def state(self) -> State:
        """Its state, in the port's terms."""
        return _STATES.get(self.status, "creating")


def instance_of(said: Mapping[str, Any], owner: str) -> Instance:
    """Read one instance from an answer, in the account `owner`."""
    tags = {tag["Key"]: tag["Value"] for tag in said.get("Tags", ())}
    made_at = said.get("LaunchTime")
    reason = said.get("StateReason", {}).get("Message", "") or said.get("StateTransitionReason", "")
    return Instance(
        id=said["InstanceId"],
        machine=machine_of(tags, said.get("AmiLaunchIndex", -1)),
        token=said.get("ClientToken", ""),
        status=said.get("State", {}).get("Name", ""),
        zone=said.get("Placement", {}).get("AvailabilityZone", ""),
        text=reason,
        created_at=made_at.isoformat() if made_at is not None else "",
        account=f"account {owner}" if owner else "",
        tags={key: tags[key] for key in KEYS if key in tags},
    )


def without_tags(listed: Listed, instances: Sequence[Instance], tags: Mapping[str, str]) -> Listed:
    """
    Return `listed`, whose `instances` lost their tags: it is not gone, but no list has it.

    `tags` are the tags that they had.
    """
    ids = " ".join(sorted(each.id for each in instances))
    wanted = " ".join(shlex.quote(f"Key={key},Value={text}") for key, text in tags.items())
    odd = (
        "its tags were changed, and a bastion that starts anew neither finds nor ends it: aws ec2"
        f" create-tags --resources {ids} --tags {wanted}"
    )
    return replace(listed, odd=odd)


def listed(name: str, pool: str, instances: Sequence[Instance]) -> Listed:
    """Return one machine; if several instances have its name, the most active state counts."""
    first = min(
        instances, key=lambda each: (_LIVELIEST.index(each.state), each.created_at, each.id)
    )
    alive = sorted(each.id for each in instances if each.state not in ("deleting", "gone"))
    odd = ""
    if len(alive) > 1:
        odd = f"{len(alive)} instances carry its tags: {', '.join(alive)}; terminate the copies"
    return Listed(
        name=name,
        pool=pool,
        state=first.state,
        zone=first.zone,
        text=first.text[:500],
        odd=odd[:500],
        created_at=first.created_at,
        account=first.account,
    )
