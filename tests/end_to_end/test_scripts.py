"""Launch scripts, run as their users run them: `python3 launch.py`, against a real bastion."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bastion import JobView, LocalDir
from bastion.compat import files
from tests.end_to_end.programs import DEADLINE_S, Programs
from tests.rigs import trees
from tests.rigs.git_repositories import commit

pytestmark = pytest.mark.end_to_end

SCRIPTS = Path(__file__).parent / "scripts"


def run_script(
    on: Programs, name: str, *words: str, beside: dict[str, str] | None = None, there: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a script with some code beside it, as its user does, or from another folder, `there`."""
    on.clear_project()
    for path, text in (beside or {}).items():
        (on.project / path).write_text(text)
    shutil.copy(SCRIPTS / f"{name}.py", on.project / "launch.py")
    return subprocess.run(
        [sys.executable, str(on.project / "launch.py") if there else "launch.py", *words],
        cwd=there or on.project,
        env=on.env,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


def launched(
    on: Programs, name: str, *words: str, beside: dict[str, str] | None = None
) -> tuple[JobView, ...]:
    """Wait until the jobs of a script's launch have ended, and return them."""
    ran = run_script(on, name, *words, beside=beside)
    assert ran.returncode == 0, ran.stderr
    launch = ran.stdout.strip()
    return on.client.wait([launch], timeout_s=DEADLINE_S)


def printed(on: Programs, job: str) -> list[str]:
    """Return the output lines of all processes of a job, sorted."""
    return sorted(on.printed(job).splitlines())


def test_devices_are_requested_for_each_process(programs: Programs) -> None:
    """A process sees the devices that it requests; the script's text is stored with the launch."""
    (job,) = launched(programs, "two_devices")
    assert job.state == "succeeded"
    (line,) = printed(programs, job.id)
    assert len(line.removeprefix("devices ").split(",")) == 2
    view = programs.client.code(job.id)
    assert view.origin is not None
    assert view.origin.files[0].text == (SCRIPTS / "two_devices.py").read_text()
    assert view.origin.argv[1:] == ("launch.py",)
    spec = programs.client.spec(job.id).launch
    assert (spec.name, spec.description) == ("two-devices", "two devices: How many are seen?")


def test_a_cluster_a_shard_and_a_host_are_chosen(programs: Programs) -> None:
    """The job runs where the script says; an unknown host is refused."""
    (job,) = launched(programs, "a_shard")
    assert printed(programs, job.id) == ["in 0", "in 1"]
    machine = job.machines[0] if job.machines else programs.client.pool().machines[0].name
    (job,) = launched(programs, "a_host", machine)
    assert job.state == "succeeded"
    ran = run_script(programs, "a_host", "nowhere")
    assert ran.returncode == 1
    assert "SchedulingError" in ran.stderr
    assert "nowhere" in ran.stderr


def test_a_failed_process_stops_its_job_on_request(programs: Programs) -> None:
    """The working tree is sent, and one failing process ends all replicas."""
    beside = {
        "requirements.txt": "",
        "fails.py": "import sys\nsys.exit(3)\n",
        "goes_on.py": "import time\ntime.sleep(600)\n",
    }
    (job,) = launched(programs, "one_fails", beside=beside)
    assert (job.state, job.code, job.replicas) == ("failed", 3, 3)


def test_the_other_replicas_continue_by_default(programs: Programs) -> None:
    """Two of three replicas succeed beside one that fails; the job has failed."""
    (job,) = launched(programs, "others_go_on")
    assert job.state == "failed"
    assert printed(programs, job.id) == ["done", "done"]


def test_a_short_commit_is_checked_out(programs: Programs, tmp_path: Path) -> None:
    """Seven digits are enough, and later commits are not run."""
    repository = tmp_path / "repository"
    first = commit(repository, {"a.py": "print('first')\n"})
    commit(repository, {"a.py": "print('second')\n"})
    ran = run_script(programs, "a_commit", repository.as_uri(), first[:7], there="/")
    job = programs.wait(ran.stdout.strip())
    assert printed(programs, job.id) == ["first"]


def test_a_launch_on_a_busy_pool_is_refused_unless_it_may_queue(programs: Programs) -> None:
    """While all devices are in use a launch is refused, or queued if the script says so."""
    ran = run_script(programs, "all_of_it")
    assert ran.returncode == 0, ran.stderr
    first = ran.stdout.strip()
    ran = run_script(programs, "all_of_it")
    assert ran.returncode == 1
    assert "SchedulingError" in ran.stderr
    assert "h100" in ran.stderr
    ran = run_script(programs, "all_of_it", "wait")
    second = ran.stdout.strip()
    assert programs.client.job(second).state == "queued"
    programs.client.cancel(first, second)
    assert {job.state for job in programs.client.wait([first, second])} == {"cancelled"}


CELLS = """\
from bastion import Client, Job, Launch, LocalDir, Process
rate = 0.1
job = Job(processes=[Process(["python3", "train.py", str(rate)])])
handle = Client().launch(Launch(name="cell", jobs=[job], code=LocalDir()))
handle.wait().counts
print("printed", handle.logs("main"), handle.id)
"""


def test_cells_of_a_notebook_launch_the_code_beside_it(programs: Programs) -> None:
    """In IPython each line is a cell; all cells run so far are stored with the launch."""
    programs.clear_project()
    beside = {"pyproject.toml": "", "train.py": "import sys\nprint('rate', sys.argv[1])\n"}
    trees.write(programs.project, beside)
    ran = subprocess.run(
        [sys.executable, "-m", "IPython", "--simple-prompt", "--no-banner", "--no-confirm-exit"],
        input=CELLS,
        cwd=programs.project,
        env=programs.env,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert "{'succeeded': 1}" in ran.stdout, ran.stdout + ran.stderr
    _, rate, job = ran.stdout.partition("printed ")[2].split()[:3]
    assert rate == "0.1"
    shown = programs.run("show", job, "--code").stdout
    assert "--- notebook\n# In [1]:\nfrom bastion import Client" in shown
    assert "# In [2]:\nrate = 0.1\n" in shown


def test_a_slurm_script_runs_on_two_nodes(programs: Programs) -> None:
    """Submitted with its code, it runs once on each node, where srun starts the tasks."""
    programs.clear_project()
    shutil.copy(SCRIPTS / "job.sbatch", programs.project)
    (programs.project / "task.py").write_text(
        "import os\n"
        "line = 'task {SLURM_PROCID} of {SLURM_NTASKS}\\n'.format(**os.environ)\n"
        "os.write(1, line.encode())\n"
    )
    script = programs.project / "job.sbatch"
    code = LocalDir(str(programs.project))
    imported = files.read(script, arguments=["this"], code=code, device=lambda: "h100")
    handle = programs.client.launch(imported.launch)
    launch = programs.run("launch", "job.sbatch", "-q", "--", "this").stdout.strip()
    for job in programs.client.wait([launch, handle.id], timeout_s=DEADLINE_S):
        assert job.state == "succeeded"
        assert printed(programs, job.id) == [
            "node 0 of 2, given this, first known",
            "node 1 of 2, given this, first known",
            *(f"task {n} of 4" for n in range(4)),
        ]


def test_an_axlearn_job_spec_runs(programs: Programs) -> None:
    """By the command and by the Python API: its command, its variables and its clean-up."""
    programs.clear_project()
    made = {
        "version": 1,
        "name": "old-job",
        "command": "sh -c 'echo $LINES; exit 3'",
        "cleanup_command": "echo cleaned",
        "env_vars": {"LINES": "a b"},
        "metadata": {
            "user_id": "alice",
            "project_id": "red",
            "creation_time": "2024-01-01T00:00:00",
            "resources": {"h100": 1},
            "priority": 2,
            "job_id": "1b2c",
        },
    }
    spec = programs.project / "job.json"
    spec.write_text(json.dumps(made))
    ran = programs.run("run", "job.json", check=False)
    said = "a b\n\n[bastion: on_end: echo cleaned]\ncleaned\n"
    assert (ran.returncode, ran.stdout) == (3, said)
    assert "note: cleanup_command: runs on every host" in ran.stderr
    (job,) = programs.client.launch(files.read(spec).launch).wait(timeout_s=DEADLINE_S).jobs
    assert (job.state, job.code, job.priority) == ("failed", 3, 2)
    assert programs.printed(job.id) == said
