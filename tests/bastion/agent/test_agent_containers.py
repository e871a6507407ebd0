"""Jobs in containers: a real agent, a real keeper, and docker itself or the fake engine."""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bastion.agent.attempt_key import key_of
from bastion.agent.containers.engine import Engine
from bastion.agent.containers.program import ATTEMPT_LABEL, HOME_LABEL
from bastion.spec import ImageRef, Job, Process, Resources
from tests.bastion.agent.real_machine import Machine, shell
from tests.rigs.agent import OF, start, stop
from tests.servers.dockerd import IMAGE, Dockerd, dockerd, has_shell, needs_dockerd
from tests.servers.engine import FakeEngine

NONE = "127.0.0.1:1/bench/none:1"


class Host(Machine):
    """A machine that runs containers."""

    def __init__(self, folder: Path, socket: Path, fake: FakeEngine | None = None) -> None:
        super().__init__(folder, "--label=containers=true", DOCKER_HOST=f"unix://{socket}")
        self.engine = Engine(str(socket))
        self.fake = fake

    def run(self, job: Job, image: str = IMAGE, **fields: Any) -> None:
        """Start a job."""
        self.bucket.spec(job, code=ImageRef(ref=image))
        self.begin()
        self.bucket.instruct(start(**fields))

    def wrote(self, text: bytes) -> None:
        """Wait for something in the log of the first process."""
        self.until(lambda: text in self.bucket.log())

    def ended(self) -> None:
        """Wait until it is over, and check that no container is left."""
        self.until(lambda: self.bucket.end() is not None)
        assert self.containers() == []

    def containers(self) -> list[tuple[str, dict[str, str]]]:
        """Return the containers of this machine."""
        return self.engine.containers(f"{HOME_LABEL}={self.home.resolve()}")

    def finish(self) -> None:
        """End everything."""
        if self.fake is not None and not self.fake.path.exists():
            self.fake.open()
        self.close()
        for container, _ in self.containers():
            self.engine.remove(container)


@pytest.fixture(scope="module")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dockerd]:
    """Run a real daemon with the image."""
    with dockerd(tmp_path_factory.mktemp("engine")) as made:
        made.load_image()
        yield made


with_docker = [*needs_dockerd, pytest.mark.skipif(not has_shell(), reason="needs busybox-static")]


@pytest.fixture(params=["fake", pytest.param("docker", marks=with_docker)])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Host]:
    """Provide a machine with an engine of either kind."""
    if request.param == "docker":
        made = Host(tmp_path, request.getfixturevalue("docker").socket)
        yield made
        made.finish()
        return
    fake = FakeEngine(tmp_path / "s", images={IMAGE}, registry=frozenset({"bench/pulled:1"}))
    fake.open()
    made = Host(tmp_path, fake.path, fake)
    yield made
    made.finish()
    fake.end()


def test_a_job_runs_in_a_container(host: Host) -> None:
    """Its processes run side by side; logs and codes are those of plain processes."""
    first = "trap '' TERM; echo one; echo two >&2; touch $BASTION_MARKS_DIR/go"
    second = "while ! test -e $BASTION_MARKS_DIR/go; do sleep 0.02; done"
    host.run(shell(first, f"{second}; echo $BASTION_PROCESS_INDEX; exit 7"))
    host.ended()
    end = host.bucket.end()
    assert end is not None
    assert (end.kind, end.codes, end.first_failed) == ("exited", (0, 7), 1)
    host.until(lambda: host.bucket.told()[-1] == "drained")
    assert sorted(host.bucket.log().split()) == [b"one", b"two"]
    assert host.bucket.log(1) == b"1\n"
    mark = f"{host.home.resolve()}:{key_of(OF)}"
    assert not Path(f"/dev/shm/bastion-{hashlib.sha256(mark.encode()).hexdigest()[:32]}").exists()


