"""
What the keeper runs for a process that lives in a container: this program, one for each.

    run SOCKET NAME WORDS SHM CONTAINER PROGRAM [ARGUMENT...]    be the container, to its end
    remove SOCKET LABEL SHM                                      end every container so labelled

To the keeper, `run` is the process: it writes what the container writes, hands SIGTERM on, and ends
as the container ends, by the same code or signal. It runs only a container that it has made itself,
and NAME is used once: what began before is never begun again. CONTAINER is what it is made of, but
for its program and its environment. The environment is this program's own, each name behind
`PREFIX`: so nothing that is meant for the container befalls this program, and nothing of it stands
where everybody can read it. What no code can say goes into the file WORDS, as JSON: that it could
not be set up, and why; or that its memory limit ended it. SHM is a folder in memory, made here, for
the containers of one attempt to share.

`remove` is how the keeper undoes an attempt before it writes down the end: it exits 0 only when the
engine has said that no such container is left.

Standard library only; it knows neither the bucket nor what a job is.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import select
import shutil
import signal
import stat
import sys
import time

from bastion.agent.containers.engine import NOT_FOUND, Engine, EngineError, EngineGoneError, Frames
from bastion.agent.machine import stray_processes as strays
from bastion.agent.machine.job_files import replace_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping
    from typing import Any

HOME_LABEL = "bastion.home"
"""Of every container: the home of the agent it belongs to."""

ATTEMPT_LABEL = "bastion.attempt"
"""Of every container: home and key, as in `BASTION_MARK`."""

PREFIX = "+"
"""Before the name of every variable that is the container's."""

SETUP_CODE = 125
"""Of a container that never ran. Source: docker-run(1), "Exit Status"."""

_SIGNALLED = 128
"""What ended by the signal n left its container with 128 + n. Source: tini(1), docker-run(1)."""

_DEADLY = "HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM XCPU XFSZ SYS"
"""Signals that end whoever did not care for them. Source: signal(7)."""

_AGAIN_S = 0.5
"""Between two tries while the engine does not answer."""


class Container:
    """
    The one container that this process stands for.

    Args:
        engine: Whose it is.
        name: Its name.
        body: What it is made of: see `Engine.create`.
    """

    def __init__(self, engine: Engine, name: str, body: dict[str, Any]) -> None:
        self._engine = engine
        self._name = name
        self._body = body
        self._bell, self._ring = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._is_told = False
        """Whether a SIGTERM waits to be handed on."""

    def listen(self) -> None:
        """Take SIGTERM from now on, to hand it on."""
        signal.signal(signal.SIGTERM, self._hear)
        signal.set_wakeup_fd(self._ring, warn_on_full_buffer=False)

    def run(self) -> dict[str, Any]:
        """
        Make it, run it, pass its output on; how it is once it has ended.

        Raises:
            EngineError: It was not run.
            EngineGoneError: It was not run, or nobody knows whether it was.
        """
        container = self._engine.create(self._name, self._body)
        output: socket.socket | None = self._engine.attach(container)
        if self._is_told:
            end_by(signal.SIGTERM)
        self._engine.start(container)
        while True:
            try:
                self._follow(container, output or self._engine.attach(container))
            except (EngineError, EngineGoneError) as error:
                _say(str(error))
                time.sleep(_AGAIN_S)
            state = self._state(container)
            if not state["Running"]:
                return state
            # The engine went away and came back, and the container has outlived that.
            output = None

    def _follow(self, container: str, output: socket.socket) -> None:
        """Pass on what it writes, and SIGTERM, until it has ended or the engine breaks off."""
        ending = self._engine.wait(container)
        frames = Frames()
        talking = {output.fileno(): output, ending.fileno(): ending}
        waiter = select.poll()
        for file in (*talking, self._bell):
            waiter.register(file, select.POLLIN)
        while talking:
            for file, _ in waiter.poll(_AGAIN_S * 1e3 if self._is_told else None):
                if file == self._bell:
                    os.read(self._bell, 1 << 12)
                    continue
                data = _received(talking[file])
                if talking[file] is output:
                    _write(frames.take(data))
                if not data:
                    waiter.unregister(file)
                    talking.pop(file).close()
            if self._is_told:
                self._hand_on(container)

    def _hand_on(self, container: str) -> None:
        self._is_told = False
        try:
            self._engine.kill(container, "SIGTERM")
        except (EngineError, EngineGoneError) as error:
            self._is_told = True
            _say(f"SIGTERM is not handed on yet: {error}")

    def _hear(self, _number: int, _frame: object) -> None:
        self._is_told = True

    def _state(self, container: str) -> dict[str, Any]:
        """How it is, as soon as the engine can say it: it may run on without its engine."""
        is_said = False
        while True:
            try:
                return self._engine.state(container)
            except (EngineError, EngineGoneError) as error:
                if isinstance(error, EngineError) and error.status == NOT_FOUND:
                    _say("somebody took its container away")
                    return {"Running": False, "ExitCode": _SIGNALLED + signal.SIGKILL}
                if not is_said:
                    _say(f"{error}; what it writes meanwhile may be missing here")
                    is_said = True
                time.sleep(_AGAIN_S)


