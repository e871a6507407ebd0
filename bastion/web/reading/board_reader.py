"""
The board, kept fresh: read again when it is used, and kept while the bucket is unreachable.

A look never waits long for the bucket. One thread reads; a request in the meantime gets the last
good board, which says how old it is. A view whose version has not changed is neither transferred
nor parsed. While a leader publishes nothing, its other signs are read too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from threading import Lock
from typing import Any

from bastion.client.status.status_view import Signs, status_of
from bastion.client.status.view_reader import ViewReader
from bastion.clock import Clock
from bastion.errors import BastionError, StoreError
from bastion.store.port import Version
from bastion.value import value
from bastion.web.reading.board import Board, Published

LOG = logging.getLogger("bastion.web")
FIRST_S = 10.0
"""How long the very first look waits for the bucket."""
WAIT_S = 0.05
"""How long a later look waits for newer views before it uses the last good ones."""
NO_ANSWER = "The bucket is out of reach: it does not answer"
UNKNOWN_FORM = (
    "What the bastion published cannot be shown: it has an unknown form, and the log of bastion web"
    " says more"
)
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
    """Why newer views cannot be shown; empty while they can."""
    is_empty: bool = False
    """Whether no bastion has published anything."""


class BoardReader:
    """
    Reads the views of one bucket.

    Args:
        views: The views of the bucket, read without retries.
        wall: The date by the bucket's clock.
        clock: For ages and pauses.
        every_s: Minimum time between two reads.
    """

    def __init__(
        self, views: ViewReader, wall: Callable[[], float], clock: Clock, *, every_s: float
    ) -> None:
        self._views = views
        self._wall = wall
        self._clock = clock
        self._every_s = every_s
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="board")
        self._lock = Lock()
        self._reading: Future[None] | None = None
        self._is_empty = True
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
                trouble=self._trouble or (NO_ANSWER if age_s is None else ""),
                is_empty=self._is_empty,
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
            read = {name: self._views.published(name) for name in VIEWS}
            self._keep(read)
        except StoreError as error:
            self._trouble = f"The bucket is out of reach: {error.message}"
        except BastionError as error:
            self._trouble = f"What the bastion published cannot be read: {error.message}"
        except Exception:
            if self._trouble != UNKNOWN_FORM:
                LOG.exception("views of an unknown form")
            self._trouble = UNKNOWN_FORM

    def _keep(self, read: Mapping[str, tuple[Version, Mapping[str, Any]] | None]) -> None:
        found = {name: view for name, view in read.items() if view is not None}
        version = "-".join(str(view[0]) for view in found.values())
        board, signs = self._board, self._signs(found)
        if (version, signs) != (self._version, board.published.signs):
            views = {name: view[1] for name, view in found.items()}
            board = Board(Published(**views, signs=signs))
        with self._lock:
            self._is_empty, self._board, self._version = not found, board, version
            self._read_at, self._trouble = self._clock.monotonic(), ""

    def _signs(self, found: Mapping[str, tuple[Version, Mapping[str, Any]]]) -> Signs:
        """Return the other signs of a leader that is silent, or soon will be; none of any other."""
        if "status" not in found:
            return Signs()
        status = status_of(found["status"][1], wall=self._wall())
        is_quiet = bool(status.leader) and status.silent_s > status.patience_s / 2
        return self._views.signs(status) if is_quiet else Signs()


Looks = Callable[[], Look]
