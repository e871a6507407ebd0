"""The bastion's VM at Amazon: one instance of EC2."""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode
from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any

from bastion.clock import Clock
from bastion.errors import (
    ConflictError,
    NotFoundError,
    ProviderRefusedError,
    ProviderUnavailableError,
)
from bastion.provider.aws.calls import call
from bastion.provider.aws.verdicts import MADE_BEFORE
from bastion.provider.boot import cloud_init
from bastion.vm.bastion_vm import BastionVm, State
from bastion.vm.renewed import renewed
from bastion.vm.script import startup_script

MACHINE_TYPE = "t3.small"
IMAGE = "al2023-ami-2023.*-kernel-*-x86_64"
"""Amazon's own Linux, which has the AWS command line. Source: docs.aws.amazon.com/linux/al2023."""
TAG = "bastion-vm"

_STATES: Mapping[str, State] = {
    "pending": "starting",
    "running": "running",
    "stopping": "stopping",
    "stopped": "stopped",
    "shutting-down": "stopping",
}
"""Source: EC2's `InstanceStateName`; a terminated instance is none."""


class Ec2Vm:
    """
    One bastion's VM, whether it exists or not.

    Args:
        vm: Its properties.
        client: For EC2, in its region.
        clock: Waits until it is stopped.
    """

    def __init__(self, vm: BastionVm, client: Any, clock: Clock) -> None:
        self._vm = vm
        self._client = client
        self._clock = clock

    def state(self) -> State | None:
        """
        Return its state; None if there is none.

        Raises:
            ProviderError: Depends on EC2's answer.
        """
        found = self._find()
        return None if found is None else _STATES.get(found["State"]["Name"], "stopping")

    def create(self) -> None:
        """
        Create it, and return once EC2 has started to.

        The request carries a client token, so one whose answer was lost is repeated, also by the
        next command: EC2 then creates nothing twice.

        Raises:
            ConflictError: A VM with this name exists.
            ProviderError: Depends on EC2's answer.
        """
        if self._find() is not None:
            raise ConflictError(
                f"there is a VM {self._vm.name} already",
                hint=f"bastion upgrade --name={self._vm.name} upgrades it",
            )
        asked = request(self._vm, self._image())
        for attempt in count():
            if self._run({**asked, "ClientToken": token_of(asked, attempt)}):
                return

    def _run(self, asked: Mapping[str, Any]) -> bool:
        """
        Create it; return False if this same request created one before that has been deleted.

        Raises:
            ProviderUnavailableError: EC2 has not answered several times.
            ProviderError: Depends on EC2's answer.
        """
        what = f"create {self._vm.name}"
        for _ in range(_TRIES - 1):
            try:
                return bool(self._ask("run_instances", what, but=MADE_BEFORE, **asked))
            except ProviderUnavailableError as error:
                self._clock.sleep(max(_LOOK_S, error.retry_after_s))
        try:
            return bool(self._ask("run_instances", what, but=MADE_BEFORE, **asked))
        except ProviderUnavailableError as error:
            raise ProviderUnavailableError(error.message, hint=_AGAIN) from error

    def start(self) -> None:
        """Start it again; raises what `state` raises, and NotFoundError if there is none."""
        self._ask("start_instances", f"start {self._vm.name}", InstanceIds=[self._id()])

    def stop(self) -> None:
        """Stop it, but keep its disk; raises what `start` raises."""
        self._ask("stop_instances", f"stop {self._vm.name}", InstanceIds=[self._id()])
        for _ in range(_LOOKS):
            if self.state() == "stopped":
                return
            self._clock.sleep(_LOOK_S)
        raise ProviderUnavailableError(
            f"{self._vm.name} has not stopped after {_LOOKS * _LOOK_S:g} s; try again"
        )

    def delete(self) -> None:
        """Delete it with its disk; raises what `start` raises."""
        self._ask("terminate_instances", f"delete {self._vm.name}", InstanceIds=[self._id()])

    def upgrade(self) -> BastionVm:
        """
        See the port; raises what `start` raises.

        It is started even if EC2 refuses the script, because a stopped VM leads nothing.
        """
        vm = renewed(self._vm, self._script())
        self.stop()
        script = cloud_init(startup_script(vm)).encode()
        try:
            self._ask(
                "modify_instance_attribute",
                f"upgrade {self._vm.name}",
                InstanceId=self._id(),
                UserData={"Value": script},
            )
        finally:
            self.start()
        return vm

    def _script(self) -> str:
        """Return its current user data."""
        answer = self._ask(
            "describe_instance_attribute",
            f"look at the script of {self._vm.name}",
            InstanceId=self._id(),
            Attribute="userData",
        )
        return b64decode(answer["UserData"].get("Value", "")).decode()

    def _find(self) -> Mapping[str, Any] | None:
        """Find the existing instance by its tag, because its ID is stored nowhere."""
        filters = [
            {"Name": f"tag:{TAG}", "Values": [self._vm.name]},
            {"Name": "instance-state-name", "Values": list(_STATES)},
        ]
        answer = self._ask("describe_instances", f"look at {self._vm.name}", Filters=filters)
        found = [each for made in answer["Reservations"] for each in made["Instances"]]
        if len(found) > 1:
            ids = ", ".join(sorted(each["InstanceId"] for each in found))
            raise ProviderRefusedError(
                f"{len(found)} instances carry the tag {TAG}={self._vm.name}: {ids}",
                hint="one bastion has one VM; terminate the others",
            )
        return found[0] if found else None

    def _id(self) -> str:
        found = self._find()
        if found is None:
            raise NotFoundError(
                f"there is no VM {self._vm.name} in the region of {self._vm.zone}",
                hint=f"bastion create --name={self._vm.name}",
            )
        return str(found["InstanceId"])

    def _image(self) -> str:
        filters = [{"Name": "name", "Values": [IMAGE]}]
        answer = self._ask(
            "describe_images", f"find the image {IMAGE}", Owners=["amazon"], Filters=filters
        )
        if not answer["Images"]:
            raise ProviderRefusedError(f"EC2 has no image {IMAGE} in the region of {self._vm.zone}")
        newest = max(answer["Images"], key=lambda image: image["CreationDate"])
        return str(newest["ImageId"])

    def _ask(
        self, method: str, what: str, *, but: Iterable[str] = (), **given: Any
    ) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = call(self._client, method, what, but=but, **given)
        return answer


