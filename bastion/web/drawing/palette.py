"""The colour of a project: the same on every page, and never the only thing that tells it apart."""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

COLORS = 10
"""Colours that people tell apart; from the eleventh project on they repeat."""


class Palette:
    """
    The colours of the projects of one bucket.

    Args:
        projects: Those of the quota file, which get the first colours in the order of their names.
    """

    def __init__(self, projects: Iterable[str]) -> None:
        self.projects = tuple(sorted(projects))
        self._numbers = {name: n % COLORS for n, name in enumerate(self.projects)}

    def __call__(self, project: str) -> int:
        """The number of its colour; a project that has left the quota file keeps to one, too."""
        return self._numbers.get(project, crc32(project.encode()) % COLORS)
