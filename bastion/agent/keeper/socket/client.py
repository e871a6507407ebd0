"""
The agent's side of the keeper's socket.

There are two connections: requests take turns on the first, events come on the second, so that a
thread that waits in `poll` blocks no request. Records go through the codec at the end of this file,
field by field. An unknown field is an error, never ignored.
"""

from __future__ import annotations

import dataclasses
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from bastion.agent.keeper.port import (
    Answers,
    AttemptStart,
    AttemptState,
    Ended,
    Exited,
    ExitRecord,
    KeeperEndingError,
    KeeperError,
    KeeperEvent,
    KeeperGoneError,
    MachineFaultError,
    Notice,
    OutputGrew,
    ProcessExit,
    ProcessStart,
    Running,
    WentIdle,
)
from bastion.agent.keeper.socket.request import LINE_BYTES, file_name
from bastion.agent.machine.machine_fault import fault_text, is_machine_fault
from bastion.agent.machine.pidfd import Held
from bastion.agent.machine.stray_processes import MARK
from bastion.errors import BastionError, ConflictError, NotFoundError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ANSWER_S = 30.0
"""Longest wait for an answer: the keeper answers within a sync of the disk."""

START_S = 30.0
"""Longest wait for a new keeper, which first kills what an older one left running."""

_ERRORS = {
    "conflict": ConflictError,
    "not found": NotFoundError,
    "machine": MachineFaultError,
    "ending": KeeperEndingError,
}

_DETACHED = """
import os, sys
if os.fork():
    os._exit(0)
os.setsid()
sys.path.insert(0, sys.argv.pop(1))
from bastion.agent.keeper.main import main
main()
"""


class Waker(Protocol):
    """Ends a wait for events early."""

    def fileno(self) -> int:
        """Return a descriptor that is readable when there may be news; -1 if there is none."""
        ...

    def hears(self) -> bool:
        """Whether there is news, after reading what made the descriptor readable."""
        ...