def test_it_sees_what_a_plain_process_sees(host: Host) -> None:
    """Folders, variables and user are the same; nothing of the agent's environment leaks in."""
    job = shell(
        "echo kept >$BASTION_OUTPUT_DIR/file; touch $BASTION_MARKS_DIR/finished;"
        " echo $BASTION_JOB_ID $LINES; id -u; echo secret=$SECRET",
        env={"LINES": "a b"},
    )
    host.run(job)
    host.ended()
    host.until(lambda: host.bucket.told()[-1] == "drained")
    end = host.bucket.end()
    assert end is not None
    assert end.finished
    assert host.bucket.log().decode() == f"{OF.job} a b\n{os.getuid()}\nsecret=\n"


def test_a_job_that_ignores_term_is_killed(host: Host) -> None:
    """A cancelled job has its grace period; then all its processes are dead."""
    host.run(shell("trap '' TERM; (setsid sleep 1000 &); echo up; while :; do sleep 1; done"))
    host.wrote(b"up\n")
    host.bucket.instruct(stop(grace_s=0.2))
    host.ended()
    end = host.bucket.end()
    assert end is not None
    assert (end.codes, end.notice) == ((-9,), "cancel")


def test_a_preempted_job_resumes_with_what_it_kept(host: Host) -> None:
    """It gets file and signal, saves, and its next container has the saved files."""
    line = (
        "cat $BASTION_OUTPUT_DIR/step; trap 'cat $BASTION_NOTICE_FILE;"
        " echo 41 >$BASTION_OUTPUT_DIR/step; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    )
    host.run(shell(line))
    host.wrote(b"up\n")
    host.bucket.instruct(stop(reason="preempt"))
    host.ended()
    end = host.bucket.end()
    assert end is not None
    assert (end.codes, end.notice) == ((0,), "preempt")
    host.until(lambda: host.bucket.told()[-1] == "drained")
    assert b'"reason": "preempt"' in host.bucket.log()
    again = replace(OF, attempt=2, nonce="n2")
    host.bucket.instruct(start(again))
    host.until(lambda: b"41\nup\n" in host.bucket.log(of=again))
    host.bucket.instruct(stop(again))
    host.until(lambda: host.bucket.end(again) is not None)


def test_a_clean_up_runs_in_a_container_too(host: Host) -> None:
    """It can read what the job kept, knows how that ended, and its container is removed too."""
    tidy = "cat $BASTION_OUTPUT_DIR/f; echo $BASTION_OUTCOME $BASTION_EXIT_CODE"
    job = shell("echo kept >$BASTION_OUTPUT_DIR/f; exit 4", on_end=["sh", "-c", tidy])
    host.run(job)
    host.ended()
    end = host.bucket.end()
    assert end is not None
    assert end.codes == (4,)
    host.until(lambda: host.bucket.told()[-1] == "drained")
    log = host.bucket.log().decode()
    assert log == f"\n[bastion: on_end: sh -c {tidy}]\nkept\nfailed 4\n"


def test_a_killed_agent_changes_nothing(host: Host) -> None:
    """The next agent finds the container running, and no byte of its log is missing."""
    host.run(shell("echo up; while ! test -e $BASTION_MARKS_DIR/go; do sleep 0.05; done; echo on"))
    host.wrote(b"up\n")
    host.kill()
    host.begin()
    (go,) = host.home.glob("work/*/")
    (go / "go").touch()
    host.ended()
    host.until(lambda: host.bucket.told()[-1] == "drained")
    assert host.bucket.log() == b"up\non\n"


def test_a_killed_keeper_leaves_no_container(host: Host) -> None:
    """The attempt is lost only when the next keeper life has removed its containers."""
    host.run(shell("trap '' TERM; echo up; while :; do sleep 1; done"))
    host.wrote(b"up\n")
    assert len(host.containers()) == 1
    os.kill(host.keeper_pid(), signal.SIGKILL)
    host.ended()
    end = host.bucket.end()
    assert end is not None
    assert end.kind == "lost"


def test_a_killed_program_is_a_killed_process(host: Host) -> None:
    """A container without its program is removed."""
    host.run(shell("echo up; exec sleep 1000"))
    host.wrote(b"up\n")
    children = Path(f"/proc/{host.keeper_pid()}/task/{host.keeper_pid()}/children")
    for pid in children.read_text().split():
        os.kill(int(pid), signal.SIGKILL)
    host.ended()
    end = host.bucket.end()
    assert end is not None
    assert (end.codes, end.first_failed) == ((-9,), 0)


def test_a_time_limit_holds(host: Host) -> None:
    """max_runtime ends the container."""
    host.run(shell("echo up; exec sleep 1000", max_runtime=0.5))
    host.ended()
    end = host.bucket.end()
    assert end is not None
    assert end.notice == "time limit"


def test_an_image_that_cannot_be_pulled_is_an_error(host: Host) -> None:
    """A failed pull is a failed set-up, in docker's own words."""
    host.run(shell("echo never"), NONE)
    host.ended()
    end = host.bucket.end()
    assert end is not None
    assert end.kind == "setup_failed"
    assert end.detail.startswith(f"image {NONE} cannot be pulled: ")
    assert "manifest unknown" in end.detail or "connection refused" in end.detail


def test_a_container_that_cannot_be_created_is_an_error(host: Host) -> None:
    """A refusal of the engine is a failed set-up, in its own words; nothing runs."""
    job = Job(
        processes=(
            Process("echo never", shell=True, resources=Resources(memory=1)),
            Process("sleep 1000", shell=True),
        )
    )
    if host.fake:
        host.fake.refusal = "Minimum memory limit allowed is 6MB"
    host.run(job)
    host.ended()
    end = host.bucket.end()
    assert end is not None
    assert (end.kind, end.detail) == ("setup_failed", "Minimum memory limit allowed is 6MB")


def test_an_engine_that_goes_away_before_the_start_loses_the_host(tmp_path: Path) -> None:
    """A daemon that is restarted just then costs an attempt, and does not fail the job."""
    fake = FakeEngine(tmp_path / "s", images={IMAGE})
    fake.open()
    fake.dropped = 1
    host = Host(tmp_path, fake.path, fake)
    try:
        host.run(Job(processes=(Process("echo never", shell=True),)))
        host.ended()
        end = host.bucket.end()
        assert end is not None
        assert (end.kind, end.by_machine) == ("lost", False)
        assert str(fake.path) in end.detail
    finally:
        host.finish()
        fake.end()


def test_leftover_containers_are_removed(host: Host) -> None:
    """A container of this home without an attempt is removed when an agent starts; others stay."""
    home = str(host.home.resolve())
    body = {
        "Image": IMAGE,
        "Entrypoint": ["sleep"],
        "Cmd": ["1000"],
        "Env": [],
        "HostConfig": {"NetworkMode": "host"},
    }
    mine = {HOME_LABEL: home, ATTEMPT_LABEL: f"{home}:{key_of(OF)}"}
    other = {HOME_LABEL: f"{home}-other", ATTEMPT_LABEL: f"{home}-other:{key_of(OF)}"}
    host.engine.start(host.engine.create(f"mine-{os.getpid()}", {**body, "Labels": mine}))
    spared = host.engine.create(f"other-{os.getpid()}", {**body, "Labels": other})
    host.begin()
    host.until(lambda: host.containers() == [])
    assert "a leftover container of" in host.log()
    assert not host.engine.state(spared)["Running"]
    host.engine.remove(spared)


class TestWithTheFake:
    """Behavior that only a controllable engine can show."""

    @pytest.fixture
    def host(self, tmp_path: Path) -> Iterator[Host]:
        """Provide a machine with the fake engine."""
        pulled = frozenset({"bench/pulled:1"})
        fake = FakeEngine(tmp_path / "s", images={IMAGE}, registry=pulled)
        fake.open()
        made = Host(tmp_path, fake.path, fake)
        yield made
        made.finish()
        fake.end()

    def test_no_end_is_recorded_while_the_engine_is_away(self, host: Host) -> None:
        """A container may continue without its engine, so its devices stay in use."""
        assert host.fake
        host.run(shell("trap '' TERM; echo up; while :; do sleep 1; done"))
        host.wrote(b"up\n")
        host.fake.close()
        host.bucket.instruct(stop(grace_s=0.1))
        keeper_log = host.home / "keeper" / "keeper.log"
        host.until(lambda: keeper_log.read_text().count("may still exist") > 1)
        assert host.bucket.end() is None
        host.fake.open()
        host.ended()

    def test_an_image_is_pulled_once(self, host: Host, tmp_path: Path) -> None:
        """A missing image is pulled, with docker's login for its registry."""
        assert host.fake
        (tmp_path / "config.json").write_text('{"auths": {"127.0.0.1:1": {"auth": "YTpi"}}}')
        host.env["DOCKER_CONFIG"] = str(tmp_path)
        host.fake.registry = frozenset({NONE})
        host.run(shell("echo up"), NONE)
        host.ended()
        again = replace(OF, attempt=2, nonce="n2")
        host.bucket.instruct(start(again))
        host.until(lambda: host.bucket.end(again) is not None)
        assert len(host.fake.logins) == 1
        assert host.fake.logins[0]

    def test_a_machine_reports_whether_it_runs_containers(self, host: Host) -> None:
        """Its label is removed while no engine answers, and added again."""
        assert host.fake
        host.fake.close()
        host.begin()

        def label() -> str:
            greetings = [fact for fact in host.bucket.facts() if fact.kind == "hello"]
            return greetings[-1].labels["containers"] if greetings else ""

        host.until(lambda: label() == "no")
        assert "no containers here: no container engine at" in host.log()
        host.fake.open()
        host.kill()
        host.begin()
        host.until(lambda: label() == "true")


def test_a_machine_without_containers_is_an_error(tmp_path: Path) -> None:
    """An image on a machine without containers fails with a hint for admins."""
    made = Machine(tmp_path)
    made.bucket.spec(shell("echo never"), code=ImageRef(ref=IMAGE))
    made.begin()
    try:
        made.bucket.instruct(start())
        made.until(lambda: made.bucket.end() is not None)
    finally:
        made.close()
    end = made.bucket.end()
    assert end is not None
    assert end.kind == "setup_failed"
    assert "containers = true" in end.detail


class TestWithDocker:
    """What only a real container has."""

    pytestmark = with_docker

    @pytest.fixture
    def host(self, docker: Dockerd, tmp_path: Path) -> Iterator[Host]:
        """Provide a machine with docker."""
        made = Host(tmp_path, docker.socket)
        yield made
        made.finish()

    def test_a_memory_limit_is_recorded(self, host: Host) -> None:
        """A process that exceeds its own limit ends its job as out of memory."""
        resources = Resources(memory="16MiB")
        line = "x=a; while :; do x=$x$x; done"
        host.run(Job(processes=(Process(line, shell=True, resources=resources),)))
        host.ended()
        end = host.bucket.end()
        assert end is not None
        assert end.out_of_memory
        assert end.codes == (-9,)

    def test_processes_of_a_host_share_memory(self, host: Host) -> None:
        """All processes of an attempt share one /dev/shm, as large as the machine's."""
        first = "echo there >/dev/shm/a; while ! test -e /dev/shm/b; do sleep 0.05; done; echo up"
        second = "while ! test -e /dev/shm/a; do sleep 0.05; done; cat /dev/shm/a; touch /dev/shm/b"
        host.run(shell(first, second))
        host.ended()
        host.until(lambda: host.bucket.told()[-1] == "drained")
        assert host.bucket.log(1) == b"there\n"
