"""A whole log as a download: streamed in bounded memory, to a bounded number of readers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from itertools import chain
from typing import Any

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

MOST = 8
"""Simultaneous downloads: each holds a few megabytes of its log."""
_END = b""


class Downloads:
    """
    The downloads of one server.

    Args:
        most: Maximum number of simultaneous downloads.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._threads = CapacityLimiter(most)
        """Threads of their own: a slow bucket must not take those of pages."""
        self._count = 0

    async def of(self, chunks: Iterator[bytes], *, name: str) -> Response:
        """
        Return a file called `name` with `chunks`; an error after the first breaks it off.

        Raises:
            BastionError: Its beginning cannot be read.
            HTTPException: Too many downloads are under way.
        """
        if self._count >= self._most:
            raise HTTPException(
                503,
                f"{self._most} logs are being downloaded already; try again in a moment",
                headers={"retry-after": "10"},
            )
        self._count += 1
        try:
            first = await run_sync(lambda: next(chunks, _END), limiter=self._threads)
        except BaseException:
            self._ended()
            raise
        return _Download(
            self._streamed(chain([first], chunks)),
            media_type="text/plain; charset=utf-8",
            headers={"content-disposition": f'attachment; filename="{name}"'},
            ended=self._ended,
        )

    def _ended(self) -> None:
        self._count -= 1

    async def _streamed(self, chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
        while chunk := await run_sync(lambda: next(chunks, _END), limiter=self._threads):
            yield chunk


class _Download(StreamingResponse):
    """An answer that reports its end, even if its reader leaves before the first byte."""

    def __init__(self, *args: Any, ended: Callable[[], None], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._ended()