class KeeperClient:
    """
    A connection to the keeper that serves `home`: a `Keeper` and a `Spool`.

    Events are reported from the construction of this object on; see `attempts` for earlier ones.

    Raises:
        KeeperGoneError: No keeper serves `home`.
        MachineFaultError: The machine has no room for a connection.
    """

    def __init__(self, home: Path) -> None:
        self.wakes: Waker | None = None
        """What ends `poll` early; None if nothing does."""
        self._folder = Path(os.path.realpath(home)) / "keeper"
        self._lock = threading.Lock()
        self._number = 0
        self._request_socket = _connect(self._folder)
        self._event_socket = _connect(self._folder)
        self._answer_bytes = b""
        self._event_bytes = b""
        answer = self._request("ping")
        self.life = int(answer["life"])
        self.can_limit_memory = bool(answer["can_limit_memory"])
        self._keeps_secrets = bool(answer.get("keeps_secrets"))
        self._can_undo = bool(answer.get("can_undo"))
        self._can_run_as = bool(answer.get("can_run_as"))
        try:
            self._event_socket.sendall(b'{"do":"watch"}\n')
        except OSError as error:
            raise KeeperGoneError(f"the keeper of {self._folder} went away: {error}") from None

    def start(self, attempt: AttemptStart) -> None:
        """See `Keeper.start`; a keeper of an older Bastion may not support the whole request."""
        self._request("start", **self._fields_of(attempt))

    def start_all(self, attempts: Sequence[AttemptStart]) -> Answers:
        """See `Keeper.start_all`."""
        errors: dict[int, BastionError] = {}
        asked: dict[int, dict[str, object]] = {}
        for number, attempt in enumerate(attempts):
            try:
                asked[number] = self._fields_of(attempt)
            except KeeperError as error:
                errors[number] = error
        for number, answer in zip(asked, self._requests("start", list(asked.values()))):
            if isinstance(answer, BastionError):
                errors[number] = answer
        return tuple(errors.get(number) for number in range(len(attempts)))

    def _fields_of(self, attempt: AttemptStart) -> dict[str, object]:
        """
        Return the fields of the request that starts `attempt`.

        Raises:
            KeeperError: The keeper is too old for it.
        """
        if attempt.secrets and not self._keeps_secrets:
            raise KeeperError(
                f"the keeper of {self._folder} is older than secrets: it would write them down",
                hint="it is replaced when the machine is drained and its keeper ends",
            )
        if attempt.undo and not self._can_undo:
            raise KeeperError(
                f"the keeper of {self._folder} is older than containers: it would leave them",
                hint="it is replaced when the machine is drained and its keeper ends",
            )
        if attempt.run_as is not None and not self._can_run_as:
            raise KeeperError(
                f"the keeper of {self._folder} is older than run_as: it would start jobs as root",
                hint="it is replaced when the machine is drained and its keeper ends",
            )
        fields = {field.name: getattr(attempt, field.name) for field in dataclasses.fields(attempt)}
        fields["processes"] = [_plain(process) for process in attempt.processes]
        fields["on_end"] = _plain(attempt.on_end) if attempt.on_end is not None else None
        fields["run_as"] = dataclasses.asdict(attempt.run_as) if attempt.run_as else None
        fields["idle"] = dataclasses.asdict(attempt.idle) if attempt.idle is not None else None
        return fields

    def stop(self, key: str, *, reason: str, by: str, grace_s: float) -> None:
        """See `Keeper.stop`."""
        self._request("stop", key=key, reason=reason, by=by, grace_s=grace_s)

    def limit(self, key: str, *, max_runtime_s: float) -> None:
        """See `Keeper.limit`."""
        self._request("limit", key=key, max_runtime_s=max_runtime_s)

    def permit(self, *, valid_for_s: float, sent_at: float) -> None:
        """See `Keeper.permit`."""
        self._request("permit", valid_for_s=valid_for_s, sent_at=sent_at)

    def attempts(self) -> tuple[AttemptState, ...]:
        """See `Keeper.attempts`."""
        return tuple(map(_state, self._request("list")["attempts"]))

    def forget(self, key: str) -> None:
        """See `Keeper.forget`."""
        self._request("forget", key=key)

    def forget_all(self, keys: Sequence[str]) -> Answers:
        """See `Keeper.forget_all`."""
        answers = self._requests("forget", [{"key": key} for key in keys])
        return tuple(each if isinstance(each, BastionError) else None for each in answers)

    def poll(self, timeout_s: float) -> tuple[KeeperEvent, ...]:
        """See `Keeper.poll`."""
        deadline = time.monotonic() + timeout_s
        while True:
            left_s = max(0.0, deadline - time.monotonic())
            if not _is_readable(self._event_socket, left_s, also=self.wakes):
                return ()
            self._event_bytes += self._received(self._event_socket)
            *lines, self._event_bytes = self._event_bytes.split(b"\n")
            events = tuple(event for event in map(_event, lines) if event is not None)
            if events:
                return events

    def read(self, key: str, process: int, *, offset: int, size_bytes: int) -> bytes:
        """See `Spool.read`."""
        path = self._folder / "spool" / file_name(key) / f"p{process}.log"
        try:
            with path.open("rb") as file:
                file.seek(offset)
                return file.read(size_bytes)
        except FileNotFoundError:
            raise NotFoundError(f"no log of process {process} of {key}") from None
        except (OSError, MemoryError) as error:
            what = f"the log of process {process} of {key} cannot be read now"
            raise MachineFaultError(f"{what}: {fault_text(error)}") from error

    def terminate(self) -> None:
        """
        Send SIGTERM to the keeper itself: it stops everything with grace and exits.

        Only for a machine that is deleted or whose life was superseded; `poll` raises
        `KeeperGoneError` once the keeper is gone.
        """
        peer = self._request_socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        pid, _, _ = struct.unpack("iII", peer)
        held = Held(pid)
        try:
            if int(self._request("ping")["pid"]) == pid:
                held.send(signal.SIGTERM)
        finally:
            held.close()

    def close(self) -> None:
        """Close the connections; the keeper continues."""
        self._request_socket.close()
        self._event_socket.close()

    def _request(self, verb: str, **fields: object) -> dict[str, Any]:
        (answer,) = self._requests(verb, [fields])
        if isinstance(answer, BastionError):
            raise answer
        return answer

    def _requests(
        self, verb: str, each: Sequence[dict[str, object]]
    ) -> list[dict[str, Any] | BastionError]:
        """
        Send all requests, then wait for the answers, which the keeper may give in any order.

        A request that is longer than the keeper reads is not sent: it would cost the connection.
        """
        with self._lock:
            numbers = range(self._number + 1, self._number + 1 + len(each))
            self._number += len(each)
            lines = {
                number: json.dumps({"id": number, "do": verb, **fields}).encode() + b"\n"
                for number, fields in zip(numbers, each)
            }
            sent = {number: line for number, line in lines.items() if len(line) <= LINE_BYTES}
            try:
                self._request_socket.sendall(b"".join(sent.values()))
            except OSError as error:
                raise KeeperGoneError(f"the keeper of {self._folder} went away: {error}") from None
            answers = [self._next_answer() for _ in sent]
        found = {answer["id"]: answer for answer in answers}
        return [
            _outcome(found[number]) if number in found else _too_long(len(line))
            for number, line in lines.items()
        ]

    def _next_answer(self) -> dict[str, Any]:
        while b"\n" not in self._answer_bytes:
            self._answer_bytes += self._received(self._request_socket)
        line, _, self._answer_bytes = self._answer_bytes.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _received(self, connection: socket.socket) -> bytes:
        try:
            data = connection.recv(1 << 18)
        except OSError as error:
            # After a timeout, answers would no longer match requests.
            connection.close()
            raise KeeperGoneError(f"no answer from the keeper of {self._folder}: {error}") from None
        if not data:
            raise KeeperGoneError(f"the keeper of {self._folder} went away")
        return data


