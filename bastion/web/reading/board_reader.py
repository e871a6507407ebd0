"""
The board, kept fresh: read again when it is used, and kept while the bucket is unreachable.

A look never waits long for the bucket. One thread reads; a request in the meantime gets the last
good board, which says how old it is. A view whose version has not changed is neither transferred
nor parsed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from threading import Lock
from typing import Any

from bastion.clock import Clock
from bastion.errors import BastionError, NotFoundError
from bastion.records.keys import layout
from bastion.store.port import ObjectStore, Version
from bastion.value import value
from bastion.web.reading.board import Board, Published

FIRST_S = 10.0
"""How long the very first look waits for the bucket."""
WAIT_S = 0.05
"""How long a later look waits for newer views before it uses the last good ones."""
VIEWS = ("queue", "pool", "status")


@value
class Look:
    """The board as far as it is known."""

    board: Board
    version: str = ""
    """Changes whenever any view does."""
    read_s: float | None = None
    """How long ago the last read was, by this machine's clock; None if there was none."""
    trouble: str = ""
    """Why the bucket cannot be read now; empty while it can."""
    is_empty: bool = False
    """Whether no bastion has published anything."""


class BoardReader:
    """
    Reads the views of one bucket.

    Args:
        store: The bucket; called once per read, without retries.
        clock: For ages and pauses.
        every_s: Minimum time between two reads.
    """

    def __init__(self, store: ObjectStore, clock: Clock, *, every_s: float) -> None:
        self._store = store
        self._clock = clock
        self._every_s = every_s
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="board")
        self._lock = Lock()
        self._reading: Future[None] | None = None
        self._known: dict[str, tuple[Version, Any]] = {}
        self._board = Board(Published())
        self._version = ""
        self._read_at: float | None = None
        self._tried_at = float("-inf")
        self._trouble = ""

    def look(self) -> Look:
        """Return the newest board that is available soon."""
        self._wait(self._begin(), FIRST_S if self._read_at is None else WAIT_S)
        with self._lock:
            age_s = None if self._read_at is None else self._clock.monotonic() - self._read_at
            return Look(
                board=self._board,
                version=self._version,
                read_s=age_s,
                trouble=self._trouble or ("the bucket does not answer" if age_s is None else ""),
                is_empty=not self._known,
            )

    def close(self) -> None:
        """Stop reading."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _begin(self) -> Future[None] | None:
        """Return the current read, started now if one is due; None if there is none."""
        with self._lock:
            if self._reading is not None and not self._reading.done():
                return self._reading
            if self._clock.monotonic() - self._tried_at < self._every_s:
                return None
            self._tried_at = self._clock.monotonic()
            self._reading = self._thread.submit(self._read)
            return self._reading

    @staticmethod
    def _wait(reading: Future[None] | None, seconds: float) -> None:
        if reading is not None:
            wait_for([reading], timeout=seconds)

    def _read(self) -> None:
        try:
            known = {name: self._view(name) for name in VIEWS}
        except BastionError as error:
            with self._lock:
                self._trouble = error.message
            return
        found = {name: view for name, view in known.items() if view is not None}
        version = "-".join(str(view[0]) for view in found.values())
        board = self._board
        if version != self._version:
            board = Board(Published(**{name: view[1] for name, view in found.items()}))
        with self._lock:
            self._known, self._board, self._version = found, board, version
            self._read_at, self._trouble = self._clock.monotonic(), ""

    def _view(self, name: str) -> tuple[Version, Mapping[str, Any]] | None:
        """Return the view `name` and its version; None if there is none."""
        known = self._known.get(name)
        try:
            found = self._store.read(layout.view(name), unless=known[0] if known else None)
        except NotFoundError:
            return None
        if found is None:
            return known
        try:
            parsed = json.loads(found.data)
        except ValueError as error:
            raise BastionError(f"{layout.view(name)}: not JSON, {error}") from None
        if not isinstance(parsed, dict) or parsed.get("schema") != 1:
            raise BastionError(
                f"{layout.view(name)}: its schema is not known here",
                hint="upgrade: pip install --upgrade bastion-orchestrator",
            )
        return found.version, parsed


Looks = Callable[[], Look]
