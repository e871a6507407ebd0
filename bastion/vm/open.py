"""`open_vm`: from what a bastion's VM is to the cloud that has it."""

from __future__ import annotations

from typing import Protocol

from bastion.clock import Clock
from bastion.vm.bastion_vm import BastionVm, State


class Vm(Protocol):
    """
    One bastion's VM, made or not.

    Every change raises ProviderError by what the cloud answers, and but for `create` NotFoundError
    where there is none. A change returns once the cloud has begun it.
    """

    def state(self) -> State | None:
        """Return its state; None where there is none."""
        ...

    def create(self) -> None:
        """Make it; raise ConflictError where there is one of its name."""
        ...

    def start(self) -> None:
        """Start it again."""
        ...

    def stop(self) -> None:
        """Stop it, and keep its disk."""
        ...

    def delete(self) -> None:
        """Delete it with its disk."""
        ...

    def upgrade(self) -> None:
        """Give it the newest script, and start it anew."""
        ...


def open_vm(vm: BastionVm, clock: Clock) -> Vm:
    """
    Return the VM in the cloud that its zone is of.

    Raises:
        ProviderRefusedError: The client of that cloud is not installed.
    """
    if vm.is_google:
        from bastion.provider.gcp.api import Api
        from bastion.vm.gce import GceVm

        return GceVm(vm, Api("compute", project=vm.project, clock=clock))
    from bastion.provider.aws.client import client
    from bastion.provider.aws.ec2_pool import region_of
    from bastion.vm.ec2 import Ec2Vm

    return Ec2Vm(vm, client(region_of(vm.zone)), clock)
