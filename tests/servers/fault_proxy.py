"""
A bad network between a client and a server: an HTTP proxy that drops, cuts and repeats.

Each request is forwarded on a separate connection, so one fault affects one exchange.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from enum import Enum
from types import TracebackType

from tests.rigs.limits import joined, on_thread


class Fault(Enum):
    """What happens to one exchange."""

    NONE = "it goes through"
    REFUSE = "the connection closes before the server sees anything"
    CUT_REQUEST = "the server sees half of the request"
    DROP_ANSWER = "the server answers, the client sees nothing"
    CUT_ANSWER = "the client sees half of the answer"
    GATEWAY = "the server answers, the client is told 504"
    TWICE_FIRST = "the server sees the request twice, the client the first answer"
    TWICE_LAST = "the server sees the request twice, the client the last answer"
    HANG = "the server answers, the client waits"
    FORBIDDEN = "the server sees nothing, the client is told 403"


class FaultProxy:
    """
    A proxy for the server at `port` of this machine, within its `with` block.

    Args:
        faults: Called once per exchange; returns the fault.
    """

    def __init__(self, port: int, faults: Callable[[], Fault]) -> None:
        self._upstream = ("127.0.0.1", port)
        self._faults = faults
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._ended = threading.Event()

    @property
    def url(self) -> str:
        """Return the URL that a client uses."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> FaultProxy:
        self._thread = on_thread(self._accept)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        joined(self._thread)

    def _accept(self) -> None:
        while not self._ended.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            on_thread(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        with client:
            request = _request(client)
            if request:
                self._exchange(client, request, self._faults())

    def _exchange(self, client: socket.socket, request: bytes, fault: Fault) -> None:
        match fault:
            case Fault.REFUSE:
                return
            case Fault.FORBIDDEN:
                head = b"HTTP/1.1 403 Forbidden\r\nConnection: close\r\n"
                client.sendall(head + b"Content-Length: 0\r\n\r\n")
                return
            case Fault.CUT_REQUEST:
                self._send(request[: len(request) // 2], cut=True)
                return
            case Fault.TWICE_FIRST:
                answer = self._send(request)
                self._send(request)
            case Fault.TWICE_LAST:
                self._send(request)
                answer = self._send(request)
            case _:
                answer = self._send(request)
        match fault:
            case Fault.DROP_ANSWER:
                return
            case Fault.HANG:
                self._ended.wait()
            case Fault.CUT_ANSWER:
                client.sendall(answer[: len(answer) // 2])
            case Fault.GATEWAY:
                head = b"HTTP/1.1 504 Gateway Timeout\r\nConnection: close\r\n"
                client.sendall(head + b"Content-Length: 0\r\n\r\n")
            case _:
                client.sendall(answer)

    def _send(self, request: bytes, *, cut: bool = False) -> bytes:
        with socket.create_connection(self._upstream) as server:
            server.sendall(request)
            if cut:
                server.shutdown(socket.SHUT_WR)
            answer = b""
            while chunk := server.recv(1 << 16):
                answer += chunk
            return answer


def _request(client: socket.socket) -> bytes:
    """Return the next request, rewritten to close its connection; empty when there is none."""
    with client.makefile("rb") as stream:
        lines = []
        while (line := stream.readline()).strip():
            lines.append(line)
        if not lines:
            return b""
        headers = {
            line.split(b":")[0].lower(): line.partition(b":")[2].strip() for line in lines[1:]
        }
        if headers.get(b"expect", b"").lower() == b"100-continue":
            client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = stream.read(int(headers.get(b"content-length", 0)))
    ours = (b"connection", b"expect")
    kept = [line for line in lines[1:] if line.split(b":")[0].lower() not in ours]
    return b"".join([lines[0], *kept, b"Connection: close\r\n\r\n", body])
