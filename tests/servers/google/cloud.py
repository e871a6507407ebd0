"""
What both APIs share: HTTP, the description, identities, pages, and faults on demand.

Time is a given clock: between two requests, things only change with that clock.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from bastion.clock import Clock
from tests.rigs.limits import answering
from tests.servers.discovery import Called, Description

Json = dict[str, Any]
Answers = Callable[[Mapping[str, str], Mapping[str, str], Json], Json]
"""From the path parameters, the query parameters and the body to the answer."""


class ApiError(Exception):
    """
    An error response of Google's APIs: older APIs list reasons, newer ones have `rpc`.

    Source: cloud.google.com/apis/design/errors.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        *,
        rpc: str = "",
        headers: Mapping[str, str] = {},
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers
        error: Json = {"code": status, "message": message}
        if rpc:
            info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}
            error |= {"status": rpc, "details": [info]}
        else:
            error["errors"] = [{"domain": "global", "reason": reason, "message": message}]
        self.body: Json = {"error": error}


class _LostError(Exception):
    """The connection ends without an answer."""


@dataclass
class Fault:
    """What happens to the next calls of a method."""

    method: str
    """A pattern of its id."""
    times: int
    raises: Exception
    is_late: bool = False
    """Whether the call is carried out first."""


def lost() -> Exception:
    """Return the error of an answer that never arrives."""
    return _LostError()


@dataclass
class Cloud:
    """
    A server within its `with` block.

    Args:
        description: What is allowed.
        clock: Determines when operations end and machines boot.
    """

    description: Description
    clock: Clock
    project: str = "acme"
    tokens: set[str] | None = None
    """The accepted tokens; None accepts every request."""
    page: int = 2
    """The maximum number of entries on a page."""
    problems: list[str] = field(default_factory=list)
    """How requests and answers differed from the description; a test asserts that it is empty."""
    calls: Counter[str] = field(default_factory=Counter)
    """How often each method was called, by its id."""
    sent: list[tuple[str, Json]] = field(default_factory=list)
    """The bodies that were sent, with the methods."""
    unreachable: set[str] = field(default_factory=set)
    """Zones that do not answer."""
    lag_s: float = 0.0
    """How long lists do not show what was created."""
    keeps_deleted: bool = False
    """Whether deletions are accepted but not carried out."""
    faults: list[Fault] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)
    methods: dict[str, Answers] = field(default_factory=dict)
    _http: ThreadingHTTPServer | None = None

    def __enter__(self) -> Self:
        self._http = _Http(("127.0.0.1", 0), _door(self))
        self._open = ExitStack()
        self._open.enter_context(answering(self._http))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.close()

    @property
    def url(self) -> str:
        """Return the URL for `CLOUDSDK_API_ENDPOINT_OVERRIDES_...`."""
        assert self._http is not None
        return (
            f"http://127.0.0.1:{self._http.server_port}/{self.description.document['servicePath']}"
        )

    def fail(
        self, method: str, raises: Exception, *, times: int = 1, is_late: bool = False
    ) -> None:
        """Let the next calls of `method`, a pattern of its id, fail."""
        self.faults.append(Fault(method=method, times=times, raises=raises, is_late=is_late))

    def answer(
        self,
        verb: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes,
    ) -> tuple[int, Mapping[str, str], Json]:
        """Return status, headers and body of the answer to one request."""
        with self.lock:
            called = self.description.called(verb, path)
            if called is None:
                self.problems.append(f"{verb} {path}: no such method")
                return 404, {}, ApiError(404, "notFound", "Not Found").body
            given = {name: unquote(text) for name, text in called.path.items()}
            try:
                return 200, {}, self._answer(called, given, query, headers, body)
            except ApiError as error:
                return error.status, error.headers, error.body

    def _answer(
        self,
        called: Called,
        given: Mapping[str, str],
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes,
    ) -> Json:
        self.calls[called.id] += 1
        sent = json.loads(body) if body else None
        self.problems += self.description.query_problems(called, query)
        self.problems += self.description.body_problems(called, sent)
        if sent:
            self.sent.append((called.id, sent))
        token = headers.get("authorization", "").removeprefix("Bearer ")
        if self.tokens is not None and token not in self.tokens:
            raise ApiError(401, "authError", "Invalid Credentials", rpc="UNAUTHENTICATED")
        fault = next((f for f in self.faults if re.search(f.method, called.id)), None)
        if fault is not None:
            fault.times -= 1
            if fault.times <= 0:
                self.faults.remove(fault)
            if not fault.is_late:
                raise fault.raises
        answered = self.methods[called.id](given, query, sent or {})
        self.problems += self.description.answer_problems(called, answered)
        if fault is not None:
            raise fault.raises
        if "fields" in query:
            tree = _tree(query["fields"])
            self.problems += self.description.fields_problems(called, tree)
            answered = _picked(answered, tree)
        return answered

    def paged(
        self, found: Iterable[Any], query: Mapping[str, str], *, size: str
    ) -> tuple[list[Any], str]:
        """Return one page of `found`, and the token of the next one or nothing."""
        every = list(found)
        start = int(query.get("pageToken") or 0)
        end = start + min(self.page, int(query.get(size) or self.page))
        return every[start:end], str(end) if end < len(every) else ""

    def since(self, begun_at: float) -> float:
        """Return the seconds since then, by the clock."""
        return self.clock.monotonic() - begun_at


def stamp(at: float) -> str:
    """Return a time as Google writes it."""
    seconds = int(at) % 86400
    return f"2026-01-01T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}Z"


def _tree(fields: str) -> Any:
    """Return the requested fields, as in `items/*(id,name),nextPageToken`."""
    pieces = re.findall(r"[\w*]+|[(),/]", fields)
    assert "".join(pieces) == fields, fields

    def several() -> Json:
        tree: Json = {}
        while True:
            name = pieces.pop(0)
            tree[name] = inner()
            if not pieces or pieces[0] == ")":
                return tree
            assert pieces.pop(0) == ",", fields

    def inner() -> Any:
        if pieces and pieces[0] == "/":
            pieces.pop(0)
            return {pieces.pop(0): inner()}
        if pieces and pieces[0] == "(":
            pieces.pop(0)
            tree = several()
            assert pieces.pop(0) == ")", fields
            return tree
        return True

    return several()


def _picked(value: Any, tree: Any) -> Any:
    if tree is True:
        return value
    if isinstance(value, list):
        return [_picked(each, tree) for each in value]
    return {
        name: _picked(inner, tree.get(name, tree.get("*")))
        for name, inner in value.items()
        if name in tree or "*" in tree
    }


class _Http(ThreadingHTTPServer):
    daemon_threads = True


def _door(cloud: Cloud) -> type[BaseHTTPRequestHandler]:
    class Door(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = 1 << 16

        def _serve(self) -> None:
            parts = urlsplit(self.path)
            headers = {name.lower(): text for name, text in self.headers.items()}
            body = self.rfile.read(int(headers.get("content-length", 0)))
            query = dict(parse_qsl(parts.query, keep_blank_values=True))
            query.pop("alt", None)
            try:
                status, extra, said = cloud.answer(self.command, parts.path, query, headers, body)
            except _LostError:
                self.close_connection = True
                return
            data = json.dumps(said).encode()
            self.send_response(status)
            for name, text in extra.items():
                self.send_header(name, text)
            self.send_header("Content-Type", "application/json; charset=UTF-8")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = do_DELETE = _serve  # noqa: N815

        def log_message(self, *args: object) -> None:
            pass

    return Door
