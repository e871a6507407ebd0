"""The garbage collector looks no more at what was loaded before the first run."""

from __future__ import annotations

import gc

# A run makes little garbage, and a twelfth of its time went into looking for some in all the rest.
gc.freeze()
