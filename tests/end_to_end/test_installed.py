"""The installed command, real processes, kill -9: everything that a user does, end to end."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from bastion import Job, Launch, Process, Resources
from bastion.records.keys import layout
from tests.end_to_end.installed import QUOTA, Installed, build_wheel
from tests.end_to_end.programs import until
from tests.end_to_end.roots import ROOTS
from tests.servers.azurite import needs_azurite
from tests.servers.ceph import needs_ceph

pytestmark = pytest.mark.end_to_end

CONFIG = """
[pools.local]
provider = "local"
count = 2
resources = { h100 = 8, cpu = 32 }
"""
RESUMABLE = """\
trap 'echo notice; touch "$BASTION_MARKS_DIR/checkpointed"; echo saved > "$BASTION_OUTPUT_DIR/s";
exit 3' TERM
if [ -e "$BASTION_OUTPUT_DIR/s" ]; then echo resumed from $(cat "$BASTION_OUTPUT_DIR/s"); exit 0; fi
echo begun; while :; do sleep 0.05; done
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a wheel of this tree."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))


PROVEN = (
    *(pytest.param(name, marks=pytest.mark.prove) for name in ("file", "s3", "localstack")),
    pytest.param("ceph", marks=needs_ceph),
    pytest.param("az", marks=[pytest.mark.prove, *needs_azurite]),
)


@pytest.fixture(scope="module", params=["gs", *PROVEN])
def installed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, wheel: Path
) -> Iterator[Installed]:
    """Provide Bastion from a wheel, with a quota file and two machines, on each root."""
    folder = tmp_path_factory.mktemp(f"installed-{request.param}")
    with ROOTS[request.param](folder) as place:
        place.store.create(layout.QUOTA, QUOTA.encode())
        place.store.create(layout.CONFIG, CONFIG.encode())
        made = Installed(folder, place, wheel)
        try:
            yield made
        finally:
            made.stop_everything()
            sys.stdout.write(made.served)  # shown when the test failed


def launch(on: Installed, project: str, name: str, devices: int, script: str) -> str:
    """Submit one job; return its id."""
    flags = [f"--project_id={project}", f"--name={name}", f"--resources=h100={devices}", "-q"]
    return on.run("launch", *flags, "--shell", "--", script).stdout.strip()


def python(on: Installed, project: str, name: str, script: str) -> str:
    """Submit one job with one device, as a Python program does; return its id."""
    process = Process(script, shell=True, resources=Resources(h100=1))
    wanted = Launch(name=name, project=project, jobs=[Job(name=name, processes=[process])])
    return on.client.launch(wanted).jobs[0]


def stopped_log(on: Installed, job: str) -> bytes:
    """Return the output of a stopped job, without its shell's message about the ended `sleep`."""
    return on.place.log("red", job, 1).replace(b"Terminated\n", b"")


def test_twenty_jobs_survive_everything(installed: Installed) -> None:
    """Twenty jobs of two projects borrow, reclaim and resume through kill -9 of everything."""
    on, place = installed, installed.place
    bastion = on.serve()
    until(lambda: len(on.processes("bastion.agent.keeper")) == 2, "two keepers")

    # Red borrows the whole pool: two jobs of its own share, two on blue's.
    red = [launch(on, "red", f"red{i}", 4, RESUMABLE) for i in range(4)]
    until(lambda: all(b"begun" in place.log("red", job, 1) for job in red), "red runs everywhere")

    # Blue reclaims half; one job does not fit, and its reason says why it waits.
    gate = on.folder / "gate"
    waits = f"while [ ! -e {gate} ]; do sleep 0.1; done"
    blue = [launch(on, "blue", f"blue{i}", 4, f"echo blue {i}; {waits}") for i in range(2)]
    until(lambda: all(place.log("blue", job, 1) for job in blue), "blue has its share back")
    preempted = [job for job in red if b"notice" in place.log("red", job, 1)]
    assert len(preempted) == 2, "no more than needed are stopped"
    why = on.run("why", preempted[0]).stdout + on.run("why", preempted[1]).stdout
    assert "h100" in why

    # Fourteen short jobs: one is cancelled while it waits, one fails, one is killed.
    short = [python(on, "blue", f"short{i}", f"echo out {i}; exit 0") for i in range(11)]
    failing = launch(on, "blue", "failing", 1, "echo bad; exit 7")
    killed = launch(on, "blue", "killed", 1, "kill -9 $$")
    doomed = launch(on, "blue", "doomed", 8, "sleep 1000")
    on.run("cancel", doomed)

    # kill -9 the bastion in the middle; the jobs are not affected, a new one continues.
    bastion.kill()
    bastion.wait(60)
    bastion = on.serve()

    # kill -9 an agent while a job runs beside it: the job's exit code is not lost.
    agent = on.processes("bastion agent")[0]
    agent.send_signal(signal.SIGKILL)
    gate.touch()

    until(lambda: all(place.result("blue", job) for job in [*blue, *short]), "blue ends")
    for i, job in enumerate(short):
        ended = place.result("blue", job)
        assert ended is not None
        assert (ended.outcome, ended.attempts) == ("succeeded", 1)
        assert place.log("blue", job, 1) == f"out {i}\n".encode()
    for i, job in enumerate(blue):
        assert place.log("blue", job, 1) == f"blue {i}\n".encode()
    for job, outcome, code in ((failing, "failed", 7), (killed, "failed", -9)):
        until(partial(place.result, "blue", job), f"{job} ends")
        ended = place.result("blue", job)
        assert ended is not None
        assert (ended.outcome, ended.code) == (outcome, code)
    until(lambda: place.result("blue", doomed), "the cancelled job has its record")
    ended = place.result("blue", doomed)
    assert ended is not None
    assert ended.outcome == "cancelled"

    # The preempted jobs resume from their checkpoints when blue's jobs have ended.
    for job in preempted:
        until(partial(place.result, "red", job), f"{job} resumes and ends")
        ended = place.result("red", job)
        assert ended is not None
        assert (ended.outcome, ended.attempts, ended.preemptions) == ("succeeded", 2, 1)
        assert stopped_log(on, job) == b"begun\nnotice\n"
        assert place.log("red", job, 2) == b"resumed from saved\n"
    for job in set(red) - set(preempted):
        on.run("cancel", job)
        until(partial(place.result, "red", job), f"{job} is cancelled")
        assert stopped_log(on, job) == b"begun\nnotice\n"

    # Nothing is left: no active job, request or user's process. Then everything is stopped.
    until(lambda: on.json("list")["jobs"] == [], "the published queue is empty")
    until(lambda: not place.keys(layout.INBOX), "the inbox is empty")
    assert on.json("status")["status"]["epoch"] == 2
    bastion.send_signal(signal.SIGTERM)
    assert bastion.wait(timeout=30) == 0
    assert on.processes("sleep") == []
