"""The color of a project: the same on every page, and never its only distinction."""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

COLORS = 10
"""Colors that people can distinguish; from the eleventh project on they repeat."""


class Palette:
    """
    The colors of the projects of one bucket.

    Args:
        projects: Those of the quota file, which get the first colors in the order of their names.
    """

    def __init__(self, projects: Iterable[str]) -> None:
        self.projects = tuple(sorted(projects))
        self._numbers = {name: n % COLORS for n, name in enumerate(self.projects)}

    def __call__(self, project: str) -> int:
        """Return the number of its color; a project that left the quota file also keeps one."""
        return self._numbers.get(project, crc32(project.encode()) % COLORS)
