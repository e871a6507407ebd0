"""
The machine's container engine, asked over its socket: docker's HTTP API, and no client of docker's.

One request a connection, in HTTP/1.0: an answer ends where its connection does, so the same few
lines serve answers, progress that comes line by line, and the wait for a container's end. Paths
carry no version, by which the engine speaks its own newest one. Standard library only: it runs in
the program that the keeper starts for every container.

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
"""Longest silence of an engine: to remove a container it may have to wait for its processes."""

NOT_FOUND, CONFLICT = 404, 409
"""Status of an answer: there is no such container or image; it is not in a state for this."""

_HEAD_BYTES = 1 << 16
"""Longest head of an answer: as much as the servers of HTTP allow."""


class EngineError(Exception):
    """
    The engine said no.

    Args:
        status: Of HTTP: see `NOT_FOUND` and `CONFLICT`.
        message: In the engine's own words, one line.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class EngineGoneError(Exception):
    """No engine answers; what it did with the last request is not known."""


class Engine:
    """
    An engine.

    Args:
        path: Of its socket.
        answer_s: The longest that it may say nothing.
    """

    def __init__(self, path: str, *, answer_s: float = ANSWER_S) -> None:
        self._path = path
        self._answer_s = answer_s

    def check(self) -> None:
        """
        Return if it answers.

        Raises:
            EngineGoneError: It does not.
            EngineError: It does, with a no.
        """
        self._ask("GET", "/_ping")

    def has_image(self, ref: str) -> bool:
        """
        Whether the image is on this machine.

        Raises:
            EngineGoneError: It does not answer.
            EngineError: It cannot say.
        """
        try:
            self._ask("GET", f"/images/{quote(ref, safe='/')}/json")
        except EngineError as error:
            if error.status == NOT_FOUND:
                return False
            raise
        return True

    def pull(self, ref: str, login: str = "") -> Iterator[dict[str, Any]]:
        """
        Bring an image to this machine: what the engine tells of it, as it does.

        Args:
            ref: With a tag or a digest: without, every tag would come.
            login: `X-Registry-Auth`, or empty.

        Raises:
            EngineGoneError: It stopped answering.
            EngineError: It cannot be had; the message is the engine's or the registry's.
        """
        head = {"X-Registry-Auth": login} if login else {}
        connection = self._send("POST", "/images/create?" + urlencode({"fromImage": ref}), head)
        with connection:
            rest = self._head(connection)
            while True:
                *lines, rest = rest.split(b"\n")
                for line in filter(bytes.strip, lines):
                    said = json.loads(line)
                    if "error" in said:
                        raise EngineError(500, _line(said["error"]))
                    yield said
                more = self._receive(connection)
                if not more:
                    return
                rest += more

    def create(self, name: str, body: dict[str, Any]) -> str:
        """
        Make a container, which runs nothing yet; its id. A name is used once: this is a fence.

        Raises:
            EngineGoneError: It may have been made.
            EngineError: It was not; `CONFLICT`: there is one of this name.
        """
        found = self._ask("POST", f"/containers/create?name={quote(name)}", body)
        return str(found["Id"])

    def start(self, container: str) -> None:
        """
        Run it.

        Raises:
            EngineGoneError: It may run.
            EngineError: It does not.
        """
        self._ask("POST", f"/containers/{container}/start")

    def attach(self, container: str) -> socket.socket:
        """
        Its output from now on, in frames, until it has written all it ever will: see `Frames`.

        Raises:
            EngineGoneError: It does not answer.
            EngineError: It cannot be had.
        """
        path = f"/containers/{container}/attach?stream=1&stdout=1&stderr=1"
        connection = self._send("POST", path, {"Connection": "Upgrade", "Upgrade": "tcp"})
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            # Byte by byte: what follows the head is the stream's.
            byte = self._receive(connection, 1)
            if not byte or len(head) > _HEAD_BYTES:
                connection.close()
                raise EngineGoneError(f"{self._path}: the answer to an attach broke off")
            head += byte
        try:
            self._check(head, connection)
        except EngineError:
            connection.close()
            raise
        connection.settimeout(None)
        return connection

    def wait(self, container: str) -> socket.socket:
        """
        A connection that says nothing of use until the container runs no more, and then ends.

        Raises:
            EngineGoneError: It cannot be had.
        """
        connection = self._send("POST", f"/containers/{container}/wait")
        connection.settimeout(None)
        return connection

    def kill(self, container: str, signal: str) -> None:
        """
        Send a signal to its first process; none where it does not run.

        Raises:
            EngineGoneError: It may have been sent.
            EngineError: It was not.
        """
        try:
            self._ask("POST", f"/containers/{container}/kill?signal={signal}")
        except EngineError as error:
            if error.status not in (NOT_FOUND, CONFLICT):
                raise

    def state(self, container: str) -> dict[str, Any]:
        """
        How it is: `Running`, `ExitCode`, `OOMKilled`, `Error`.

        Raises:
            EngineGoneError: Nobody can say.
            EngineError: `NOT_FOUND`: there is no such container.
        """
        found: dict[str, Any] = self._ask("GET", f"/containers/{container}/json")["State"]
        return found

    def containers(self, label: str) -> list[tuple[str, dict[str, str]]]:
        """
        Every container that carries `label` (`name=value`), in whatever state: id and labels.

        Raises:
            EngineGoneError: It does not answer.
            EngineError: It cannot say.
        """
        filters = json.dumps({"label": [label]})
        path = "/containers/json?" + urlencode({"all": "1", "filters": filters})
        return [(str(each["Id"]), dict(each["Labels"])) for each in self._ask("GET", path)]

    def remove(self, container: str) -> None:
        """
        Kill everything in it and take it away; returns when it is gone, or is being taken away.

        Raises:
            EngineGoneError: It does not answer.
            EngineError: It is there still.
        """
        try:
            self._ask("DELETE", f"/containers/{container}?force=1&v=1")
        except EngineError as error:
            if error.status not in (NOT_FOUND, CONFLICT):
                raise

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
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
        """Read the head of an answer and judge it; what was read beyond it."""
        said = b""
        while b"\r\n\r\n" not in said:
            more = self._receive(connection)
            if not more or len(said) > _HEAD_BYTES:
                raise EngineGoneError(f"{self._path}: the answer broke off")
            said += more
        head, _, rest = said.partition(b"\r\n\r\n")
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
            why = error.strerror or f"it said nothing for {self._answer_s:g} s"
            raise EngineGoneError(f"{self._path}: {why}") from None


class Frames:
    """
    The frames of an attached stream taken apart: stdout and stderr, as they came.

    Source: docs.docker.com/reference/api/engine, "Stream format": a byte that names the stream,
    three of nothing, the length in four, big-endian.
    """

    __slots__ = ("_left", "_rest")

    def __init__(self) -> None:
        self._rest = b""
        self._left = 0

    def take(self, data: bytes) -> bytes:
        """What the container wrote, of these next bytes of the stream."""
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
