"""A metadata server on loopback, like those of Compute Engine, EC2 and Azure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.rigs.limits import answering


class MetadataServer:
    """What it returns, by path below its host, and the changes that it was asked to make."""

    def __init__(self, port: int) -> None:
        self.host = f"127.0.0.1:{port}"
        self.says: dict[str, str] = {}
        self.deleted: list[tuple[str, str]] = []
        """(path, credential) of every delete: it also plays the cloud's API."""
        self.refuses_deletes = False


@contextmanager
def metadata_server() -> Iterator[MetadataServer]:
    """Serve until the end; refuse a request without the header of its cloud, as that would."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    said = MetadataServer(server.server_address[1])

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.headers.get("Metadata-Flavor") == "Google"
            known |= self.headers.get("X-aws-ec2-metadata-token") == "token"
            known |= self.headers.get("Metadata") == "true"
            self._send(200 if self.path in said.says else 404 if known else 401)

        def do_PUT(self) -> None:
            asked = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds")
            self._send(200 if asked else 400, "token")

        def do_DELETE(self) -> None:
            said.deleted.append((self.path, self.headers.get("Authorization", "")))
            self._send(403 if said.refuses_deletes else 200, "{}")

        def _send(self, status: int, text: str | None = None) -> None:
            data = (said.says.get(self.path, "") if text is None else text).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *said: object) -> None:
            pass

    server.RequestHandlerClass = Answer
    with answering(server):
        yield said
