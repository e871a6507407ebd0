"""What a container means to the keeper, tested against docker itself and the fake engine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bastion.agent.containers.engine import (
    CONFLICT,
    NOT_FOUND,
    Engine,
    EngineError,
    EngineGoneError,
)
from bastion.agent.containers.program import PREFIX, SETUP_CODE
from tests.rigs.limits import killed
from tests.servers.dockerd import IMAGE, Dockerd, dockerd, has_shell, needs_dockerd
from tests.servers.engine import FakeEngine

ROOT = str(Path(__file__).parents[2])
PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from bastion.agent.containers.program import main; main()"
)
PATIENCE_S = 30.0


@dataclass(slots=True, kw_only=True)
class Bench:
    """An engine, and the containers of the tests on it."""

    socket: Path
    folder: Path
    fake: FakeEngine | None = None
    engine: Engine = field(init=False)
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.engine = Engine(str(self.socket))

    @property
    def label(self) -> str:
        """Return the label of this bench's containers."""
        return f"bench={self.folder}"

    @property
    def shm(self) -> str:
        """Return their shared memory."""
        return f"/dev/shm/bench-{abs(hash(self.folder)):x}"

    def body(self, **host: object) -> dict[str, Any]:
        """Return the request that creates a container."""
        shared = {"Type": "bind", "Source": self.shm, "Target": "/dev/shm"}
        return {
            "Image": IMAGE,
            "User": f"{os.geteuid()}:{os.getegid()}",
            "AttachStdout": True,
            "AttachStderr": True,
            "Labels": dict([self.label.split("=")]),
            "HostConfig": {
                "Init": True,
                "NetworkMode": "host",
                "LogConfig": {"Type": "none"},
                "Mounts": [shared],
                **host,
            },
        }

    def begin(
        self, line: str, *, name: str = "one", body: dict[str, Any] | None = None, **env: str
    ) -> subprocess.Popen[bytes]:
        """Start the program that represents a container."""
        said = json.dumps(body or self.body())
        words = str(self.folder / f"{name}.words")
        unique = f"{self.folder.name}-{name}"
        program = [sys.executable, "-I", "-S", "-c", PROGRAM, ROOT, "run"]
        command = [*program, str(self.socket), unique, words, self.shm, said, "sh", "-c", line]
        env = {"TINI_KILL_PROCESS_GROUP": "1", **env}
        process = subprocess.Popen(
            command,
            env={PREFIX + variable: text for variable, text in env.items()},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.started.append(process)
        return process

    def beside(self, line: str, *, name: str = "one") -> subprocess.Popen[bytes]:
        """Start a program in a running container."""
        program = [sys.executable, "-I", "-S", "-c", PROGRAM, ROOT, "exec"]
        command = [*program, str(self.socket), f"{self.folder.name}-{name}", "sh", "-c", line]
        process = subprocess.Popen(
            command, env={}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        self.started.append(process)
        return process

    def run(self, line: str, **how: Any) -> tuple[int, bytes]:
        """Run a container to its end: code and output."""
        process = self.begin(line, **how)
        output, _ = process.communicate(timeout=PATIENCE_S)
        return process.returncode, output

    def words(self, name: str = "one") -> dict[str, Any]:
        """Return the messages that no code could express."""
        path = self.folder / f"{name}.words"
        return json.loads(path.read_text()) if path.exists() else {}

    def remove(self) -> int:
        """Run the program that ends every container of this bench; return its code."""
        program = [sys.executable, "-I", "-S", "-c", PROGRAM, ROOT, "remove"]
        command = [*program, str(self.socket), self.label, self.shm]
        return subprocess.run(command, timeout=PATIENCE_S, capture_output=True).returncode

    def left(self) -> int:
        """Return the number of containers."""
        return len(self.engine.containers(self.label))

    def end(self) -> None:
        """Leave nothing behind."""
        for process in self.started:
            killed(process)
        assert self.remove() == 0


def said(process: subprocess.Popen[bytes], text: bytes) -> None:
    """Wait for a line of a container."""
    assert process.stdout
    assert process.stdout.readline() == text


@pytest.fixture(scope="module")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dockerd]:
    """Provide a real daemon with the image."""
    with dockerd(tmp_path_factory.mktemp("engine")) as made:
        made.load_image()
        yield made


no_shell = pytest.mark.skipif(not has_shell(), reason="needs busybox-static")
needs_shell = [*needs_dockerd, no_shell]


@pytest.fixture(params=["fake", pytest.param("docker", marks=needs_shell)])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    """Provide a bench of either kind."""
    if request.param == "docker":
        made = Bench(socket=request.getfixturevalue("docker").socket, folder=tmp_path)
        yield made
        made.end()
        return
    fake = FakeEngine(tmp_path / "s", images={IMAGE})
    fake.open()
    made = Bench(socket=fake.path, folder=tmp_path, fake=fake)
    yield made
    made.end()
    fake.end()


def test_it_ends_as_its_container_does(bench: Bench) -> None:
    """Output and code are the container's, and no message is written if the code is enough."""
    assert bench.run("echo out; echo err >&2; exit 7")[0] == 7
    assert bench.run("echo out; exit 0", name="two") == (0, b"out\n")
    assert bench.words() == {}


@pytest.mark.parametrize("name", ["KILL", "SEGV", "TERM"])
def test_a_signal_is_a_signal(bench: Bench, name: str) -> None:
    """A container ended by a signal ends its process by that signal."""
    assert bench.run(f"kill -{name} $$")[0] == -getattr(signal, f"SIG{name}")


def test_no_byte_is_lost(bench: Bench) -> None:
    """All output before the end is copied, binary bytes too."""
    code, output = bench.run("yes 0123456789abcde | head -c 4194304; printf '\\377\\000end'")
    assert code == 0
    assert len(output) == 4194304 + 5
    assert output.endswith(b"\xff\x00end")


def test_the_environment_is_the_one_given(bench: Bench) -> None:
    """Variables are passed unchanged, including newlines; the program's own are not passed."""
    code, output = bench.run(
        'printf "%s|" "$LINES_2" "$PREFIXED" "$HIDDEN"; env', LINES_2="a\nb = c", PREFIXED="+x"
    )
    assert (code, output.split(b"|")[:3]) == (0, [b"a\nb = c", b"+x", b""])
    assert b"BASTION" not in output


def test_arguments_are_passed_unchanged(bench: Bench) -> None:
    """Arguments arrive unchanged, quotes included."""
    assert bench.run("printf '%s' \"it's\"") == (0, b"it's")


def test_a_program_beside_it_runs_inside(bench: Bench) -> None:
    """A further program has the container's variables, and its own output and code."""
    process = bench.begin("echo up; exec sleep 1000", COLOUR="red")
    said(process, b"up\n")
    beside = bench.beside("echo $COLOUR; echo err >&2; exit 7")
    output, _ = beside.communicate(timeout=PATIENCE_S)
    assert (beside.returncode, sorted(output.splitlines())) == (7, [b"err", b"red"])
    assert process.poll() is None


def test_a_program_beside_it_is_killed_by_a_stop(bench: Bench) -> None:
    """SIGTERM to the program that represents it kills it, and the container continues."""
    process = bench.begin("echo up; exec sleep 1000")
    said(process, b"up\n")
    beside = bench.beside("echo begun; exec sleep 1000")
    said(beside, b"begun\n")
    beside.terminate()
    assert beside.wait(PATIENCE_S) == 128 + signal.SIGKILL
    assert process.poll() is None


def test_no_program_runs_beside_one_that_has_ended(bench: Bench) -> None:
    """A container that has ended accepts no further program, and the error says so."""
    assert bench.run("exit 0") == (0, b"")
    beside = bench.beside("true")
    output, _ = beside.communicate(timeout=PATIENCE_S)
    assert beside.returncode == SETUP_CODE
    assert b"is not running" in output


def test_term_is_forwarded(bench: Bench) -> None:
    """SIGTERM to the program reaches the container, which may end later."""
    process = bench.begin("trap 'echo told; exit 5' TERM; echo up; while :; do sleep 0.05; done")
    said(process, b"up\n")
    process.terminate()
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 5
    assert b"told\n" in output


def test_term_reaches_the_process_group(bench: Bench) -> None:
    """SIGTERM reaches the first process and all others of its group."""
    below = "trap 'echo below; exit 0' TERM; echo up; sleep 100 & wait"
    line = f"trap 'wait; exit 0' TERM; ({below}) & wait"
    process = bench.begin(line)
    said(process, b"up\n")
    process.terminate()
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert b"below\n" in output


def test_term_before_the_start_wins(bench: Bench) -> None:
    """After an early SIGTERM it runs no container, or one that also gets SIGTERM."""
    process = bench.begin("echo up; exec sleep 1000")
    process.terminate()
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == -signal.SIGTERM


def test_removing_kills_what_ignores_term(bench: Bench) -> None:
    """After a confirmed removal no process of the container runs, and its memory is free."""
    line = "trap '' TERM; echo up; (trap '' TERM; setsid sleep 1000) & while :; do sleep 1; done"
    process = bench.begin(line)
    said(process, b"up\n")
    assert Path(bench.shm).is_dir()
    process.terminate()
    assert bench.remove() == 0
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == -signal.SIGKILL
    assert bench.left() == 0
    assert not Path(bench.shm).exists()


def test_a_killed_program_leaves_a_container_to_be_removed(bench: Bench) -> None:
    """Kill -9 of the program ends no container; the removal finds it by its label."""
    process = bench.begin("echo up; exec sleep 1000")
    said(process, b"up\n")
    killed(process)
    ((container, _),) = bench.engine.containers(bench.label)
    assert bench.engine.state(container)["Running"]
    assert bench.remove() == 0
    with pytest.raises(EngineError) as caught:
        bench.engine.state(container)
    assert caught.value.status == NOT_FOUND


def test_a_name_is_used_once(bench: Bench) -> None:
    """A second container with a name is refused while the first exists, even if that has ended."""
    assert bench.run("exit 0")[0] == 0
    code, output = bench.run("echo never")
    assert code == SETUP_CODE
    assert b"never" not in output
    assert "is already in use" in bench.words()["setup_failure"]


def test_a_missing_image_is_an_error(bench: Bench) -> None:
    """A container that cannot be created is an error in the engine's own words."""
    code, output = bench.run("echo never", body={**bench.body(), "Image": "bench/none:1"})
    assert code == SETUP_CODE
    assert bench.words()["setup_failure"].startswith("No such image: bench/none:1")
    assert b"No such image" in output


def test_a_missing_mount_is_an_error(bench: Bench) -> None:
    """A folder that does not exist is not created."""
    mount = {"Type": "bind", "Source": "/nowhere", "Target": "/mnt"}
    code, _ = bench.run("echo never", body=bench.body(Mounts=[mount]))
    assert code == SETUP_CODE
    assert "/nowhere" in bench.words()["setup_failure"]


def test_a_folder_is_shared(bench: Bench) -> None:
    """Files of a container in a mounted folder are immediately visible, and belong to its user."""
    mine = bench.folder / "mine"
    mine.mkdir()
    mount = {"Type": "bind", "Source": str(mine), "Target": str(mine)}
    body = {**bench.body(Mounts=[mount]), "User": f"{os.getuid()}:{os.getgid()}"}
    assert bench.run(f"echo kept > {mine}/file", body=body) == (0, b"")
    assert (mine / "file").read_text() == "kept\n"
    assert (mine / "file").stat().st_uid == os.getuid()


def test_removal_is_idempotent(bench: Bench) -> None:
    """A removal may be repeated, and may run without a container."""
    assert bench.remove() == 0
    assert bench.run("exit 0")[0] == 0
    assert bench.remove() == 0
    assert bench.remove() == 0


def test_a_removed_container_ends_its_program(bench: Bench) -> None:
    """The removal of a container kills it."""
    process = bench.begin("echo up; exec sleep 1000")
    said(process, b"up\n")
    ((container, _),) = bench.engine.containers(bench.label)
    bench.engine.remove(container)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == -signal.SIGKILL


def test_conflicts_have_their_status(bench: Bench) -> None:
    """A name that is already used is a conflict for every request."""
    body = {**bench.body(), "Entrypoint": ["sh"], "Cmd": [], "Env": []}
    Path(bench.shm).mkdir(exist_ok=True)
    bench.engine.create(f"{bench.folder.name}-x", body)
    with pytest.raises(EngineError) as caught:
        bench.engine.create(f"{bench.folder.name}-x", body)
    assert caught.value.status == CONFLICT


def test_a_failed_pull_has_a_reason(bench: Bench) -> None:
    """A failed pull is an error in the words of the engine or the registry."""
    with pytest.raises(EngineError, match=r"not found|refused|no such host|denied"):
        list(bench.engine.pull("127.0.0.1:1/bench/none:1"))


def test_present_images_are_recognised(bench: Bench) -> None:
    """An image on the machine need not be pulled."""
    assert bench.engine.has_image(IMAGE)
    assert not bench.engine.has_image("bench/none:1")


def test_no_engine_is_an_error(tmp_path: Path) -> None:
    """The error for a missing engine names its socket."""
    nowhere = Engine(str(tmp_path / "none"))
    with pytest.raises(EngineGoneError, match=f"no container engine at {tmp_path}/none: No such"):
        nowhere.check()


class TestAnEngineThatGoesAway:
    """Only the fake can be stopped without affecting running containers."""

    @pytest.fixture
    def bench(self, tmp_path: Path) -> Iterator[Bench]:
        """Provide a bench whose engine can stop."""
        fake = FakeEngine(tmp_path / "s", images={IMAGE})
        fake.open()
        made = Bench(socket=fake.path, folder=tmp_path, fake=fake)
        yield made
        made.end()
        fake.end()

    def test_what_its_engine_may_not_have_made_is_lost(self, bench: Bench) -> None:
        """An engine that does not answer, or has no room, is not a failure of the job."""
        assert bench.fake
        bench.fake.dropped = 1
        code, _ = bench.run("echo never")
        assert (code, list(bench.words())) == (SETUP_CODE, ["lost"])
        bench.fake.refusal = full = "mkdir /var/lib/docker/x: no space left on device"
        code, _ = bench.run("echo never", name="two")
        assert (code, bench.words("two")) == (SETUP_CODE, {"lost": full})

    def test_a_container_outlives_its_engine(self, bench: Bench) -> None:
        """While the engine is away, nothing ends; ends are reported once it is back."""
        assert bench.fake
        line = f"echo up; while ! test -e {bench.folder}/go; do sleep 0.02; done; echo late; exit 4"
        process = bench.begin(line)
        said(process, b"up\n")
        bench.fake.close()
        assert process.stdout
        assert b"no container engine" in process.stdout.readline()
        assert bench.remove() == 1
        bench.fake.open()
        ((container, _),) = bench.engine.containers(bench.label)
        deadline = time.monotonic() + PATIENCE_S
        while len(bench.fake.find(container).watchers) < 2:
            assert time.monotonic() < deadline
        (bench.folder / "go").touch()
        output, _ = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, output) == (4, b"late\n")


