"""
What is pushed to open pages: that something was published, and the output of a followed log.

One task reads the views for all open pages, and only while there are any. The number of followers
is limited: beyond it, a page says that it does not update itself. A closed page frees its place.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from anyio.to_thread import run_sync
from sse_starlette import EventSourceResponse
from starlette.exceptions import HTTPException

from bastion.errors import BastionError
from bastion.web.reading.log_tail import LogTail, Printed

PING_S = 20
"""Between two signs of life: proxies close connections that are silent for a minute."""


class Followers:
    """The places for open pages and logs; at most `most` are in use."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.count = 0
        """Number of places in use."""

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Hold a place inside the block."""
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1

    def refuse_crowd(self) -> None:
        """
        Check that a place is free.

        Raises:
            HTTPException: 503, with the time after which to retry.
        """
        if self.count >= self._most:
            raise HTTPException(
                503,
                f"{self._most} pages and logs are followed already; reload to see what is new",
                headers={"retry-after": "30"},
            )


class Live:
    """
    Follows the views and logs for open pages.

    Args:
        version: Returns a value that changes whenever a page would; may wait for the bucket.
        followers: The places.
        board_s: Time between two reads of the views.
        log_s: Time between two reads of the end of a log.
    """

    def __init__(
        self,
        version: Callable[[], str],
        followers: Followers,
        *,
        board_s: float,
        log_s: float,
    ) -> None:
        self._version_now = version
        self._followers = followers
        self._board_s = board_s
        self._log_s = log_s
        self._changed = asyncio.Condition()
        self._version = ""
        self._task: asyncio.Task[None] | None = None

    def board(self, version: str) -> EventSourceResponse:
        """
        Return an event for every change of the views since `version`.

        Raises:
            HTTPException: Every place is in use.
        """
        self._followers.refuse_crowd()
        return EventSourceResponse(self._changes(version), ping=PING_S)

    def log(self, tail: LogTail, is_over: Callable[[], bool]) -> EventSourceResponse:
        """
        Return what `tail` finds, until `is_over()` and no more output arrives.

        The ID of each event is the offset from which a reconnecting browser continues.

        Raises:
            HTTPException: Every place is in use.
        """
        self._followers.refuse_crowd()
        return EventSourceResponse(self._prints(tail, is_over), ping=PING_S)

    async def _changes(self, version: str) -> AsyncIterator[dict[str, str]]:
        async with self._followers.place():
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._look())
            while True:
                async with self._changed:
                    while self._version in ("", version):
                        await self._changed.wait()
                    version = self._version
                yield {"event": "changed", "data": version}

    async def _look(self) -> None:
        """Read the version as long as any page follows it."""
        while self._followers.count:
            version = await run_sync(self._version_now)
            if version != self._version:
                async with self._changed:
                    self._version = version
                    self._changed.notify_all()
            await asyncio.sleep(self._board_s)

    async def _prints(
        self, tail: LogTail, is_over: Callable[[], bool]
    ) -> AsyncIterator[dict[str, str]]:
        async with self._followers.place():
            while True:
                over = await run_sync(is_over)
                found: tuple[Printed, ...] = ()
                with suppress(BastionError):  # the bucket may be reachable at the next look
                    found = await run_sync(tail.look)
                for each in found:
                    data = json.dumps({"text": each.text, "unfinished": each.unfinished})
                    yield {"event": "text", "id": str(each.at), "data": data}
                if found:
                    continue
                if over:
                    yield {"event": "over", "data": ""}
                    return
                await asyncio.sleep(self._log_s)
