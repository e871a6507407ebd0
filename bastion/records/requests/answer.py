"""The answers to requests."""

from __future__ import annotations

from typing import Literal

from bastion.scheduler.machine_report import MachineReport
from bastion.value import value


@value
class Answer:
    """The answer to one request: accepted as these jobs, or every problem it had."""

    schema: Literal[1] = 1
    ulid: str
    verb: str
    accepted: bool
    launch: str = ""
    jobs: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    machines: tuple[MachineReport, ...] = ()
    """For a launch that must not wait: the machines, and why it does not start on each of them."""
    at: float = 0.0
    """Time of the commit that decided it, in the store's seconds."""