class TestWithDocker:
    """What only a real container has."""

    pytestmark = needs_shell

    @pytest.fixture
    def bench(self, docker: Dockerd, tmp_path: Path) -> Iterator[Bench]:
        """Provide a bench with docker."""
        made = Bench(socket=docker.socket, folder=tmp_path)
        yield made
        made.end()

    def test_the_image_has_directory_and_variables(self, bench: Bench) -> None:
        """The working directory and the variables of the image are kept."""
        assert bench.run("pwd; echo $OF_IMAGE") == (0, b"/work\nyes\n")

    def test_the_memory_limit_is_recorded(self, bench: Bench) -> None:
        """A container that exceeds its limit is killed, and the message says so."""
        body = bench.body(Memory=16 << 20, MemorySwap=16 << 20)
        code, _ = bench.run("x=a; while :; do x=$x$x; done", body=body)
        assert code == -signal.SIGKILL
        assert bench.words() == {"out_of_memory": True}

    def test_a_device_without_a_driver_is_an_error(self, bench: Bench) -> None:
        """A request that no driver fulfils fails before anything runs."""
        request = {"DeviceIDs": ["0"], "Capabilities": [["gpu"]]}
        code, _ = bench.run("echo never", body=bench.body(DeviceRequests=[request]))
        assert code == SETUP_CODE
        assert "could not select device driver" in bench.words()["setup_failure"]
