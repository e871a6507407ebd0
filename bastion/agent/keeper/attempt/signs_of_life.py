"""The signs of life of one attempt: which count, and when the last was seen; standard library."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bastion.agent.keeper.attempt.tools import Tool
    from bastion.agent.keeper.socket.request import Rule

_CHECKS = 60
"""Checks in one idle timeout. Use of devices a tenth of the time is missed in 1 of 500 timeouts."""

_PAUSES_S = (0.05, 30.0)
"""Shortest and longest time between two checks."""

_WORDS = {"output": "output", "devices": "device use", "processor": "CPU use"}


class Watch:
    """The signs of life of one attempt."""

    __slots__ = ("check_at", "checked", "is_reported", "path", "rule", "seen_at", "smi", "tool")

    def __init__(self, rule: Rule, path: str, now: float) -> None:
        self.rule = rule
        self.path = path
        self.smi = _found("nvidia-smi", path) if rule.devices and "devices" in rule.signs else ""
        self.seen_at = now
        """When the last sign was seen."""
        self.check_at = now
        self.checked: tuple[float, float] | None = None
        """Time of the last check, and the CPU seconds used until then."""
        self.tool: Tool | None = None
        self.is_reported = False
        """Whether its stacks were dumped for the present silence."""

    @property
    def pause_s(self) -> float:
        """Seconds between two checks."""
        shortest_s, longest_s = _PAUSES_S
        return min(longest_s, max(shortest_s, self.rule.timeout_s / _CHECKS))

    def text(self) -> str:
        """Name the signs that are missing, and for how long."""
        wanted = [sign for sign in _WORDS if sign in self.rule.signs]
        if not self.smi and len(wanted) > 1:
            wanted = [sign for sign in wanted if sign != "devices"]
        words = [f"no {_WORDS[sign]}" for sign in wanted]
        first = ", ".join(words[:-1])
        missing = f"{first} and {words[-1]}" if first else words[-1]
        return f"{missing} for {span(self.rule.timeout_s)}"


def span(seconds: float) -> str:
    """Format a time for people: `30 min`, `2 h`, `90 s`."""
    for unit_s, word in ((3600.0, "h"), (60.0, "min")):
        if seconds >= unit_s and seconds % unit_s == 0:
            return f"{seconds / unit_s:g} {word}"
    return f"{seconds:g} s"


def _found(program: str, path: str) -> str:
    """Return the path of a program in the folders of `path`, or empty."""
    for folder in path.split(":"):
        found = f"{folder}/{program}"
        if folder.startswith("/") and os.access(found, os.X_OK) and os.path.isfile(found):
            return found
    return ""
