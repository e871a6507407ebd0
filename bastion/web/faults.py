"""
Unforeseen errors of the pages themselves: each becomes a page, and its traceback a log line.

It is inside `Access`, so such a page has the same security headers as all others.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOG = logging.getLogger("bastion.web")


class Faults:
    """
    Answers for an application that raised an exception.

    Args:
        app: The application.
        page: Creates the answer; called only if nothing has been answered yet.
    """

    def __init__(self, app: ASGIApp, page: Callable[[Request], Awaitable[Response]]) -> None:
        self._app = app
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        has_begun = False

        async def send_noted(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, send_noted)
        except ClientDisconnect:
            return  # the client is gone
        except Exception:
            if scope["type"] != "http" or has_begun:
                raise
            LOG.exception("%s %s", scope["method"], scope["path"])
            answer = await self._page(Request(scope))
            await answer(scope, receive, send)
