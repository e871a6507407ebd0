"""
A client of the machine's container engine: docker's HTTP API over its socket, without a library.

Each connection carries one request, in HTTP/1.0. An answer ends with its connection, so the same
few lines read answers, progress line by line, and the wait for a container's end. Paths have no
version, so the engine uses its newest one. Standard library only: it runs in the program that the
keeper starts for every container.

Source: docs.docker.com/reference/api/engine; podman answers the same requests.
"""

from __future__ import annotations

import json
import socket
from urllib.parse import quote, urlencode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

DEFAULT_SOCKET = "/var/run/docker.sock"
"""Source: dockerd(8), the default of `--host`."""

ANSWER_S = 60.0
"""Timeout of an answer: removing a container may wait for its processes."""

NOT_FOUND, CONFLICT = 404, 409
"""HTTP status: no such container or image; not possible in its current state."""

_HEAD_BYTES = 1 << 16
"""Longest head of an answer: the usual limit of HTTP servers."""


class EngineError(Exception):
    """
    The engine refused.

    Args:
        status: The HTTP status: see `NOT_FOUND` and `CONFLICT`.
        message: The engine's own message, one line.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

    @property
    def lacks_room(self) -> bool:
        """Whether the engine's disk is full. Source: Go, syscall, the text of ENOSPC."""
        return "no space left on device" in str(self)


class EngineGoneError(Exception):
    """No engine answers; the outcome of the last request is unknown."""


