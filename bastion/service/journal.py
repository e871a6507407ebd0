"""
The bastion's own log: lines on stderr, which `kept_log` also writes to the bucket.

A problem that continues is logged once a minute, and once more when it is over.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TextIO

from bastion.clock import Clock
from bastion.errors import BastionError, StoreError
from bastion.records.root import Event
from bastion.spec.values.quantity import text_of_seconds

MOST_PENDING = 1 << 20
"""Characters that wait for the bucket: a day of an outage has about half as many."""
MOST_SAID = 1_000
"""Maximum problems that are remembered: some name a key of the inbox, and never return."""
Level = Literal["debug", "info", "warning"]
LEVELS: tuple[Level, ...] = ("debug", "info", "warning")
MOST_ALIKE = 10
"""Maximum events of one kind in one commit that get their own lines."""
_BAD = frozenset(
    {"failed", "lost", "timed_out", "out_of_memory", "setup_failed", "machine gone"}
    | {
        "machine unwell",
        "machine failed",
        "machine not made",
        "final record replaced",
        "notification given up",
        "notification dropped",
    }
)
"""Events that an operator looks for."""
_PASSING = frozenset({"shares", "draining", "ready", "exec", "machine greeted", "machine deaf"})
"""Events that only a developer looks for."""
_STDERR = "standard error"
"""Names the problem that lines cannot be written to `out`."""
REPEAT_S = 60.0
"""A continuing problem is logged again after this long."""
OVER_S = 10.0
"""The end of a problem is logged if it has lasted this long: most others last for one call."""


@dataclass(slots=True)
class _Problem:
    """What was last logged about a problem."""

    text: str
    same: str
    """What it has in common with the same problem met again: its text, or where it arose."""
    logged_at: float
    since: float
    of: str
    """Which of several alike it is about."""
    met_at: float
    is_over: bool = False
    """It is solved; if it returns, the pace of its lines continues."""


class Journal:
    """
    Log lines about what the bastion does.

    Args:
        name: Name of the bastion.
        out: Where lines are written immediately, or None for nowhere.
        level: Lines below it are left out.
        as_json: One JSON object per line, for programs that collect logs.
    """

    def __init__(
        self,
        name: str,
        clock: Clock,
        *,
        out: TextIO | None = sys.stderr,
        level: Level = "info",
        as_json: bool = False,
    ) -> None:
        self.name = name
        self._least = LEVELS.index(level)
        self._as_json = as_json
        self._clock = clock
        self._out = out
        self._pending: deque[str] = deque()
        self._pending_size = 0
        self._dropped = 0
        """Lines that the bucket never got, since the last `drain`."""
        self._said: dict[str, _Problem] = {}
        self._lacks: dict[str, str] = {}

    def note(self, line: str, *, level: Level = "info", **fields: str) -> None:
        """Log `line`; `fields` are names in it that programs look for, shown only in JSON."""
        if LEVELS.index(level) < self._least:
            return
        full = self._full(line, level, fields)
        self._pending.append(full)
        self._pending_size += len(full)
        while self._pending_size > MOST_PENDING and len(self._pending) > 1:
            self._pending_size -= len(self._pending.popleft())
            self._dropped += 1
        self._print(full)

    def drain(self) -> str:
        """Return the lines since the last call, oldest first, and how many were dropped."""
        lines, dropped = "".join(self._pending), self._dropped
        self._pending.clear()
        self._pending_size = self._dropped = 0
        if not dropped:
            return lines
        count = "1 line is" if dropped == 1 else f"{dropped:,} lines are"
        why = f"{count} missing here: the bucket could not be written"
        return self._full(why, "warning", {}) + lines

    def _full(self, line: str, level: Level, fields: Mapping[str, str]) -> str:
        """Return `line` as it is written, with the time and a line break."""
        line = _shown(line, but="\n")  # a traceback has its own lines
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._clock.wall()))
        if not self._as_json:
            return f"{stamp} {'' if level == 'info' else f'{level}: '}{line}\n"
        told = {"at": stamp, "level": level, "bastion": self.name, "text": line, **fields}
        return f"{json.dumps(told, ensure_ascii=False)}\n"

    def _print(self, full: str) -> None:
        """Write to `out`; on a full disk, or a pipe without a reader, only the bucket has it."""
        if self._out is None:
            return
        try:
            self._out.write(full)
            self._out.flush()
        except OSError as error:
            why = f"cannot be written: {error.strerror or error}; the bucket has its lines"
            now = self._clock.monotonic()
            self._said[_STDERR] = _Problem(
                text=why, same=why, logged_at=now, since=now, of=_STDERR, met_at=now
            )
        else:
            self.solved(_STDERR)

    def tell_events(self, events: Iterable[Event]) -> None:
        """
        Log what was committed: machines that came and went, jobs that started and ended.

        Many events of one kind in one commit, such as those of an array's tasks, are one line.
        """
        kinds: dict[str, list[Event]] = {}
        for event in events:
            kinds.setdefault(event.what, []).append(event)
        for what, alike in kinds.items():
            level: Level = "debug" if what in _PASSING else "info"
            level = "warning" if what in _BAD else level
            if len(alike) > MOST_ALIKE:
                self.note(f"{what}: {len(alike)} jobs, {alike[0].job} the first", level=level)
                continue
            for event in alike:
                about = f"{event.job} {what}" if event.job else what
                line = f"{about}: {event.text}" if event.text else about
                self.note(
                    _shown(line), level=level, job=event.job, project=event.project, what=what
                )

    def problem(self, what: str, error: Exception, *, of: str = "", same: str = "") -> None:
        """
        Log that `what` met `error`, once a minute while it continues.

        A refusal meets a thousand objects at the same time: of all that are called `what`, only the
        one called `of` is logged, until it is solved or has not been met for a minute. Another text
        is another problem, unless `same` is given and is as before.
        """
        text = error.message if isinstance(error, BastionError) else f"{error!r}"
        of, same = of or what, same or text
        now = self._clock.monotonic()
        said = self._said.get(what)
        if said is not None and said.of != of and not said.is_over and now - said.met_at < REPEAT_S:
            return
        self._said.pop(what, None)
        since = now if said is None or said.is_over else said.since
        if said is not None and said.same == same and now - said.logged_at < REPEAT_S:
            said.since, said.is_over, said.met_at = since, False, now
            self._said[what] = said  # the latest last: the oldest is dropped first
            return
        self._said[what] = _Problem(
            text=text, same=same, logged_at=now, since=since, of=of, met_at=now
        )
        if len(self._said) > MOST_SAID:
            del self._said[next(iter(self._said))]
        hint = f" (hint: {error.hint})" if isinstance(error, BastionError) and error.hint else ""
        self.note(f"{what}: {text}{hint}", level="warning")

    def solved(self, *whats: str, of: str = "") -> None:
        """Record that each of `whats` has succeeded: an earlier problem with it is over."""
        for what in whats:
            said = self._said.get(what)
            if said is None or said.is_over or said.of != (of or what):
                continue
            said.is_over = True
            lasted_s = self._clock.monotonic() - said.since
            if lasted_s >= OVER_S:
                self.note(f"{what}: works again after {text_of_seconds(float(int(lasted_s)))}")

    def met(self, what: str, trouble: str) -> None:
        """Record that `what` was tried again: it met `trouble`, or none if that is empty."""
        if trouble:
            self.problem(what, StoreError(trouble))
        else:
            self.solved(what)

    def lack(self, what: str, text: str) -> None:
        """Log once that `what` lacks something until this bastion is restarted."""
        if self._lacks.get(what) != text:
            self._lacks[what] = text
            self.note(f"{what}: {text}", level="warning")

    def failure(self, what: str, error: Exception) -> None:
        """
        Log that `what` met a bug of ours, with its traceback; the bastion continues.

        One that arises at the same place is the same: its message often names another job or time.
        """
        lines = traceback.format_exception(error)
        place = "".join((type(error).__name__, *traceback.format_tb(error.__traceback__)))
        self.problem(what, BastionError(f"internal error: {''.join(lines).strip()}"), same=place)

    @property
    def problems(self) -> tuple[str, ...]:
        """What went wrong in the last minute and continues, and what is missing, for `status`."""
        now = self._clock.monotonic()
        fresh = {
            what: said.text
            for what, said in self._said.items()
            if now - said.met_at < REPEAT_S and not said.is_over
        }
        return tuple(f"{what}: {text}" for what, text in sorted((self._lacks | fresh).items()))


def _shown(text: str, *, but: str = "") -> str:
    """
    Return `text` with control characters escaped: parts of it come from users and servers.

    A line break would start a line that the bastion never wrote.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in but else each.encode("unicode_escape").decode()
        for each in text
    )
