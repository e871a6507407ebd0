"""The result of one command line, and the fixture that runs one."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Ran(NamedTuple):
    """The result of one command line."""

    code: int
    out: str
    err: str


Run = Callable[..., Ran]
