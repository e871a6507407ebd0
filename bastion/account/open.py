"""`steps_of`: from the needs of a bastion to the steps in its cloud."""

from __future__ import annotations

from collections.abc import Iterator

from bastion.account.needs import Needs, Step
from bastion.clock import Clock


def steps_of(kind: str, needs: Needs, clock: Clock) -> Iterator[Step]:
    """
    Yield the steps in the cloud of `kind`: `gs`, `s3` or `az`.

    Raises:
        SpecError: Something that they need is unknown.
    """
    if kind == "gs":
        from bastion.account import google

        return google.steps(needs, clock)
    if kind == "az":
        from bastion.account import azure

        return azure.steps(needs)
    from bastion.account import amazon

    return amazon.steps(needs)
