"""
How long the long proofs are.

By default all of `make prove` fits into three hours on two cores. `make prove LENGTH=5` asks five
times as many random histories, and takes about as many times as long.
"""

from __future__ import annotations

import os

LENGTH = float(os.environ.get("PROVE_LENGTH", "1"))


def at_length(number: int) -> int:
    """So many histories by default, and so many times as many where more are asked for."""
    return max(1, round(number * LENGTH))
