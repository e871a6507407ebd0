"""Google Secret Manager on loopback: `versions.access`, checked against its own description."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import googleapiclient

from tests.rigs.limits import answering


@cache
def description() -> dict[str, Any]:
    """Return `secretmanager.v1.json`, as google-api-python-client ships it."""
    folder = Path(googleapiclient.__file__).parent / "discovery_cache" / "documents"
    parsed: dict[str, Any] = json.loads((folder / "secretmanager.v1.json").read_text())
    return parsed


def access_method() -> dict[str, Any]:
    """Return `projects.secrets.versions.access`."""
    secrets = description()["resources"]["projects"]["resources"]["secrets"]
    method: dict[str, Any] = secrets["resources"]["versions"]["methods"]["access"]
    return method


class Asked:
    """The requests that a server received, and errors to answer with next."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.strange: list[str] = []
        """Requests that are not in the description."""
        self.failures: list[int] = []
        """Statuses of the next answers."""


@contextmanager
def secret_manager(values: Mapping[str, bytes]) -> Iterator[tuple[str, Asked]]:
    """Run a server that holds `values` by the full name of their version, and give its URL."""
    asked = Asked()
    method = access_method()
    place = re.escape(method["path"]).replace(re.escape("{+name}"), "(.+)")
    name_pattern = method["parameters"]["name"]["pattern"]

    class Door(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = re.fullmatch(f"/{place}", self.path)
            if not found or not re.fullmatch(name_pattern, found[1]):
                asked.strange.append(self.path)
                return self._say(404, {"error": {"code": 404, "message": "no such method"}})
            asked.names.append(found[1])
            if asked.failures:
                code = asked.failures.pop(0)
                return self._say(code, {"error": {"code": code, "message": "not now"}})
            data = values.get(found[1])
            if data is None:
                message = f"Secret Version [{found[1]}] not found."
                return self._say(404, {"error": {"code": 404, "message": message}})
            payload = {"data": base64.b64encode(data).decode()}
            return self._say(200, {"name": found[1], "payload": payload})

        def _say(self, status: int, said: dict[str, Any]) -> None:
            if status == 200:
                schema = description()["schemas"][method["response"]["$ref"]]
                assert said.keys() <= schema["properties"].keys()
                payload = description()["schemas"][schema["properties"]["payload"]["$ref"]]
                assert said["payload"].keys() <= payload["properties"].keys()
            body = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    with answering(server):
        yield f"http://127.0.0.1:{server.server_port}", asked
