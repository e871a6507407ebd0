"""A server whose answers are fixed."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.rigs.limits import on_thread


@contextmanager
def canned(
    answer: bytes | Callable[[bytes], bytes],
    *,
    drip: bytes = b"",
    heard: list[bytes] | None = None,
    on_drip: Callable[[], object] = lambda: None,
) -> Iterator[str]:
    """
    Run a server that answers each connection once with `answer`, and give its URL.

    Args:
        answer: The entire answer, including the status line; or the one to a request.
        drip: Bytes to send every 20 ms after the answer, without end.
        heard: Collects the requests.
        on_drip: Called after each drip.
    """
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:

        def talk() -> None:
            while not ended.is_set():
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                with client:
                    asked = _request(client)
                    if heard is not None:
                        heard.append(asked)
                    client.sendall(answer if isinstance(answer, bytes) else answer(asked))
                    while drip and not ended.wait(0.02):
                        client.sendall(drip)
                        on_drip()

        thread = on_thread(talk)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            ended.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(5)


def _request(client: socket.socket) -> bytes:
    """Return an entire request: an earlier answer may meet a client that cannot send the rest."""
    asked = b""
    while part := client.recv(65536):
        asked += part
        head, end, body = asked.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)^content-length: *(\d+)", head, re.MULTILINE)
        if end and len(body) >= (int(length[1]) if length else 0):
            break
    return asked
