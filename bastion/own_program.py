"""How another program of ours is started."""

from __future__ import annotations

import sys


def own_program(module: str, *words: str) -> list[str]:
    """
    Return the command that runs `module`, which is one of ours, with `words`.

    `-P`: without it Python looks for modules in the folder of the user first, and would run a
    `launch.py` or a `queue.py` that is there.
    """
    return [sys.executable, "-P", "-m", module, *words]
