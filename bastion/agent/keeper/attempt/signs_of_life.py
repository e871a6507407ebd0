"""The signs of life of one attempt: which count, and when the last was seen; standard library."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bastion.agent.keeper.attempt.tools import Tool
    from bastion.agent.keeper.socket.request import Rule

_LOOKS = 60
"""In one idle time: a job that uses its devices a tenth of the time is missed once in 500 times."""

_PAUSES_S = (0.05, 30.0)
"""Between two looks: shortest and longest."""

_WORDS = {"output": "output", "devices": "device use", "processor": "processor use"}


class Watch:
    """The signs of life of one attempt."""

    __slots__ = ("is_told", "look_at", "looked", "path", "rule", "seen_at", "smi", "tool")

    def __init__(self, rule: Rule, path: str, now: float) -> None:
        self.rule = rule
        self.path = path
        self.smi = _found("nvidia-smi", path) if rule.devices and "devices" in rule.signs else ""
        self.seen_at = now
        """When it last showed one."""
        self.look_at = now
        self.looked: tuple[float, float] | None = None
        """When it was last looked at, and the seconds of processor time that it had used."""
        self.tool: Tool | None = None
        self.is_told = False
        """Whether it was dumped for this silence."""

    @property
    def pause_s(self) -> float:
        """Between two looks."""
        shortest_s, longest_s = _PAUSES_S
        return min(longest_s, max(shortest_s, self.rule.timeout_s / _LOOKS))

    def text(self) -> str:
        """What it has not shown, and for how long."""
        wanted = [sign for sign in _WORDS if sign in self.rule.signs]
        if not self.smi and len(wanted) > 1:
            wanted = [sign for sign in wanted if sign != "devices"]
        words = [f"no {_WORDS[sign]}" for sign in wanted]
        first = ", ".join(words[:-1])
        said = f"{first} and {words[-1]}" if first else words[-1]
        return f"{said} for {span(self.rule.timeout_s)}"


def span(seconds: float) -> str:
    """A time as a person says it: `30 min`, `2 h`, `90 s`."""
    for unit_s, word in ((3600.0, "h"), (60.0, "min")):
        if seconds >= unit_s and seconds % unit_s == 0:
            return f"{seconds / unit_s:g} {word}"
    return f"{seconds:g} s"


def _found(program: str, path: str) -> str:
    """The program in the folders of `path`, or empty."""
    for folder in path.split(":"):
        found = f"{folder}/{program}"
        if folder.startswith("/") and os.access(found, os.X_OK) and os.path.isfile(found):
            return found
    return ""
