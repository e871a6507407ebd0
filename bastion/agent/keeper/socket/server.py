"""
The keeper's socket: lines of JSON in, lines of JSON out, any number of connections.

A request has an `id` and a verb in `do`; its answer has the same `id` and `ok` or `error` and
`message`. A connection that asks to `watch` is told events too. Nothing a connection sends or
fails to read can hold up the loop: sockets never block, a line and a backlog have a limit, and who
passes one is cut off (and may connect again and ask for everything). Standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket

from bastion.agent.machine.machine_fault import fault_text, is_machine_fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Verb = Callable[["Connection", dict[str, object]], dict[str, object] | None]

_LINE_BYTES = 16 << 20
"""Longest request: environments of a few hundred processes."""

_BACKLOG_BYTES = 64 << 20
"""Most that waits for a connection that does not read: every record a machine can have."""


class AnswerError(Exception):
    """
    A request's answer is no.

    Args:
        kind: What the client makes of it: `conflict`, `not found`, `machine` or `refused`.
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
        The whole lines that have come.

        Raises:
            OSError: It is gone, or has sent too long a line.
        """
        with contextlib.suppress(BlockingIOError):
            while data := self.socket.recv(1 << 18):
                self._in += data
                if len(data) < 1 << 18:
                    break
            else:
                raise ConnectionResetError("closed")
        *whole, rest = self._in.split(b"\n")
        if len(rest) > _LINE_BYTES:
            raise ConnectionResetError("a request is too long")
        self._in = bytearray(rest)
        return [bytes(line) for line in whole if line]

    def send(self, said: dict[str, object]) -> None:
        """Put a line into the backlog and send what goes; errors show when it is next read."""
        self._out += json.dumps(said, separators=(",", ":")).encode() + b"\n"
        self.flush()

    def flush(self) -> None:
        """Send what goes."""
        try:
            while self._out:
                del self._out[: self.socket.send(self._out)]
        except BlockingIOError:
            if len(self._out) > _BACKLOG_BYTES:
                self.cut()
        except OSError:
            self.cut()

    def cut(self) -> None:
        """Send no more; the loop sees the end of it and closes."""
        self._out.clear()
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)


class Server:
    """The listening socket and who is connected."""

    def __init__(self, folder: str, verbs: dict[str, Verb]) -> None:
        self._verbs = verbs
        self.connections: dict[int, Connection] = {}
        self._path = f"{folder}/socket"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.setblocking(False)
        # A path to a socket holds 107 bytes and a home may be deeper: bind by a relative name.
        os.chdir(folder)
        before = os.umask(0o177)
        self.listener.bind("socket")
        os.umask(before)
        os.chdir("/")
        self.listener.listen(16)

    def accept(self) -> Connection | None:
        """
        A new client, if there is one.

        Raises:
            OSError: There is one, and the machine has no room for its connection.
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
        Do what a connection asks.

        Raises:
            OSError: The connection is to be closed.
        """
        for line in connection.lines():
            self._serve_line(connection, line)
        connection.flush()

    def _serve_line(self, connection: Connection, line: bytes) -> None:
        number: object = None
        try:
            said = json.loads(line)
            if not isinstance(said, dict):
                raise AnswerError("refused", "a request must be a JSON object")
            number = said.get("id")
            verb = self._verbs.get(str(said.get("do")))
            if verb is None:
                known = ", ".join(sorted(self._verbs))
                raise AnswerError("refused", f"unknown verb {said.get('do')!r}; known: {known}")
            done = verb(connection, said)
            if done is not None:
                connection.send({"id": number, "ok": done})
        except AnswerError as no:
            connection.send({"id": number, "error": no.kind, "message": no.message})
        except Exception as error:  # noqa: BLE001  (a bug met by one request must not end all jobs)
            kind = "machine" if is_machine_fault(error) else "refused"
            connection.send({"id": number, "error": kind, "message": fault_text(error)})

    def tell(self, event: dict[str, object]) -> None:
        """Tell every connection that watches."""
        for connection in tuple(self.connections.values()):
            if connection.is_watching:
                connection.send(event)

    def close(self, connection: Connection) -> None:
        """Forget a client."""
        self.connections.pop(connection.socket.fileno(), None)
        connection.socket.close()

    def end(self) -> None:
        """Take the socket away; connections break when this process is gone, and say so by that."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)
        self.listener.close()
