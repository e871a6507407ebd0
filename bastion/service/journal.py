"""
The bastion's own log: lines on stderr, and in the bucket in case its machine is lost.

A problem that continues is logged once a minute.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from typing import Literal, TextIO

from bastion.clock import Clock
from bastion.errors import BastionError, ConflictError, NotFoundError, StoreError
from bastion.records.keys import layout
from bastion.records.root import Event
from bastion.store import ObjectStore

TAIL_BYTES = 64 * 1024
"""Size of the object that holds the latest lines."""
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
FLUSH_S = 10.0
"""Between two writes to the bucket: a busy bastion logs something in every turn."""
_STDERR = "standard error"
"""Names the problem that lines cannot be written to `out`."""
REPEAT_S = 60.0
"""A continuing problem is logged again after this long."""


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
        self._pending: list[str] = []
        self._tail = ""
        self._flushed_at = float("-inf")
        self._said: dict[str, tuple[str, float]] = {}
        self._over: set[str] = set()
        """Those of them that are solved; if one returns, the pace of its lines continues."""
        self._lacks: dict[str, str] = {}

    def note(self, line: str, *, level: Level = "info", **fields: str) -> None:
        """Log `line`; `fields` are names in it that programs look for, shown only in JSON."""
        if LEVELS.index(level) < self._least:
            return
        line = _shown(line, but="\n")  # a traceback has its own lines
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._clock.wall()))
        full = f"{stamp} {'' if level == 'info' else f'{level}: '}{line}\n"
        if self._as_json:
            told = {"at": stamp, "level": level, "bastion": self.name, "text": line, **fields}
            full = f"{json.dumps(told, ensure_ascii=False)}\n"
        self._pending.append(full)
        self._print(full)

    def _print(self, full: str) -> None:
        """Write to `out`; on a full disk, or a pipe without a reader, only the bucket has it."""
        if self._out is None:
            return
        try:
            self._out.write(full)
            self._out.flush()
        except OSError as error:
            why = f"cannot be written: {error.strerror or error}; the bucket has its lines"
            self._said[_STDERR] = (why, self._clock.monotonic())
            self._over.discard(_STDERR)
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

    def problem(self, what: str, error: Exception) -> None:
        """Log that `what` met `error`, once a minute while it continues."""
        text = error.message if isinstance(error, BastionError) else f"{error!r}"
        now = self._clock.monotonic()
        self._over.discard(what)
        said = self._said.pop(what, None)
        if said is not None:
            self._said[what] = said  # the latest last: the oldest is dropped first
        if said is not None and said[0] == text and now - said[1] < REPEAT_S:
            return
        self._said[what] = (text, now)
        if len(self._said) > MOST_SAID:
            oldest = next(iter(self._said))
            del self._said[oldest]
            self._over.discard(oldest)
        hint = f" (hint: {error.hint})" if isinstance(error, BastionError) and error.hint else ""
        self.note(f"{what}: {text}{hint}", level="warning")

    def solved(self, what: str) -> None:
        """Record that `what` has succeeded: an earlier problem with it is over."""
        if what in self._said:
            self._over.add(what)

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
        """Log that `what` met a bug of ours, with its traceback; the bastion continues."""
        lines = traceback.format_exception(error)
        self.problem(what, BastionError(f"internal error: {''.join(lines).strip()}"))

    @property
    def problems(self) -> tuple[str, ...]:
        """What went wrong in the last minute and continues, and what is missing, for `status`."""
        now = self._clock.monotonic()
        fresh = {
            what: text
            for what, (text, at) in self._said.items()
            if now - at < REPEAT_S and what not in self._over
        }
        return tuple(f"{what}: {text}" for what, text in sorted((self._lacks | fresh).items()))

    def flush(self, store: ObjectStore) -> Callable[[], None] | None:
        """
        Return the work that writes what was logged since the last flush, or None if none is due.

        The lines are a create-only segment named by the time, and the tail object is replaced.
        """
        now = self._clock.monotonic()
        if not self._pending or now - self._flushed_at < FLUSH_S:
            return None
        self._flushed_at = now
        text, self._pending = "".join(self._pending), []
        self._tail = (self._tail + text)[-TAIL_BYTES:]
        tail = self._tail.encode()
        segment = f"{layout.bastion_log_segments(self.name)}{int(self._clock.wall() * 1e6)}.log"

        def work() -> None:
            _quietly(lambda: store.create(segment, text.encode()))
            _replace(store, layout.bastion_log(self.name), tail)

        return work


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


def _replace(store: ObjectStore, key: str, data: bytes) -> None:
    try:
        found = store.read(key)
    except NotFoundError:
        _quietly(lambda: store.create(key, data))
        return
    assert found is not None
    _quietly(lambda: store.swap(key, data, if_version=found.version))


def _quietly(write: Callable[[], object]) -> None:
    """Do `write`, and ignore a failure: only for its own log can the bastion lose a race."""
    try:
        write()
    except (ConflictError, StoreError):
        return
