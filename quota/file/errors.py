"""What is wrong with a quota file: every problem, each with its line."""

from __future__ import annotations

from quota.bastion_error import shortened
from quota.value import value


@value
class Problem:
    """
    One thing that is wrong; as text: `line 7: project_resources.p.v4: what is wrong`.

    A long text is shortened in the middle.
    """

    line: int
    """Counted from 1; also 1 for something that is missing from the whole file."""
    path: str
    """The place in the file, keys joined by dots; empty for text that is not TOML."""
    text: str
    """What is wrong, the value, what is allowed."""

    def __str__(self) -> str:
        return shortened(f"line {self.line}: {self.path}{': ' if self.path else ''}{self.text}")


class QuotaError(Exception):
    """
    A quota file is wrong; the last good quota stays in force.

    Args:
        problems: Every problem found, in the order of the file.
    """

    def __init__(self, *problems: Problem) -> None:
        super().__init__(*problems)
        self.problems = problems

    def __str__(self) -> str:
        """All problems on one line; show `problems` one by one if there is room."""
        return "; ".join(str(problem) for problem in self.problems)
