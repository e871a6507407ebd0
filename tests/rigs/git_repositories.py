"""Real repositories for tests, and real servers that serve them on loopback."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.rigs import trees
from tests.rigs.limits import answering

_WHO = {
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_CONFIG_NOSYSTEM": "1",
    "HOME": "/nowhere",
    "PATH": os.environ["PATH"],
}


def git(folder: Path, *arguments: str, settings: tuple[str, ...] = ()) -> str:
    """Run git in `folder` without the user's settings; return its output."""
    words = [word for setting in ("init.defaultBranch=main", *settings) for word in ("-c", setting)]
    done = subprocess.run(
        ["git", *words, *arguments], cwd=folder, env=_WHO, check=True, capture_output=True
    )
    return done.stdout.decode().strip()


def commit(folder: Path, files: dict[str, str | bytes]) -> str:
    """Commit `files`, and create the repository if there is none; return the full commit."""
    trees.write(folder, files)
    if not (folder / ".git").exists():
        git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "-m", "x")
    return git(folder, "rev-parse", "HEAD")


@contextmanager
def served_by_http(top: Path, *, speaks_v2: bool = True) -> Iterator[str]:
    """
    Serve the repositories in `top` by git's own http-backend, and give their URL.

    A server without version 2 of the protocol serves tips only.
    """
    backend = f"{git(top, '--exec-path')}/git-http-backend"

    class Backend(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(b"")

        def do_POST(self) -> None:
            self._answer(self._body())

        def log_message(self, *_: object) -> None:
            pass

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body

        def _answer(self, body: bytes) -> None:
            path, _, query = self.path.partition("?")
            if path.startswith("/private/"):
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="x"')
                self.end_headers()
                return
            variables = {
                "GIT_PROJECT_ROOT": str(top),
                "GIT_HTTP_EXPORT_ALL": "1",
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "CONTENT_LENGTH": str(len(body)),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", "") if speaks_v2 else "",
                "GIT_CONFIG_COUNT": "1",
                "GIT_CONFIG_KEY_0": "safe.directory",
                "GIT_CONFIG_VALUE_0": "*",
                "PATH": os.environ["PATH"],
            }
            done = subprocess.run([backend], input=body, env=variables, capture_output=True)
            head, _, content = done.stdout.partition(b"\r\n\r\n")
            fields = dict(line.split(": ", 1) for line in head.decode().splitlines() if line)
            self.send_response(int(fields.pop("Status", "200 OK").split()[0]))
            for name, value in fields.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Backend)
    with answering(server):
        yield f"http://127.0.0.1:{server.server_address[1]}"
