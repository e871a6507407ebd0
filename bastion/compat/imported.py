"""The result of reading a job file of another system."""

from __future__ import annotations

from bastion.spec import Launch
from bastion.value import value


@value
class Imported:
    """A launch, and notes for its author."""

    launch: Launch
    notes: tuple[str, ...] = ()
    """Options that have no effect here or act differently; one line each."""
