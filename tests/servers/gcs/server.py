"""HTTP on loopback: routes, callers, batches, partial answers, faults on demand."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.rigs.limits import answering
from tests.servers.gcs.answers import Answer, ApiError, invalid, unauthorized
from tests.servers.gcs.api import Api, Request, split_parts

_B, _O = r"/b/(?P<bucket>[^/]+)", r"/o/(?P<name>[^/]+)"
_TO = r"/b/(?P<to_bucket>[^/]+)/o/(?P<to_name>[^/]+)"
_UPLOAD = r"/(?:resumable/)?upload/storage/v1"
_ROUTES: tuple[tuple[str, str, str, str], ...] = (
    # (method, path, method of the API, permission)
    ("GET", rf"(?:/download)?/storage/v1{_B}{_O}", "get_object", "storage.objects.get"),
    ("DELETE", rf"/storage/v1{_B}{_O}", "delete_object", "storage.objects.delete"),
    ("PATCH", rf"/storage/v1{_B}{_O}", "patch_object", "storage.objects.update"),
    ("PUT", rf"/storage/v1{_B}{_O}", "update_object", "storage.objects.update"),
    ("GET", rf"/storage/v1{_B}/o", "list_objects", "storage.objects.list"),
    ("POST", rf"{_UPLOAD}{_B}/o", "insert_object", "storage.objects.create"),
    ("PUT", rf"{_UPLOAD}{_B}/o", "continue_upload", "storage.objects.create"),
    ("DELETE", rf"{_UPLOAD}{_B}/o", "continue_upload", "storage.objects.create"),
    ("POST", rf"/storage/v1{_B}{_O}/compose", "compose_object", "storage.objects.create"),
    ("POST", rf"/storage/v1{_B}{_O}/copyTo{_TO}", "copy_object", "storage.objects.create"),
    ("POST", rf"/storage/v1{_B}{_O}/rewriteTo{_TO}", "rewrite_object", "storage.objects.create"),
    ("GET", r"/storage/v1/b", "list_buckets", "storage.buckets.list"),
    ("POST", r"/storage/v1/b", "insert_bucket", "storage.buckets.create"),
    ("GET", rf"/storage/v1{_B}", "get_bucket", "storage.buckets.get"),
    ("DELETE", rf"/storage/v1{_B}", "delete_bucket", "storage.buckets.delete"),
    ("GET", rf"/storage/v1{_B}/storageLayout", "get_layout", "storage.objects.list"),
)


@dataclass(frozen=True, kw_only=True)
class Caller:
    """The caller to whom a bearer token belongs."""

    email: str
    permissions: frozenset[str]


class GcsServer:
    """
    The server, in threads of this process, within its `with` block.

    Args:
        buckets: Created at the start.
        port: 0 selects a free one.
        callers: By bearer token. With None every request is permitted.
        mutation_pause_s: 1.0 as at Google. Two writes of one object within this time give 429.
        fault: Called before each request; returns an error to answer with, or None.
        observe: Called with each request and its response.
        address: Where it listens.
    """

    def __init__(
        self,
        *buckets: str,
        port: int = 0,
        callers: Mapping[str, Caller] | None = None,
        mutation_pause_s: float = 0.0,
        fault: Callable[[Request], ApiError | None] = lambda request: None,
        observe: Callable[[Request, Answer], None] = lambda request, answer: None,
        address: str = "127.0.0.1",
    ) -> None:
        self.api = Api(mutation_pause_s=mutation_pause_s)
        self.fault = fault
        self.observe = observe
        self._callers = callers
        for bucket in buckets:
            self.api.make_bucket(bucket)
        self._address = address
        self._http = _Http((address, port), _handler(self))
        self._open = ExitStack()

    @property
    def port(self) -> int:
        """Return the port on which it listens."""
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        """Return the URL for STORAGE_EMULATOR_HOST."""
        return f"http://{self._address}:{self.port}"

    def __enter__(self) -> GcsServer:
        self._open.enter_context(answering(self._http))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.close()

    def answer(self, request: Request) -> Answer:
        """Return the response to one request."""
        if request.method == "POST" and request.path.startswith("/batch"):
            return self._batch(request)
        try:
            fault = self.fault(request)
            if fault is not None:
                raise fault
            answer = _partial(self._dispatch(request), request.query.get("fields", ""))
        except ApiError as error:
            answer = error.answer(media=request.media)
        self.observe(request, answer)
        return answer

    def _dispatch(self, request: Request) -> Answer:
        known = False
        for method, pattern, name, permission in _ROUTES:
            found = re.fullmatch(pattern, request.path)
            if found is None:
                continue
            known = True
            if method == request.method:
                parts = {key: unquote(part) for key, part in found.groupdict().items()}
                self._admit(request, permission, parts.get("bucket", ""))
                answer: Answer = getattr(self.api, name)(request, **parts)
                return answer
        if known:
            raise ApiError(405, "methodNotAllowed", "Method Not Allowed")
        raise ApiError(404, "notFound", "Not Found")

    def _admit(self, request: Request, permission: str, bucket: str) -> None:
        if self._callers is None:
            return
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        what = "bucket" if permission.startswith("storage.buckets") else "object"
        denied = (
            f"does not have {permission} access to the Google Cloud Storage {what}. "
            f"Permission '{permission}' denied on resource (or it may not exist)."
        )
        if not token:
            raise unauthorized("required", f"Anonymous caller {denied}")
        caller = self._callers.get(token)
        if caller is None:
            raise unauthorized("authError", "Invalid Credentials")
        if permission not in caller.permissions:
            raise ApiError(403, "forbidden", f"{caller.email} {denied}")

    def _batch(self, request: Request) -> Answer:
        """Answer a multipart/mixed of requests with one of responses."""
        parts = split_parts(request.headers.get("content-type", ""), request.body)
        pieces = []
        for headers, inner in parts:
            answer = self.answer(_embedded(inner, request))
            named = headers.get("content-id", "").strip("<>")
            lines = [f"HTTP/1.1 {answer.status} {_REASONS.get(answer.status, 'OK')}"]
            lines += [f"{key}: {text}" for key, text in answer.headers.items()]
            lines += [f"Content-Length: {len(answer.body)}", "", ""]
            head = f"--batch_0\r\nContent-Type: application/http\r\nContent-ID: <response-{named}>"
            pieces.append(f"{head}\r\n\r\n".encode() + "\r\n".join(lines).encode() + answer.body)
        body = b"\r\n".join([*pieces, b"--batch_0--", b""])
        return Answer(body=body, headers={"Content-Type": "multipart/mixed; boundary=batch_0"})


_REASONS = {200: "OK", 204: "No Content", 404: "Not Found", 412: "Precondition Failed"}


def _embedded(inner: bytes, outer: Request) -> Request:
    head, body = (*re.split(rb"\r?\n\r?\n", inner, maxsplit=1), b"")[:2]
    first, *rest = head.decode().splitlines()
    method, target, *_ = first.split(" ")
    lines = [line.partition(":") for line in rest]
    headers = {name.strip().lower(): text.strip() for name, _, text in lines}
    authorization = {k: v for k, v in outer.headers.items() if k == "authorization"}
    return replace(
        outer,
        method=method,
        path=urlsplit(target).path,
        query=dict(parse_qsl(urlsplit(target).query, keep_blank_values=True)),
        headers={**authorization, **headers},
        body=body,
    )


def _partial(answer: Answer, fields: str) -> Answer:
    """Return only the requested `fields`, as in `items(name,generation),nextPageToken`."""
    if not fields or answer.status != 200 or "json" not in answer.headers.get("Content-Type", ""):
        return answer
    try:
        tree = json.loads(re.sub(r"(\w+)(\()?", _opened, "{" + _closed(fields) + "}"))
    except ValueError:
        raise invalid(f"Invalid field selection {fields}", location="fields") from None
    return replace(answer, body=json.dumps(_picked(json.loads(answer.body), tree)).encode())


def _closed(fields: str) -> str:
    while "/" in fields:
        fields = re.sub(r"(\w+)/(\w+(?:\([^()]*\))?)", r"\1(\2)", fields)
    return fields.replace(")", "}")


def _opened(name: re.Match[str]) -> str:
    return f'"{name[1]}":{{' if name[2] else f'"{name[1]}":true'


def _picked(resource: Any, tree: Any) -> Any:
    if tree is True:
        return resource
    if isinstance(resource, list):
        return [_picked(one, tree) for one in resource]
    return {key: _picked(resource[key], tree[key]) for key in tree if key in resource}


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


class _Lines:
    """The head of a request as it is read, and whether the connection ended in it."""

    def __init__(self, stream: BufferedIOBase) -> None:
        self.stream = stream
        self.is_cut = False

    def readline(self, limit: int = -1) -> bytes:
        line = self.stream.readline(limit)
        self.is_cut |= not line.endswith(b"\n")
        return line


def _handler(server: GcsServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        server_version = "UploadServer"
        sys_version = ""
        wbufsize = 1 << 16
        disable_nagle_algorithm = True
        timeout = 60

        def parse_request(self) -> bool:
            lines = self.rfile = _Lines(self.rfile)  # type: ignore[assignment]
            try:
                # The library treats the end of a connection as the end of the headers.
                return super().parse_request() and not lines.is_cut
            finally:
                self.close_connection |= lines.is_cut
                self.rfile = lines.stream

        def _serve(self) -> None:
            parts = urlsplit(self.path)
            headers = {name.lower(): text for name, text in self.headers.items()}
            body = self._body(headers)
            if len(body) < int(headers.get("content-length", 0)):
                self.close_connection = True  # cut off: no request
                return
            request = Request(
                method=self.command,
                path=parts.path,
                query=dict(parse_qsl(parts.query, keep_blank_values=True)),
                headers=headers,
                body=body,
                host=f"http://{headers.get('host', '')}",
            )
            answer = server.answer(request)
            self.send_response(answer.status)
            for name, text in answer.headers.items():
                self.send_header(name, text)
            if answer.status not in (204, 304):
                self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def _body(self, headers: Mapping[str, str]) -> bytes:
            if headers.get("transfer-encoding", "").lower() != "chunked":
                return self.rfile.read(int(headers.get("content-length", 0)))
            body = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
            return body

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815

        def log_message(self, *args: object) -> None:
            pass

    return Handler