def _outcome(answer: dict[str, Any]) -> dict[str, Any] | BastionError:
    """Return what `answer` holds, or the error that it stands for."""
    if "ok" in answer:
        found: dict[str, Any] = answer["ok"]
        return found
    return _ERRORS.get(answer["error"], KeeperError)(answer["message"])


def _too_long(size_bytes: int) -> KeeperError:
    return KeeperError(
        f"commands and environments of the processes on one machine are {size_bytes:,} bytes"
        f" together; at most {LINE_BYTES:,}",
        hint="shorten env, start fewer processes on a machine, or put large values into files",
    )


def spawn_keeper(
    home: Path, *, life: int, permit_s: float, use_cgroups: bool = True, mark: str = ""
) -> KeeperClient:
    """
    Start a keeper that outlives this process, and connect to it.

    It runs in a session of its own, isolated from site-packages. Its environment has only `mark`.
    What an older life left running is dead when this returns.

    Args:
        home: The agent's home.
        life: Above every earlier life of this home.
        permit_s: How long processes may run without a renewed permit; 0: forever.
        use_cgroups: Whether the keeper may create cgroups.
        mark: This process's own `BASTION_MARK`, if it runs inside a job of another keeper: the new
            keeper is then a process of that job too.

    Raises:
        MachineFaultError: The machine has no room for it.
        KeeperError: It did not start; the message is the last line of its log.
    """
    try:
        return _spawned(home, life=life, permit_s=permit_s, use_cgroups=use_cgroups, mark=mark)
    except OSError as error:
        if not is_machine_fault(error):
            raise
        raise MachineFaultError(f"no keeper for {home}: {fault_text(error)}") from error


