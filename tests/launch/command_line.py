"""What one command line did, and the fixture that runs one."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Ran(NamedTuple):
    """What one command line did."""

    code: int
    out: str
    err: str


Run = Callable[..., Ran]
