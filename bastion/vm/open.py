"""`open_vm`: from a bastion's VM to its cloud."""

from __future__ import annotations

from typing import Protocol

from bastion.clock import Clock
from bastion.vm.bastion_vm import BastionVm, State


class Vm(Protocol):
    """
    One bastion's VM, whether it exists or not.

    Every change raises ProviderError depending on the cloud's answer, and, except for `create`,
    NotFoundError if there is none. A change returns once the cloud has started it.
    """

    def state(self) -> State | None:
        """Return its state; None if there is none."""
        ...

    def create(self) -> None:
        """Create it; raise ConflictError if one with its name exists."""
        ...

    def start(self) -> None:
        """Start it again."""
        ...

    def stop(self) -> None:
        """Stop it, but keep its disk."""
        ...

    def delete(self) -> None:
        """Delete it with its disk."""
        ...

    def upgrade(self) -> BastionVm:
        """
        Give it the newest script, restart it, and return its new state; jobs keep running.

        Values that this VM leaves out are kept: an image, the place of its quota file, metrics.

        Raises:
            SpecError: It serves another bucket than this VM.
        """
        ...


def open_vm(vm: BastionVm, clock: Clock) -> Vm:
    """
    Return the VM in the cloud of its zone.

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