def _spawned(
    home: Path, *, life: int, permit_s: float, use_cgroups: bool, mark: str
) -> KeeperClient:
    root = Path(__file__).resolve().parents[4]
    command = [sys.executable, "-I", "-S", "-c", _DETACHED, str(root)]
    options = ["--home", str(home), "--life", str(life), "--permit_s", str(permit_s)]
    options += ["--cgroups", "yes" if use_cgroups else "no"]
    folder = home / "keeper"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / "keeper.log").open("ab") as log:
        log_begins_at = log.tell()
        process = subprocess.Popen(
            [*command, *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
            env={MARK: mark} if mark else {},
            cwd="/",
        )
    with process:
        assert process.stdout is not None
        is_readable, _, _ = select.select([process.stdout], [], [], START_S)
        output = os.read(process.stdout.fileno(), 64) if is_readable else b""
    if output != b"ready\n":
        text = (folder / "keeper.log").read_bytes()[log_begins_at:].decode("utf-8", "replace")
        why = text.strip() or f"it was not ready within {START_S:g} s"
        raise KeeperError(
            f"no keeper for {home}: {why.splitlines()[-1]}",
            hint="a process that cannot be killed delays a new keeper",
        )
    return KeeperClient(home)


def _connect(folder: Path) -> socket.socket:
    """Connect by the folder's descriptor: the path of a socket has at most 107 bytes."""
    try:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    except OSError as error:
        raise MachineFaultError(f"no socket can be made: {fault_text(error)}") from error
    connection.settimeout(ANSWER_S)
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            connection.connect(f"/proc/self/fd/{handle}/socket")
        finally:
            os.close(handle)
    except OSError as error:
        connection.close()
        if is_machine_fault(error):
            what = f"the keeper of {folder} cannot be reached now"
            raise MachineFaultError(f"{what}: {fault_text(error)}") from error
        raise KeeperGoneError(f"no keeper serves {folder}: {error.strerror}") from None
    return connection


def _is_readable(connection: socket.socket, timeout_s: float, *, also: Waker | None) -> bool:
    """
    Whether data or the end has arrived; by `poll`, since `select` stops at descriptor 1023.

    The wait also ends when `also` hears news. Most events that make it readable are for others, and
    do not cost its reader a turn.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        waiter = select.poll()
        try:
            waiter.register(connection, select.POLLIN)
        except ValueError:
            raise KeeperGoneError("this connection to the keeper is closed") from None
        waker = -1 if also is None else also.fileno()
        if waker >= 0:
            waiter.register(waker, select.POLLIN)
        left_s = max(0.0, deadline - time.monotonic())
        ready = {found for found, _ in waiter.poll(left_s * 1e3)}
        if not ready or ready != {waker}:
            return bool(ready)
        assert also is not None
        if also.hears() or time.monotonic() >= deadline:
            return False


def _event(line: bytes) -> KeeperEvent | None:
    fields: dict[str, Any] = json.loads(line)
    kind = fields.pop("event", None)
    if kind == "exited":
        return Exited(record=_record(fields["record"]))
    if kind == "idle":
        return WentIdle(**fields)
    return OutputGrew(**fields) if kind == "output" else None


def _plain(process: ProcessStart) -> dict[str, Any]:
    return {"argv": process.argv, "env": dict(process.env), "cwd": process.cwd}


def _state(fields: dict[str, Any]) -> AttemptState:
    fields["secrets"] = _secrets(fields.get("secrets", ()))
    if "record" in fields:
        return Ended(record=_record(fields.pop("record")), **fields)
    notices = tuple(Notice(**notice) for notice in fields.pop("notices"))
    pids, sizes = tuple(fields.pop("pids")), tuple(fields.pop("log_sizes_bytes"))
    return Running(notices=notices, pids=pids, log_sizes_bytes=sizes, **fields)


def _secrets(values: list[str] | tuple[str, ...] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(values)


def _record(fields: dict[str, Any]) -> ExitRecord:
    processes = tuple(ProcessExit(**process) for process in fields.pop("processes"))
    notices = tuple(Notice(**notice) for notice in fields.pop("notices"))
    return ExitRecord(processes=processes, notices=notices, **fields)