def run(
    socket_path: str,
    name: str,
    words: str,
    shm: str,
    said: str,
    *command: str,
    environ: Mapping[str, str],
) -> int:
    """
    Be the container `name`, from its beginning to its end; the code to exit with.

    Ends this process by a signal where the container was ended by one.
    """
    env = [
        f"{variable[len(PREFIX) :]}={text}"
        for variable, text in environ.items()
        if variable.startswith(PREFIX)
    ]
    env += [f"{strays.MARK}={environ[strays.MARK]}"] if strays.MARK in environ else []
    body = {**json.loads(said), "Env": env, "Entrypoint": [command[0]], "Cmd": list(command[1:])}
    container = Container(Engine(socket_path), name, body)
    container.listen()
    try:
        make_shared(shm, body["User"])
        state = container.run()
        # Too late to change how it ended; and an interpreter that goes would not catch it any more.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    except (EngineError, EngineGoneError, OSError) as error:
        _leave_word(words, {"setup_failure": str(error)})
        _say(str(error))
        return SETUP_CODE
    code = int(state["ExitCode"])
    if state.get("OOMKilled") and code:
        _leave_word(words, {"out_of_memory": True})
    if code > _SIGNALLED and (number := code - _SIGNALLED) in _deadly():
        end_by(number)
    return code


def remove(socket_path: str, label: str, shm: str) -> int:
    """Make an end of every container that carries `label`; 0 when the engine says there is none."""
    engine = Engine(socket_path)
    try:
        for container, _ in engine.containers(label):
            engine.remove(container)
        left = engine.containers(label)
    except (EngineError, EngineGoneError) as error:
        sys.stderr.write(f"containers with {label} are not known to be gone: {error}\n")
        return 1
    if not left and shm:
        shutil.rmtree(shm, ignore_errors=True)
    return 1 if left else 0


def end_by(number: int) -> None:
    """End this process by a signal, without a core: it is another that died."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def main() -> None:
    """Run the verb of the command line."""
    verb, arguments = sys.argv[1], sys.argv[2:]
    sys.exit(run(*arguments, environ=os.environ) if verb == "run" else remove(*arguments))


def make_shared(folder: str, user: str) -> None:
    """
    Make the folder that the containers of one attempt share, for their `user` ("uid:gid") alone.

    Raises:
        OSError: Its name is taken by what is no folder of this user.
    """
    uid, gid = map(int, user.split(":"))
    try:
        os.mkdir(folder, 0o700)  # noqa: PTH102
        os.chown(folder, uid, gid)
    except FileExistsError:
        found = os.lstat(folder)
        # A sibling may have made it and not yet given it away.
        is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid in (uid, os.geteuid())
        if not is_ours or stat.S_IMODE(found.st_mode) & 0o077:
            what = "another user of this machine has made it"
            raise OSError(errno.EEXIST, what, folder) from None


def _leave_word(path: str, word: dict[str, object]) -> None:
    # That the word cannot be left changes nothing of how it ended.
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


def _say(text: str) -> None:
    _write(f"[bastion: {text}]\n".encode())


if __name__ == "__main__":
    main()
