"""
`Exchange`: one HTTP request to a store's server, sent once, and its whole answer.

A request has a deadline for everything until the end of its answer, and a limit for what is
received. An answer that may be incomplete is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from bastion.clock import SystemClock
from bastion.errors import StoreError
from bastion.store.date import AnswerDate
from bastion.store.network_fault import fault_of
from bastion.value import value

if TYPE_CHECKING:
    import urllib3

_CLOCK = SystemClock()
"""The clock for deadlines of real connections; no simulation has one."""
_CONNECT_S = 5.0
_SILENCE_S = 20.0
"""Longest silence within an answer: far above what clouds need for one, and below any lease."""

_CONNECTIONS = 32
"""Connections kept open: as many as the lanes of one bastion use together."""

_CHUNK_BYTES = 1 << 20
"""Bytes received between two checks of the deadline and the limit."""

_WITH_LENGTH = frozenset({200, 201, 202})
"""Statuses of success whose answers have a length; 204 has no body, and so none."""

ANSWER_BYTES = 16 << 20
"""Longest answer that is not an object: a page of 1,000 entries is below 3 MB."""


@value
class Answer:
    """The whole answer to one request."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    """At most a chunk above the limit: then the rest was not received."""


class Exchange:
    """
    Requests to one server.

    Args:
        place: The bucket, as error messages name it.
        server: URL of the server, for error messages.
        deadline_s: Longest time from a request to the end of its answer.
    """

    def __init__(self, place: str, server: str, deadline_s: float) -> None:
        import urllib3

        from bastion.store.roads import Roads

        self._place = place
        self._server = server
        self._deadline_s = deadline_s
        self._date = AnswerDate()
        self.roads = Roads(
            maxsize=_CONNECTIONS,
            retries=False,
            timeout=urllib3.Timeout(
                connect=min(_CONNECT_S, deadline_s), read=min(_SILENCE_S, deadline_s)
            ),
        )

    def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        *,
        limit_bytes: int = ANSWER_BYTES,
    ) -> Answer:
        """
        Send one request once.

        A body above `limit_bytes` is cut there, and its connection is closed.

        Raises:
            StoreError: There is no complete answer.
        """
        import urllib3

        deadline = _CLOCK.monotonic() + self._deadline_s
        try:
            response = self.roads.request(
                method, url, body=body, headers=headers, redirect=False, preload_content=False
            )
            self._date.hear(response.headers.get("date"))
            try:
                received = _received(response, deadline, limit_bytes)
            except BaseException:
                response.close()
                raise
            if len(received) > limit_bytes:
                response.close()
            response.release_conn()
        except (urllib3.exceptions.HTTPError, OSError) as error:
            fault = fault_of(error, self._server)
            raise StoreError(
                f"{self._place} did not answer: {fault.what}", hint=fault.hint
            ) from error
        if response.status in _WITH_LENGTH and not _tells_its_end(response.headers):
            raise StoreError(f"{self._place} sent an incomplete answer")
        return Answer(status=response.status, headers=response.headers, body=received)

    def date(self) -> float | None:
        """See `Dated`."""
        return self._date.now()


def _received(response: urllib3.BaseHTTPResponse, deadline: float, limit_bytes: int) -> bytes:
    """Return the body, up to just above the limit; a slow one is cut off at the deadline."""
    chunks = []
    left = limit_bytes
    while left >= 0 and (chunk := response.read1(_CHUNK_BYTES, decode_content=False)):
        chunks.append(chunk)
        left -= len(chunk)
        if _CLOCK.monotonic() > deadline:
            raise TimeoutError("still sending when the time was up")
    return b"".join(chunks)


def _tells_its_end(headers: Mapping[str, str]) -> bool:
    """
    Whether these are the headers of a complete answer.

    If a connection breaks within the headers, they look complete and the body looks empty. An
    answer without a length is therefore refused.
    """
    return "content-length" in headers or "transfer-encoding" in headers