_LOOK_S, _LOOKS = 5.0, 60
"""A small instance stops within one or two minutes; Amazon's own timeout is ten."""
_TRIES = 3
_AGAIN = "run the same command again: a VM that was created after all is not created twice"


def token_of(asked: Mapping[str, Any], attempt: int) -> str:
    """
    Return the client token of a request, at most 64 characters.

    EC2 remembers a token for at least a day after the end of its instance. `attempt` counts the
    equal requests of which it says so. Source: docs.aws.amazon.com/ec2/latest/devguide,
    "Ensuring idempotency in Amazon EC2 API requests".
    """
    said = json.dumps([asked, attempt], sort_keys=True)
    return f"bastion-{hashlib.sha256(said.encode()).hexdigest()[:48]}"


def request(vm: BastionVm, image: str) -> dict[str, Any]:
    """Return the arguments of RunInstances."""
    profile = {"Arn": vm.identity} if vm.identity.startswith("arn:") else {"Name": vm.identity}
    tags = [{"Key": "Name", "Value": vm.name}, {"Key": TAG, "Value": vm.name}]
    disk = {"VolumeSize": vm.disk_gib, "VolumeType": "gp3", "Encrypted": True}
    asked: dict[str, Any] = {
        "ImageId": image,
        "InstanceType": vm.machine_type or MACHINE_TYPE,
        "MinCount": 1,
        "MaxCount": 1,
        "Placement": {"AvailabilityZone": vm.zone},
        "IamInstanceProfile": profile,
        "UserData": cloud_init(startup_script(vm)),
        "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 2},
        "BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": disk}],
        "TagSpecifications": [
            {"ResourceType": kind, "Tags": tags} for kind in ("instance", "volume")
        ],
    }
    if vm.subnet:
        asked["SubnetId"] = vm.subnet
    if vm.network:
        asked["SecurityGroupIds"] = [vm.network]
    return asked
