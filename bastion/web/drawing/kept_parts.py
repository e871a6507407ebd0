"""
Cached parts of pages: the same for every reader until what they show changes.

A hundred open pages reload whenever the bastion publishes something, and most of them show the same
content.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock

from markupsafe import Markup

MOST_PARTS = 6
"""Of at most half a megabyte each."""


class KeptParts:
    """The most recently used parts, by their inputs."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._parts: OrderedDict[Hashable, Markup] = OrderedDict()

    def of(self, made_of: Hashable, make: Callable[[], str]) -> Markup:
        """Return the HTML that `make` returns for `made_of`; created once while it is cached."""
        with self._lock:
            if made_of not in self._parts:
                made = make()
                # A template created it, and escaped its contents.
                self._parts[made_of] = Markup(made)  # noqa: S704
            self._parts.move_to_end(made_of)
            while len(self._parts) > MOST_PARTS:
                self._parts.popitem(last=False)
            return self._parts[made_of]
