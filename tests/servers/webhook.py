"""A webhook on loopback that records what it receives and answers as scripted."""

from __future__ import annotations

import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.rigs.limits import answering


class Receiver:
    """
    What was received, and what to answer.

    `answers` are used one per request, and the last one for all that follow. Each is a status, a
    status with headers, `hang` or `reset`.
    """

    def __init__(self) -> None:
        self.answers: list[int | tuple[int, dict[str, str]] | str] = [200]
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.on_request: Callable[[], None] = lambda: None
        self.is_over = threading.Event()
        self.url = ""

    @property
    def ids(self) -> list[str]:
        """Return the ids of the received notifications, in order."""
        return [headers["Bastion-Notification"] for headers in self.headers]

    def next_answer(self) -> int | tuple[int, dict[str, str]] | str:
        """Return the next answer."""
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@contextmanager
def receiver(*, certificate: Path | None = None) -> Iterator[Receiver]:
    """
    Run a webhook.

    Args:
        certificate: A certificate with its key for `localhost`; with it the webhook uses TLS.
    """
    made = Receiver()

    class Talk(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            made.headers.append(dict(self.headers))
            made.paths.append(self.path)
            made.bodies.append(json.loads(body))
            made.on_request()
            answer = made.next_answer()
            if answer == "hang":
                made.is_over.wait()
            elif answer == "reset":
                self.connection.setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                )
                self.connection.close()
                self.close_connection = True
            else:
                status, headers = answer if isinstance(answer, tuple) else (answer, {})
                self.send_response(int(status))
                for name, text in headers.items():
                    self.send_header(name, text)
                self.send_header("Content-Length", "0")
                self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """Ignore broken connections: tests break them on purpose."""

    server = Server(("127.0.0.1", 0), Talk)
    scheme = "http"
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "https"
    host = "localhost" if certificate else "127.0.0.1"
    made.url = f"{scheme}://{host}:{server.server_port}"
    with answering(server):
        try:
            yield made
        finally:
            made.is_over.set()
