"""How we start another program of ours."""

from __future__ import annotations

import sys


def own_program(module: str, *words: str) -> list[str]:
    """
    Return the command that runs `module`, one of our own, with the arguments `words`.

    Without `-P`, Python would look for modules in the user's folder first, and would run a
    `launch.py` or a `queue.py` in it.
    """
    return [sys.executable, "-P", "-m", module, *words]
