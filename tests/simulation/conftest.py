"""Exclude objects that were loaded before the first run from garbage collection."""

from __future__ import annotations

import gc

# A run makes little garbage, and a twelfth of its time went into scanning all other objects.
gc.freeze()
