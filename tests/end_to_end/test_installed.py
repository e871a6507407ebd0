"""The installed command, real processes, kill -9: the road of a user from end to end."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator

import pytest

from tests.end_to_end.installed import Installed, build_wheel, until

pytestmark = pytest.mark.end_to_end

QUOTA = """
[toml-schema]
version = "1"
[total_resources]
h100 = 16
[project_membership]
red = ["alice"]
blue = ["alice", "bob"]
[project_resources.red]
h100 = 0.5
[project_resources.blue]
h100 = 0.5
[scheduler]
min_runtime_s = 0
grace_s = 5
"""
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
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """Bastion from a wheel, with a quota file and two machines of eight devices."""
    folder = tmp_path_factory.mktemp("installed")
    made = Installed(folder, build_wheel(folder / "wheel"))
    for name, text in (
        ("project-quotas/project-quotas.config", QUOTA),
        ("config/bastion.toml", CONFIG),
    ):
        file = made.root_folder / name
        file.parent.mkdir(parents=True)
        file.write_text(text)
    try:
        yield made
    finally:
        made.stop_everything()


def launch(on: Installed, project: str, name: str, devices: int, script: str) -> str:
    """Submit one job; its id."""
    flags = [f"--project_id={project}", f"--name={name}", f"--resources=h100={devices}", "-q"]
    return on.run("launch", *flags, "--shell", "--", script).stdout.strip()


def stopped_log(on: Installed, job: str) -> bytes:
    """The log of a stopped job, without what its shell says of the `sleep` that got the TERM too."""
    return on.log("red", job, 1).replace(b"Terminated\n", b"")


def test_twenty_jobs_survive_everything(installed: Installed) -> None:
    """Twenty jobs of two projects borrow, reclaim and resume through kill -9 of everything."""
    on = installed
    bastion = on.serve()
    until(lambda: len(on.processes("bastion.agent.keeper")) == 2, "two keepers")

    # Red borrows the whole pool: two jobs of its own share, two on blue's.
    red = [launch(on, "red", f"red{i}", 4, RESUMABLE) for i in range(4)]
    until(lambda: all(b"begun" in on.log("red", job, 1) for job in red), "red runs everywhere")

    # Blue reclaims half; one job more than fits has to wait, and is told why.
    blue = [launch(on, "blue", f"blue{i}", 4, f"echo blue {i}; sleep 3") for i in range(2)]
    until(lambda: all(on.log("blue", job, 1) for job in blue), "blue has its share back")
    preempted = [job for job in red if b"notice" in on.log("red", job, 1)]
    assert len(preempted) == 2, "no more than needed are stopped"
    why = on.run("why", preempted[0]).stdout + on.run("why", preempted[1]).stdout
    assert "h100" in why

    # Fourteen short ones, one of them cancelled while it waits, one failing, one killed.
    short = [launch(on, "blue", f"short{i}", 1, f"echo out {i}; exit 0") for i in range(11)]
    failing = launch(on, "blue", "failing", 1, "echo bad; exit 7")
    killed = launch(on, "blue", "killed", 1, "kill -9 $$")
    doomed = launch(on, "blue", "doomed", 8, "sleep 1000")
    on.run("cancel", doomed)

    # kill -9 the bastion in the middle; the jobs do not notice, a new one goes on.
    bastion.kill()
    bastion.wait()
    bastion = on.serve()

    # kill -9 an agent while a job runs beside it: its exit code is not lost.
    agent = on.processes("bastion agent")[0]
    agent.send_signal(signal.SIGKILL)

    until(lambda: all(on.result("blue", job) for job in [*blue, *short]), "blue ends")
    for i, job in enumerate(short):
        ended = on.result("blue", job)
        assert ended is not None
        assert (ended["outcome"], ended["attempts"]) == ("succeeded", 1)
        assert on.log("blue", job, 1) == f"out {i}\n".encode()
    for i, job in enumerate(blue):
        assert on.log("blue", job, 1) == f"blue {i}\n".encode()
    for job, outcome, code in ((failing, "failed", 7), (killed, "failed", -9)):
        until(lambda job=job: on.result("blue", job), f"{job} ends")
        ended = on.result("blue", job)
        assert ended is not None
        assert (ended["outcome"], ended["code"]) == (outcome, code)
    until(lambda: on.result("blue", doomed), "the cancelled job has its record")
    assert (on.result("blue", doomed) or {})["outcome"] == "cancelled"

    # The preempted ones resume where they were, once blue has gone.
    for job in preempted:
        until(lambda job=job: on.result("red", job), f"{job} resumes and ends")
        ended = on.result("red", job)
        assert ended is not None
        assert (ended["outcome"], ended["attempts"], ended["preemptions"]) == ("succeeded", 2, 1)
        assert stopped_log(on, job) == b"begun\nnotice\n"
        assert on.log("red", job, 2) == b"resumed from saved\n"
    for job in set(red) - set(preempted):
        on.run("cancel", job)
        until(lambda job=job: on.result("red", job), f"{job} is cancelled")
        assert stopped_log(on, job) == b"begun\nnotice\n"

    # Nothing is left: no active job, no request, no user's process; then all is stopped in order.
    assert on.json("list")["jobs"] == []
    inbox = on.root_folder / "inbox"
    until(lambda: not list(inbox.rglob("*.json")), "the inbox is empty")
    assert on.json("status")["status"]["epoch"] == 2
    bastion.send_signal(signal.SIGTERM)
    assert bastion.wait(timeout=30) == 0
    assert on.processes("sleep") == []


def test_a_second_bastion_says_who_leads(installed: Installed) -> None:
    """Of two bastions on one root one leads; the other says so and leaves."""
    first = installed.serve()
    until(lambda: installed.run("status", check=False).returncode == 0, "one leads")
    second = subprocess.run(
        [*installed.command, "serve", f"--machines_dir={installed.machines}"],
        cwd=installed.project,
        env=installed.env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    first.send_signal(signal.SIGTERM)
    assert first.wait(timeout=30) == 0
    assert second.returncode == 1
    assert f"process {first.pid}" in second.stderr
    assert second.stdout == ""
