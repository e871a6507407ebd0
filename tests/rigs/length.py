"""
The length of the long tests.

By default, all of `make prove` takes at most three hours on two cores. `make prove LENGTH=5` tries
five times as many random histories, and takes about five times as long.
"""

from __future__ import annotations

import os

LENGTH = float(os.environ.get("PROVE_LENGTH", "1"))


def at_length(number: int) -> int:
    """Return the number of histories: `LENGTH` times the default."""
    return max(1, round(number * LENGTH))
