"""What an account should contain, and the port to a step towards it. Pure."""

from __future__ import annotations

from typing import Protocol

from bastion.value import value


@value
class Needs:
    """What one bastion needs in its cloud's account."""

    bucket: str
    location: str = ""
    """Where the bucket is created, in the cloud's notation; empty if it should already exist."""
    bastion: str
    """The identity of the bastion."""
    agents: tuple[str, ...] = ()
    """The identities of machines."""
    providers: tuple[str, ...] = ()
    """The kinds of machines that the bastion creates: gce, gcp_tpu, ec2, azure_vm."""
    project: str = ""
    """Google's; empty for that of the bastion's identity."""
    resource_group: str = ""
    """Azure's, for machines."""
    endpoint_url: str = ""
    """Of an S3 server that is not Amazon's."""


class Step(Protocol):
    """One required thing."""

    @property
    def commands(self) -> tuple[str, ...]:
        """Return shell commands that do it and can be repeated."""
        ...

    def take(self) -> str:
        """
        Do it if it is not done; return what was done, or empty.

        Raises:
            ProviderError: Depends on the cloud's answer.
        """
        ...
