"""
The keeper's socket: lines of JSON in, lines of JSON out, any number of connections.

A request has an `id` and a verb in `do`; its answer has the same `id` and `ok` or `error` and
`message`. A connection that requests `watch` also receives events. No connection can block the loop
by what it sends or fails to read: sockets never block, and a line and a backlog have a limit. A
connection beyond a limit is cut off; its client may connect again and list everything. Standard
library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket

from bastion.agent.keeper.socket.request import LINE_BYTES
from bastion.agent.machine.machine_fault import fault_text, is_machine_fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Verb = Callable[["Connection", dict[str, object]], dict[str, object] | None]

_BACKLOG_BYTES = 64 << 20
"""Most bytes queued for a connection that does not read: every record of a machine."""


class AnswerError(Exception):
    """
    A request is refused.

    Args:
        kind: Decides the client's exception: `conflict`, `not found`, `machine`, `ending`,
            `refused`.
        message: One line, no full stop.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


class Connection:
    """One client."""

    __slots__ = ("_in", "_out", "is_watching", "socket")

    def __init__(self, accepted: socket.socket) -> None:
        self.socket = accepted
        self._in = bytearray()
        self._out = bytearray()
        self.is_watching = False

    def lines(self) -> list[bytes]:
        """
        Read what has arrived, and return the complete lines.

        Raises:
            OSError: The client is gone, or has sent too long a line.
        """
        with contextlib.suppress(BlockingIOError):
            while data := self.socket.recv(1 << 18):
                self._in += data
                if len(data) < 1 << 18:
                    break
            else:
                raise ConnectionResetError("closed")
        *whole, rest = self._in.split(b"\n")
        if len(rest) > LINE_BYTES:
            raise ConnectionResetError("a request is too long")
        self._in = bytearray(rest)
        return [bytes(line) for line in whole if line]

    def send(self, message: dict[str, object]) -> None:
        """Queue a line and send what the socket takes; errors surface at the next read."""
        self._out += json.dumps(message, separators=(",", ":")).encode() + b"\n"
        self.flush()

    def flush(self) -> None:
        """Send what the socket takes of the backlog."""
        try:
            while self._out:
                del self._out[: self.socket.send(self._out)]
        except BlockingIOError:
            if len(self._out) > _BACKLOG_BYTES:
                self.cut()
        except OSError:
            self.cut()

    def cut(self) -> None:
        """Drop the backlog and shut down; the loop sees the end and closes."""
        self._out.clear()
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)


class Server:
    """The listening socket and the connections to it."""

    def __init__(self, folder: str, verbs: dict[str, Verb]) -> None:
        self._verbs = verbs
        self.connections: dict[int, Connection] = {}
        self._path = f"{folder}/socket"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.setblocking(False)
        # The path of a socket has at most 107 bytes, a home may be deeper: bind a relative name.
        os.chdir(folder)
        before = os.umask(0o177)
        self.listener.bind("socket")
        os.umask(before)
        os.chdir("/")
        self.listener.listen(16)

    def accept(self) -> Connection | None:
        """
        Accept a connection, if one is pending.

        Raises:
            OSError: One is pending, and the machine has no room for it.
        """
        try:
            accepted, _ = self.listener.accept()
        except OSError as error:
            if is_machine_fault(error):
                raise
            return None
        accepted.setblocking(False)
        connection = Connection(accepted)
        self.connections[accepted.fileno()] = connection
        return connection

    def serve(self, connection: Connection) -> None:
        """
        Answer the requests that have arrived.

        Raises:
            OSError: The connection must be closed.
        """
        for line in connection.lines():
            self._serve_line(connection, line)
        connection.flush()

    def _serve_line(self, connection: Connection, line: bytes) -> None:
        number: object = None
        try:
            fields = json.loads(line)
            if not isinstance(fields, dict):
                raise AnswerError("refused", "a request must be a JSON object")
            number = fields.get("id")
            verb = self._verbs.get(str(fields.get("do")))
            if verb is None:
                known = ", ".join(sorted(self._verbs))
                raise AnswerError("refused", f"unknown verb {fields.get('do')!r}; known: {known}")
            done = verb(connection, fields)
            if done is not None:
                connection.send({"id": number, "ok": done})
        except AnswerError as error:
            connection.send({"id": number, "error": error.kind, "message": error.message})
        except Exception as error:  # noqa: BLE001  (a bug in one request must not end all jobs)
            kind = "machine" if is_machine_fault(error) else "refused"
            connection.send({"id": number, "error": kind, "message": fault_text(error)})

    def publish(self, event: dict[str, object]) -> None:
        """Send `event` to every connection that watches."""
        for connection in tuple(self.connections.values()):
            if connection.is_watching:
                connection.send(event)

    def close(self, connection: Connection) -> None:
        """Close a connection."""
        self.connections.pop(connection.socket.fileno(), None)
        connection.socket.close()

    def end(self) -> None:
        """Remove the socket; clients see their connections close when this process exits."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)
        self.listener.close()