class Engine:
    """
    A container engine.

    Args:
        path: The path of its socket.
        answer_s: Timeout of an answer.
    """

    def __init__(self, path: str, *, answer_s: float = ANSWER_S) -> None:
        self._path = path
        self._answer_s = answer_s

    def within(self, answer_s: float) -> Engine:
        """Return the same engine with another timeout of an answer."""
        return Engine(self._path, answer_s=answer_s)

    def check(self) -> None:
        """
        Check that the engine answers.

        Raises:
            EngineGoneError: It does not answer.
            EngineError: It answers with an error.
        """
        self._request("GET", "/_ping")

    def has_image(self, ref: str) -> bool:
        """
        Whether the image is on this machine.

        Raises:
            EngineGoneError: It does not answer.
            EngineError: It answers with an error.
        """
        try:
            self._request("GET", f"/images/{quote(ref, safe='/')}/json")
        except EngineError as error:
            if error.status == NOT_FOUND:
                return False
            raise
        return True

    def pull(self, ref: str, login: str = "") -> Iterator[dict[str, Any]]:
        """
        Pull an image to this machine; yield the engine's progress lines.

        Args:
            ref: A reference with a tag or a digest; without one, every tag would be pulled.
            login: `X-Registry-Auth`, or empty.

        Raises:
            EngineGoneError: It stopped answering.
            EngineError: The pull failed; the message is the engine's or the registry's.
        """
        head = {"X-Registry-Auth": login} if login else {}
        connection = self._send("POST", "/images/create?" + urlencode({"fromImage": ref}), head)
        with connection:
            rest = self._head(connection)
            while True:
                *lines, rest = rest.split(b"\n")
                for line in filter(bytes.strip, lines):
                    progress = json.loads(line)
                    if "error" in progress:
                        raise EngineError(500, _line(progress["error"]))
                    yield progress
                more = self._receive(connection)
                if not more:
                    return
                rest += more

    def create(self, name: str, body: dict[str, Any]) -> str:
        """
        Create a container and return its id; a name is used once, which makes this a fence.

        Raises:
            EngineGoneError: It may have been created.
            EngineError: It was not created; `CONFLICT`: one with this name exists.
        """
        found = self._request("POST", f"/containers/create?name={quote(name)}", body)
        return str(found["Id"])

    def start(self, container: str) -> None:
        """
        Start a container.

        Raises:
            EngineGoneError: It may run.
            EngineError: It does not run.
        """
        self._request("POST", f"/containers/{container}/start")

    def attach(self, container: str) -> socket.socket:
        """
        Return a stream of its output from now to its end, in frames: see `Frames`.

        Raises:
            EngineGoneError: The engine does not answer.
            EngineError: The attach failed.
        """
        path = f"/containers/{container}/attach?stream=1&stdout=1&stderr=1"
        return self._stream("POST", path, {"Connection": "Upgrade", "Upgrade": "tcp"})

    def _stream(
        self, method: str, path: str, fields: dict[str, str], body: dict[str, Any] | None = None
    ) -> socket.socket:
        connection = self._send(method, path, fields, body)
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            # Byte by byte: the bytes after the head belong to the stream.
            byte = self._receive(connection, 1)
            if not byte or len(head) > _HEAD_BYTES:
                connection.close()
                raise EngineGoneError(f"{self._path}: the answer with a stream broke off")
            head += byte
        try:
            self._check(head, connection)
        except EngineError:
            connection.close()
            raise
        connection.settimeout(None)
        return connection

    def begin_exec(self, container: str, argv: list[str]) -> tuple[str, socket.socket]:
        """
        Start another program in a running container, with its own variables and folder.

        Returns:
            The id of the program, and a stream of its output to its end, in frames: see `Frames`.

        Raises:
            EngineGoneError: It may run.
            EngineError: It does not run.
        """
        body = {"AttachStdout": True, "AttachStderr": True, "Cmd": argv}
        made = str(self._request("POST", f"/containers/{quote(container)}/exec", body)["Id"])
        head = {"Connection": "Upgrade", "Upgrade": "tcp"}
        return made, self._stream("POST", f"/exec/{made}/start", head, {"Detach": False})

    def exec_state(self, program: str) -> dict[str, Any]:
        """
        Return the state of a program that `begin_exec` started: `Running`, `ExitCode`, `Pid`.

        Raises:
            EngineGoneError: The engine does not answer.
            EngineError: `NOT_FOUND`: its container is gone.
        """
        found: dict[str, Any] = self._request("GET", f"/exec/{program}/json")
        return found

    def wait(self, container: str) -> socket.socket:
        """
        Return a connection that closes when the container has stopped; ignore its data.

        Raises:
            EngineGoneError: The engine does not answer.
        """
        connection = self._send("POST", f"/containers/{container}/wait")
        connection.settimeout(None)
        return connection

    def kill(self, container: str, signal: str) -> None:
        """
        Send a signal to its first process, if it runs.

        Raises:
            EngineGoneError: It may have been sent.
            EngineError: It was not.
        """
        try:
            self._request("POST", f"/containers/{container}/kill?signal={signal}")
        except EngineError as error:
            if error.status not in (NOT_FOUND, CONFLICT):
                raise

    def state(self, container: str) -> dict[str, Any]:
        """
        Return its state: `Running`, `ExitCode`, `OOMKilled`, `Error`.

        Raises:
            EngineGoneError: The engine does not answer.
            EngineError: `NOT_FOUND`: there is no such container.
        """
        found: dict[str, Any] = self._request("GET", f"/containers/{container}/json")["State"]
        return found

    def containers(self, label: str) -> list[tuple[str, dict[str, str]]]:
        """
        Return id and labels of every container with `label` (`name=value`), in any state.

        Raises:
            EngineGoneError: It does not answer.
            EngineError: It answers with an error.
        """
        filters = json.dumps({"label": [label]})
        path = "/containers/json?" + urlencode({"all": "1", "filters": filters})
        return [(str(each["Id"]), dict(each["Labels"])) for each in self._request("GET", path)]

    def remove(self, container: str) -> None:
        """
        Kill and remove a container; return when it is removed, or its removal is in progress.

        Raises:
            EngineGoneError: The engine does not answer.
            EngineError: The container still exists.
        """
        try:
            self._request("DELETE", f"/containers/{container}?force=1&v=1")
        except EngineError as error:
            if error.status not in (NOT_FOUND, CONFLICT):
                raise

    def _request(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        with self._send(method, path, body=body) as connection:
            answer = self._head(connection)
            while more := self._receive(connection):
                answer += more
        return json.loads(answer) if answer[:1] in (b"{", b"[") else None

    def _send(
        self,
        method: str,
        path: str,
        head: dict[str, str] | None = None,
        body: dict[str, Any] | None = None,
    ) -> socket.socket:
        data = b"" if body is None else json.dumps(body).encode()
        fields = {"Host": "docker", "Content-Type": "application/json", **(head or {})}
        fields["Content-Length"] = str(len(data))
        lines = [f"{method} {path} HTTP/1.0", *(f"{name}: {text}" for name, text in fields.items())]
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(self._answer_s)
        try:
            connection.connect(self._path)
            connection.sendall("\r\n".join([*lines, "", ""]).encode() + data)
        except OSError as error:
            connection.close()
            why = error.strerror or "it does not answer"
            raise EngineGoneError(f"no container engine at {self._path}: {why}") from None
        return connection

    def _head(self, connection: socket.socket) -> bytes:
        """Read the head of an answer and check its status; return the bytes beyond it."""
        data = b""
        while b"\r\n\r\n" not in data:
            more = self._receive(connection)
            if not more or len(data) > _HEAD_BYTES:
                raise EngineGoneError(f"{self._path}: the answer broke off")
            data += more
        head, _, rest = data.partition(b"\r\n\r\n")
        self._check(head, connection, rest)
        return rest

    def _check(self, head: bytes, connection: socket.socket, rest: bytes = b"") -> None:
        status = int(head.split(maxsplit=2)[1])
        if status < 400:
            return
        while len(rest) < _HEAD_BYTES and (more := self._receive(connection)):
            rest += more
        try:
            message = json.loads(rest)["message"]
        except (ValueError, KeyError, TypeError):
            message = rest.decode("utf-8", "replace") or f"HTTP status {status}"
        raise EngineError(status, _line(message))

    def _receive(self, connection: socket.socket, size: int = 1 << 16) -> bytes:
        try:
            return connection.recv(size)
        except OSError as error:
            why = error.strerror or f"no answer for {self._answer_s:g} s"
            raise EngineGoneError(f"{self._path}: {why}") from None


class Frames:
    """
    Decodes the frames of an attached stream: stdout and stderr, in their order.

    Source: docs.docker.com/reference/api/engine, "Stream format": one byte for the stream, three
    zero bytes, and the length in four bytes, big-endian.
    """

    __slots__ = ("_left", "_rest")

    def __init__(self) -> None:
        self._rest = b""
        self._left = 0

    def take(self, data: bytes) -> bytes:
        """Return the output of the container in the next bytes of the stream."""
        self._rest += data
        found = []
        while self._rest:
            if self._left == 0:
                if len(self._rest) < 8:
                    break
                self._left = int.from_bytes(self._rest[4:8])
                self._rest = self._rest[8:]
            part = self._rest[: self._left]
            found.append(part)
            self._left -= len(part)
            self._rest = self._rest[len(part) :]
        return b"".join(found)


def _line(message: object) -> str:
    return " ".join(str(message).split())
