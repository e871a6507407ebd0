"""What there should be in an account, and the port to a step towards it. Pure."""

from __future__ import annotations

from typing import Protocol

from bastion.value import value


@value
class Needs:
    """What one bastion needs in its cloud's account."""

    bucket: str
    location: str = ""
    """Where the bucket is made, as the cloud writes it; empty where it is taken to exist."""
    bastion: str
    """The identity of the bastion."""
    agents: tuple[str, ...] = ()
    """The identities of machines."""
    providers: tuple[str, ...] = ()
    """What machines the bastion makes: gce, gcp_tpu, ec2."""
    project: str = ""
    """Google's; empty for that of the bastion's identity."""
    endpoint_url: str = ""
    """Of a server of S3 that is not Amazon's."""


class Step(Protocol):
    """One thing that there should be."""

    @property
    def commands(self) -> tuple[str, ...]:
        """Commands for a shell that do it, as often as they are run."""
        ...

    def take(self) -> str:
        """
        Do it where it is not done; what was done, or empty.

        Raises:
            ProviderError: By what the cloud answers.
        """
        ...
