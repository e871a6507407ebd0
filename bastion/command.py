"""
Where the installed command begins: with our own packages, before others of the same names.

PYTHONPATH stands before what is installed, and a folder that it names may well have a `launch.py`.
So the command is found by the one of our names that is rare.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path


def start() -> int:
    """Run the command line of this process; the exit code."""
    house = str(Path(__file__).parents[1])
    if sys.path[0] != house:
        sys.path.insert(0, house)
    code: int = import_module("launch.start").start()
    return code


if __name__ == "__main__":
    sys.exit(start())
