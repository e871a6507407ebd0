"""
`pattern`: a regular expression that is compiled on first use.

Compiling one takes at least 0.1 ms, and a short command loads a hundred of them and uses ten.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any


class _Later:
    def __init__(self, text: str, flags: int) -> None:
        self._written = text, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(*self._written), name)
        setattr(self, name, found)  # the next use finds it here
        return found


if TYPE_CHECKING:
    pattern = re.compile
else:

    def pattern(text: str, flags: int = 0) -> re.Pattern[str]:
        """Return what `re.compile` returns for `text`, but compile it on first use."""
        return _Later(text, flags)
