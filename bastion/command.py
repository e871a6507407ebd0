"""
Where the installed command starts: it puts our own packages before others with the same names.

PYTHONPATH comes before installed packages, and a folder in it may well have a `launch.py`. So the
command starts in a module whose name is rare.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path


def start() -> int:
    """Run the command line of this process, and return the exit code."""
    house = str(Path(__file__).parents[1])
    if sys.path[0] != house:
        sys.path.insert(0, house)
    code: int = import_module("launch.start").start()
    return code


if __name__ == "__main__":
    sys.exit(start())
