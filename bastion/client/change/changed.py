"""The jobs that a request changed, and those of them that had ended already."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_SHOWN = 8
"""Ended jobs that are named."""


class Changed(tuple[str, ...]):
    """
    The ids of the jobs that were changed: a tuple.

    Args:
        jobs: Their ids.
        ended: The state of each job that had ended already, and stays as it was.
    """

    ended: Mapping[str, str]

    def __new__(cls, jobs: Iterable[str], ended: Mapping[str, str]) -> Changed:
        """Make it."""
        made = super().__new__(cls, jobs)
        made.ended = ended
        return made

    def __repr__(self) -> str:
        told = tuple.__repr__(self)
        if not self.ended:
            return told
        named = [f"{job} has ended: {state}" for job, state in self.ended.items()][:_SHOWN]
        rest = len(self.ended) - _SHOWN
        more = f"; {rest} more have ended" if rest > 0 else ""
        nothing = "" if self else "nothing to do: "
        return f"<{told}; {nothing}{'; '.join(named)}{more}>"
