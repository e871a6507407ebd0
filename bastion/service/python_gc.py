"""
A pause of Python's garbage collector during a turn.

A turn creates tens of thousands of values, hardly any of them in reference cycles. Without the
pause the collector would scan the whole state several times before the turn is committed.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """Pause garbage collection on every thread inside; reference counting continues."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
