"""
Parts of pages that were made already: the same for every reader until what they show changes.

A hundred open pages ask again whenever the bastion publishes something, and most of them for the
same.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock

from markupsafe import Markup

MOST_PARTS = 6
"""Of half a megabyte at most each."""


class KeptParts:
    """The parts that were asked for last, by what they were made of."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._parts: OrderedDict[Hashable, Markup] = OrderedDict()

    def of(self, made_of: Hashable, make: Callable[[], str]) -> Markup:
        """The HTML that `make` returns for `made_of`; made once while it is kept."""
        with self._lock:
            if made_of not in self._parts:
                made = make()
                # A template made it, and escaped what it shows.
                self._parts[made_of] = Markup(made)  # noqa: S704
            self._parts.move_to_end(made_of)
            while len(self._parts) > MOST_PARTS:
                self._parts.popitem(last=False)
            return self._parts[made_of]
