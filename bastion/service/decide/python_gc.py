"""
Python's garbage collector, kept waiting while a cycle of the scheduler runs.

A cycle makes tens of thousands of values, hardly any of them in reference cycles; meanwhile the
collector would walk the whole state several times. What there is to collect is collected after it.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """Nothing is collected inside, on any thread; reference counting goes on."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
