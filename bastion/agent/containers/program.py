"""
The program that the keeper runs in place of a process in a container, one for each.

    run SOCKET NAME WORDS SHM CONTAINER PROGRAM [ARGUMENT...]    run the container to its end
    exec SOCKET NAME PROGRAM [ARGUMENT...]                       run a program beside it, inside
    remove SOCKET LABEL SHM                                      remove every container with LABEL

To the keeper, `run` is the process. It writes the container's output, forwards SIGTERM, and ends as
the container does, with the same code or signal. It runs only a container that it has created
itself, and NAME is used once, so no container starts twice. CONTAINER is the body of its creation,
without program and environment. The environment is this program's own, each name behind `PREFIX`.
So no variable of the container affects this program, and none is on a command line, which any user
can read. The file WORDS gets, as JSON, the facts that no exit code expresses: why the container
could not be set up; that its engine was away, or had no room for it; or that its memory limit ended
it. SHM is a folder in memory, created here and shared by the containers of one attempt.

`remove` is the keeper's undo of an attempt. It exits 0 only when the engine has confirmed that no
such container is left.

Standard library only; it must know neither the bucket nor what a job is.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import select
import signal
import stat
import sys
import time

from bastion.agent.containers.engine import NOT_FOUND, Engine, EngineError, EngineGoneError, Frames
from bastion.agent.keeper.reasons import EXIT_CODE, OUTCOME
from bastion.agent.machine import stray_processes as strays
from bastion.agent.machine.job_files import remove as remove_tree
from bastion.agent.machine.job_files import replace_file
from bastion.agent.machine.machine_fault import is_machine_fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping
    from typing import Any

HOME_LABEL = "bastion.home"
"""Label of every container: the home of its agent."""

ATTEMPT_LABEL = "bastion.attempt"
"""Label of every container: home and key, as in `BASTION_MARK`."""

PREFIX = "+"
"""Prefix of the name of every variable of the container."""

_OF_KEEPER = (strays.MARK, OUTCOME, EXIT_CODE)
"""Variables that the keeper adds itself, without the prefix."""

SETUP_CODE = 125
"""Exit code of a container that never ran. Source: docker-run(1), "Exit Status"."""

_SIGNALLED = 128
"""
Plus n: exit code of a container whose program was ended by the signal n. Source: tini(1),
docker-run(1).
"""

_DEADLY = "HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM XCPU XFSZ SYS"
"""Signals that end a process that does not handle them. Source: signal(7)."""

_RETRY_S = 0.5
"""Between two tries while the engine does not answer."""


class Container:
    """
    The container that this process represents.

    Args:
        engine: The engine that runs it.
        name: Its name.
        body: The body of its creation: see `Engine.create`.
    """

    def __init__(self, engine: Engine, name: str, body: dict[str, Any]) -> None:
        self._engine = engine
        self._name = name
        self._body = body
        self._wakeup_read, self._wakeup_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._has_sigterm = False
        """Whether a SIGTERM waits to be forwarded."""

    def listen(self) -> None:
        """Handle SIGTERM from now on, to forward it."""
        signal.signal(signal.SIGTERM, self._handle)
        signal.set_wakeup_fd(self._wakeup_write, warn_on_full_buffer=False)

    def run(self) -> dict[str, Any]:
        """
        Create it, run it, copy its output, and return its state once it has ended.

        Raises:
            EngineError: It was not run.
            EngineGoneError: It was not run, or that is unknown.
        """
        container = self._engine.create(self._name, self._body)
        output: socket.socket | None = self._engine.attach(container)
        if self._has_sigterm:
            end_by(signal.SIGTERM)
        self._engine.start(container)
        while True:
            try:
                self._follow(container, output or self._engine.attach(container))
            except (EngineError, EngineGoneError) as error:
                _log(str(error))
                time.sleep(_RETRY_S)
            state = self._state(container)
            if not state["Running"]:
                return state
            # The engine was restarted, and the container still runs.
            output = None

    def _follow(self, container: str, output: socket.socket) -> None:
        """Copy its output and forward SIGTERM until it has ended or the engine is gone."""
        ending = self._engine.wait(container)
        frames = Frames()
        talking = {output.fileno(): output, ending.fileno(): ending}
        waiter = select.poll()
        for file in (*talking, self._wakeup_read):
            waiter.register(file, select.POLLIN)
        while talking:
            for file, _ in waiter.poll(_RETRY_S * 1e3 if self._has_sigterm else None):
                if file == self._wakeup_read:
                    os.read(self._wakeup_read, 1 << 12)
                    continue
                data = _received(talking[file])
                if talking[file] is output:
                    _write(frames.take(data))
                if not data:
                    waiter.unregister(file)
                    talking.pop(file).close()
            if self._has_sigterm:
                self._forward_sigterm(container)

    def _forward_sigterm(self, container: str) -> None:
        self._has_sigterm = False
        try:
            self._engine.kill(container, "SIGTERM")
        except (EngineError, EngineGoneError) as error:
            self._has_sigterm = True
            _log(f"SIGTERM is not forwarded yet: {error}")

    def _handle(self, _number: int, _frame: object) -> None:
        self._has_sigterm = True

    def _state(self, container: str) -> dict[str, Any]:
        """Return its state once the engine answers: it may keep running without its engine."""
        is_logged = False
        while True:
            try:
                return self._engine.state(container)
            except (EngineError, EngineGoneError) as error:
                if isinstance(error, EngineError) and error.status == NOT_FOUND:
                    _log("its container was removed")
                    return {"Running": False, "ExitCode": _SIGNALLED + signal.SIGKILL}
                if not is_logged:
                    _log(f"{error}; its output in the meantime may be missing here")
                    is_logged = True
                time.sleep(_RETRY_S)


def run(
    socket_path: str,
    name: str,
    words: str,
    shm: str,
    creation: str,
    *command: str,
    environ: Mapping[str, str],
) -> int:
    """
    Run the container `name` to its end, and return the code to exit with.

    Ends this process by a signal if the container was ended by one.
    """
    env = [
        f"{variable[len(PREFIX) :]}={text}"
        for variable, text in environ.items()
        if variable.startswith(PREFIX)
    ]
    env += [f"{name}={environ[name]}" for name in _OF_KEEPER if name in environ]
    body = {
        **json.loads(creation),
        "Env": env,
        "Entrypoint": [command[0]],
        "Cmd": list(command[1:]),
    }
    container = Container(Engine(socket_path), name, body)
    container.listen()
    try:
        make_shared(shm, body["User"])
        state = container.run()
        # It has ended; and an exiting interpreter would no longer handle the signal.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    except (EngineError, EngineGoneError, OSError) as error:
        _write_word(words, {"lost" if _is_lost(error) else "setup_failure": str(error)})
        _log(str(error))
        return SETUP_CODE
    code = int(state["ExitCode"])
    if state.get("OOMKilled") and code:
        _write_word(words, {"out_of_memory": True})
    if code > _SIGNALLED and (number := code - _SIGNALLED) in _deadly():
        end_by(number)
    return code


def _is_lost(error: Exception) -> bool:
    """Whether the container may run on another machine."""
    if isinstance(error, EngineError):
        return error.lacks_room
    return isinstance(error, EngineGoneError) or is_machine_fault(error)


def run_beside(socket_path: str, name: str, *command: str) -> int:
    """
    Run a program in the running container `name`, and return the code to exit with.

    A SIGTERM kills the program, since the engine forwards no signal to it.
    """
    engine = Engine(socket_path)
    try:
        program, output = engine.begin_exec(name, list(command))
    except (EngineError, EngineGoneError) as error:
        _log(str(error))
        return SETUP_CODE
    signal.signal(signal.SIGTERM, lambda *_: _kill(engine, program))
    frames = Frames()
    while data := _received(output):
        _write(frames.take(data))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        return int(engine.exec_state(program)["ExitCode"])
    except (EngineError, EngineGoneError, TypeError) as error:
        _log(f"how it ended is not known: {error}")
        return SETUP_CODE


def _kill(engine: Engine, program: str) -> None:
    """Kill a program in a container; the keeper kills this process if that takes too long."""
    while True:
        with contextlib.suppress(EngineError, EngineGoneError):
            state = engine.exec_state(program)
            pid = int(state["Pid"] or 0)
            if pid > 1:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            if pid > 1 or not state["Running"]:
                return
        time.sleep(_RETRY_S)


def remove(socket_path: str, label: str, shm: str) -> int:
    """Remove every container with `label`; return 0 once the engine lists none."""
    engine = Engine(socket_path)
    try:
        for container, _ in engine.containers(label):
            engine.remove(container)
        left = engine.containers(label)
    except (EngineError, EngineGoneError) as error:
        sys.stderr.write(f"containers with {label} may still exist: {error}\n")
        return 1
    if not left and shm:
        with contextlib.suppress(OSError):
            remove_tree(shm)
    return 1 if left else 0


def end_by(number: int) -> None:
    """End this process by a signal, without a core dump: that is the container's."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def main() -> None:
    """Run the verb of the command line."""
    verb, arguments = sys.argv[1], sys.argv[2:]
    if verb == "run":
        sys.exit(run(*arguments, environ=os.environ))
    sys.exit(run_beside(*arguments) if verb == "exec" else remove(*arguments))


def make_shared(folder: str, user: str) -> None:
    """
    Create the folder that an attempt's containers share, for their `user` ("uid:gid") only.

    Raises:
        OSError: Its name is taken by something other than a folder of this user.
    """
    uid, gid = map(int, user.split(":"))
    try:
        os.mkdir(folder, 0o700)  # noqa: PTH102
        os.chown(folder, uid, gid)
    except FileExistsError:
        found = os.lstat(folder)
        # A sibling may have made it and not yet changed its owner.
        is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid in (uid, os.geteuid())
        if not is_ours or stat.S_IMODE(found.st_mode) & 0o077:
            what = "another user of this machine has made it"
            raise OSError(errno.EEXIST, what, folder) from None


def _write_word(path: str, word: dict[str, object]) -> None:
    # A word that cannot be written does not change how it ended.
    with contextlib.suppress(OSError):
        replace_file(path, json.dumps(word).encode())


def _deadly() -> frozenset[int]:
    return frozenset(getattr(signal, f"SIG{name}") for name in _DEADLY.split())


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(1 << 16)
    except OSError:
        return b""


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


def _log(text: str) -> None:
    _write(f"[bastion: {text}]\n".encode())


if __name__ == "__main__":
    main()
