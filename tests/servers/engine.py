"""
A container engine without containers: docker's HTTP API over a socket, and plain processes.

For their users, these behave as containers do. Each runs once and writes to every attached client.
When its first process ends, or it is removed, everything that it started ends. There is no separate
root directory and no limit. `tests/contracts/test_engine.py` runs the same suite against this
engine and the real one.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import threading
import time
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.rigs.limits import PATIENCE_S, answering, on_thread

MARK = "FAKE_CONTAINER"
"""The variable that every process in a container has: the container's id."""


class Made:
    """One container."""

    def __init__(self, name: str, body: dict[str, Any]) -> None:
        self.id = os.urandom(16).hex()
        self.name = name
        self.body = body
        self.created_at = int(time.time())
        self.code: int | None = None
        self.process: subprocess.Popen[bytes] | None = None
        self.watchers: list[Any] = []
        self.attaching = threading.Lock()
        """Held until a new watcher is registered and told so: no output is missed."""
        self.is_over = threading.Event()

    @property
    def state(self) -> str:
        """Return its state, in the engine's words."""
        if self.process is None:
            return "created"
        return "running" if self.is_running else "exited"

    @property
    def is_running(self) -> bool:
        """Whether it is running."""
        return self.process is not None and not self.is_over.is_set()

    def start(self) -> None:
        """Start its program, and a thread that waits for it."""
        self.is_over.clear()
        argv = [*self.body["Entrypoint"], *self.body["Cmd"]]
        env = dict(pair.split("=", 1) for pair in self.body["Env"])
        env = {"PATH": "/usr/bin:/bin", "HOME": "/", **env, MARK: self.id}
        self.process = subprocess.Popen(
            argv,
            env=env,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        on_thread(self._live, self.process)

    def _live(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout
        assert process.stderr
        streams = {process.stdout.fileno(): 1, process.stderr.fileno(): 2}
        ended = os.pidfd_open(process.pid)
        waiter = select.poll()
        for file in (*streams, ended):
            waiter.register(file, select.POLLIN)
        open_files = {*streams}
        while open_files:
            for file, _ in waiter.poll():
                if file == ended:
                    self.end_all(but=process.pid)
                    waiter.unregister(ended)
                    continue
                data = os.read(file, 1 << 16)
                if data:
                    self._write(streams[file], data)
                else:
                    waiter.unregister(file)
                    open_files.discard(file)
        code = process.wait()
        self.end_all()
        os.close(ended)
        self.code = code if code >= 0 else 128 - code
        for watcher in self.watchers:
            with contextlib.suppress(OSError):
                watcher.shutdown(2)
        self.is_over.set()

    def _write(self, stream: int, data: bytes) -> None:
        frame = bytes((stream, 0, 0, 0)) + len(data).to_bytes(4) + data
        with self.attaching:
            watchers = [*self.watchers]
        for watcher in watchers:
            with contextlib.suppress(OSError):
                watcher.sendall(frame)

    def end_all(self, *, but: int = 0) -> None:
        """Kill everything that runs in it."""
        until = time.monotonic() + PATIENCE_S
        while pids := inside(self.id) - {but}:
            assert time.monotonic() < until, f"{pids} cannot be killed"
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.002)


def inside(container: str) -> set[int]:
    """Return every process in a container."""
    found = set()
    wanted = f"{MARK}={container}".encode()
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            said = (process / "environ").read_bytes().split(b"\0")
            state = (process / "stat").read_text().rpartition(")")[2].split()[0]
            if wanted in said and state != "Z":
                found.add(int(process.name))
    return found


class Program:
    """One further program in a container."""

    def __init__(self, made: Made, argv: list[str]) -> None:
        self.id = os.urandom(16).hex()
        self.made = made
        self.argv = argv
        self.code: int | None = None
        self.pid = 0

    def run(self, connection: Any) -> None:
        """Run it to its end, and write its output in frames."""
        env = dict(pair.split("=", 1) for pair in self.made.body["Env"])
        env = {"PATH": "/usr/bin:/bin", "HOME": "/", **env, MARK: self.made.id}
        process = subprocess.Popen(
            self.argv,
            env=env,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.pid = process.pid
        assert process.stdout
        while data := os.read(process.stdout.fileno(), 1 << 16):
            with contextlib.suppress(OSError):
                connection.sendall(bytes((1, 0, 0, 0)) + len(data).to_bytes(4) + data)
        code = process.wait()
        process.stdout.close()
        self.code = code if code >= 0 else 128 - code


class RefusedError(Exception):
    """An error response."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class FakeEngine:
    """
    An engine at the socket `path`, between `open` and `close`; containers survive a `close`.

    Args:
        path: The path of its socket.
        images: References of the images it has.
        registry: References of images that can be pulled.
        folders: The folder of each container's start-up script, because all share their files; None
            if at most one container has such a script.
    """

    def __init__(
        self,
        path: Path,
        *,
        images: set[str],
        registry: frozenset[str] = frozenset(),
        folders: Path | None = None,
    ):
        path.unlink(missing_ok=True)
        self.path = path
        self.images = images
        self.registry = registry
        self.folders = folders
        self.made: dict[str, Made] = {}
        self.programs: dict[str, Program] = {}
        self.refusal = ""
        """The error with which it refuses creates and pulls, or empty."""
        self.dropped = 0
        """How many of the next creates of containers are neither done nor answered."""
        self.lost = 0
        """How many of the next creates are done, but not answered."""
        self.stays = False
        """Whether it reports stops that it does not carry out."""
        self.logins: list[str] = []
        """The credentials sent by pulls."""
        self.lock = threading.Lock()
        self._open = ExitStack()

    def open(self) -> None:
        """Start answering."""
        engine = self

        class Answering(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                Exchange(engine, self).answer()

            do_POST = do_DELETE = do_GET  # noqa: N815 - as the base class calls them

            def address_string(self) -> str:
                return ""

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingMixIn, UnixStreamServer):
            daemon_threads = True
            request_queue_size = 64

        server = Server(str(self.path), Answering)
        self._open.enter_context(answering(server))

    def close(self) -> None:
        """Stop answering; connections break, and containers continue to run."""
        self._open.close()
        self.path.unlink()
        for made in self.made.values():
            for watcher in made.watchers:
                with contextlib.suppress(OSError):
                    watcher.shutdown(2)

    def end(self) -> None:
        """Close, and kill every container."""
        self.close()
        for made in self.made.values():
            made.end_all()

    def find(self, name: str) -> Made:
        """Return the container with this id or name."""
        for made in self.made.values():
            if name in (made.id, made.name):
                return made
        raise RefusedError(404, f"No such container: {name}")


class Exchange:
    """One request and its response."""

    def __init__(self, engine: FakeEngine, request: BaseHTTPRequestHandler) -> None:
        self._engine = engine
        self._request = request
        split = urlsplit(request.path)
        path = re.sub(r"^/v[0-9.]+/", "/", split.path)
        self._parts = [unquote(part) for part in path.strip("/").split("/")]
        self._query = {name: values[0] for name, values in parse_qs(split.query).items()}
        size = int(request.headers.get("Content-Length") or 0)
        self._body = json.loads(request.rfile.read(size)) if size else {}

    def answer(self) -> None:
        """Send the response."""
        try:
            self._answer()
        except RefusedError as error:
            self._send(error.status, {"message": str(error)})
        except (BrokenPipeError, ConnectionResetError):
            pass

    def _answer(self) -> None:
        match (self._request.command, *self._parts):
            case ("GET", "_ping"):
                self._send(200, None)
            case ("GET", "version"):
                self._send(200, {"ApiVersion": "1.41", "MinAPIVersion": "1.12"})
            case ("GET", "images", *ref, "json"):
                if "/".join(ref) not in self._engine.images:
                    raise RefusedError(404, f"No such image: {'/'.join(ref)}")
                self._send(200, {})
            case ("POST", "images", "create"):
                tag = self._query.get("tag", "")
                self._pull(self._query["fromImage"] + (f":{tag}" if tag else ""))
            case ("POST", "containers", "create"):
                self._create(self._query["name"])
            case ("GET", "containers", "json"):
                self._list()
            case ("DELETE", "containers", name):
                self._remove(name)
            case ("POST", "exec", program, "start"):
                self._start_program(self._engine.programs[program])
            case ("GET", "exec", program, "json"):
                found = self._engine.programs[program]
                ended = found.code is not None
                self._send(200, {"Running": not ended, "ExitCode": found.code, "Pid": found.pid})
            case (_, "containers", name, verb):
                getattr(self, f"_{verb}")(self._engine.find(name))
            case other:
                raise RefusedError(404, f"page not found: {other}")

    def _pull(self, ref: str) -> None:
        self._engine.logins.append(self._request.headers.get("X-Registry-Auth", ""))
        lines: list[dict[str, object]] = [{"status": f"Pulling from {ref}"}]
        if ref in self._engine.registry:
            progress = {"current": 5, "total": 10}
            lines.append({"status": "Downloading", "id": "1f2e", "progressDetail": progress})
            self._engine.images.add(ref)
        else:
            why = self._engine.refusal or f"manifest for {ref} not found: manifest unknown"
            lines.append({"error": why})
        said = [json.dumps(line).encode() + b"\r\n" for line in lines]
        if self._request.request_version == "HTTP/1.0":
            self._head(200)
            self._request.wfile.write(b"".join(said))
            return
        self._head(200, "Transfer-Encoding: chunked\r\n")
        for line in (*said, b""):
            self._request.wfile.write(b"%x\r\n%b\r\n" % (len(line), line))

    def _create(self, name: str) -> None:
        with self._engine.lock:
            if any(made.name == name for made in self._engine.made.values()):
                raise RefusedError(409, f'Conflict. The container name "/{name}" is already in use')
            if self._body["Image"] not in self._engine.images:
                raise RefusedError(404, f"No such image: {self._body['Image']}")
            for mount in self._body["HostConfig"].get("Mounts", ()):
                if not Path(mount["Source"]).exists():
                    what = f"bind source path does not exist: {mount['Source']}"
                    raise RefusedError(400, f'invalid mount config for type "bind": {what}')
            if self._engine.refusal:
                raise RefusedError(400, self._engine.refusal)
            if self._engine.folders:
                own = f"BASTION_BOOT_DIR={self._engine.folders / name}"
                self._body["Env"] = [*self._body["Env"], own]
            if self._engine.dropped > 0:
                self._engine.dropped -= 1
                return
            made = Made(name, self._body)
            self._engine.made[made.id] = made
            if self._engine.lost > 0:
                self._engine.lost -= 1
                return
        self._send(201, {"Id": made.id})

    def _list(self) -> None:
        wanted = [each.split("=", 1) for each in json.loads(self._query["filters"])["label"]]
        found = [
            {
                "Id": made.id,
                "Names": [f"/{made.name}"],
                "Labels": made.body["Labels"],
                "State": made.state,
                "Status": made.state.capitalize(),
                "Created": made.created_at,
            }
            for made in tuple(self._engine.made.values())
            if all(
                key in made.body["Labels"] and text in ([], [made.body["Labels"][key]])
                for key, *text in wanted
            )
        ]
        self._send(200, found)

    def _remove(self, name: str) -> None:
        made = self._engine.find(name)
        made.end_all()
        if made.process is not None:
            assert made.is_over.wait(PATIENCE_S)
        self._engine.made.pop(made.id, None)
        self._send(204, None)

    def _stop(self, made: Made) -> None:
        if not self._engine.stays:
            made.end_all()
            assert made.is_over.wait(PATIENCE_S)
        self._send(204, None)

    def _rename(self, made: Made) -> None:
        with self._engine.lock:
            made.name = self._query["name"]
        self._send(204, None)

    def _start(self, made: Made) -> None:
        with self._engine.lock:
            try:
                made.start()
            except OSError as error:
                raise RefusedError(400, f"OCI runtime create failed: exec: {error}") from None
        self._send(204, None)

    def _attach(self, made: Made) -> None:
        connection = self._request.connection
        with made.attaching:
            connection.sendall(b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\n\r\n")
            made.watchers.append(connection)
        self._until_over(made)

    def _wait(self, made: Made) -> None:
        self._head(200)
        self._request.wfile.flush()
        self._until_over(made)
        self._request.wfile.write(json.dumps({"StatusCode": made.code}).encode())

    def _exec(self, made: Made) -> None:
        if not made.is_running:
            raise RefusedError(409, f"container {made.id} is not running")
        program = Program(made, self._body["Cmd"])
        self._engine.programs[program.id] = program
        self._send(201, {"Id": program.id})

    def _start_program(self, program: Program) -> None:
        connection = self._request.connection
        connection.sendall(b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\n\r\n")
        program.run(connection)

    def _until_over(self, made: Made) -> None:
        """Wait until the container has ended or the engine is closed."""
        if made.process is None and self._parts[-1] == "wait":
            return
        while not made.is_over.wait(0.05) and self._engine.path.exists():
            pass

    def _kill(self, made: Made) -> None:
        if not made.is_running:
            raise RefusedError(409, f"Container {made.id} is not running")
        assert made.process is not None
        number = signal.Signals[self._query["signal"]]
        try:
            if "TINI_KILL_PROCESS_GROUP=1" in made.body["Env"]:
                os.killpg(made.process.pid, number)
            else:
                made.process.send_signal(number)
        except ProcessLookupError:  # it has just ended
            raise RefusedError(409, f"Container {made.id} is not running") from None
        self._send(204, None)

    def _json(self, made: Made) -> None:
        state = {"Running": made.is_running, "ExitCode": made.code or 0, "OOMKilled": False}
        self._send(200, {"Id": made.id, "State": state})

    def _head(self, status: int, more: str = "") -> None:
        head = f"HTTP/1.0 {status} so\r\nServer: fake\r\n{more}\r\n"
        self._request.wfile.write(head.encode())

    def _send(self, status: int, body: object) -> None:
        self._head(status)
        if body is not None:
            self._request.wfile.write(json.dumps(body).encode())
