"""Launches by the installed command and from Python: gangs, failures, arrays, waiting."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import pytest

from bastion import (
    After,
    Array,
    BastionError,
    BusyError,
    Choice,
    Job,
    JobView,
    Launch,
    LaunchHandle,
    LogUniform,
    Process,
    Resources,
    Sample,
    SpecError,
    Sweep,
    Where,
)
from tests.end_to_end.programs import DEADLINE_S, REPOSITORY, Programs, until

pytestmark = pytest.mark.end_to_end

TELL = "import json, os; print(json.dumps(dict(os.environ)))"
GANG = """
name = "gang"
[[jobs]]
name = "trainer"
replicas = 2
aliases = ["clusterfudge", "blox"]
env = { CONFIG = "large" }
[[jobs.processes]]
command = ["python3", "-c", "TELL"]
resources = { h100 = 1 }
[[jobs.processes]]
command = ["python3", "-c", "TELL"]
resources = { h100 = 2 }
[[jobs]]
name = "evaluator"
processes = [{ command = ["sh", "-c", "echo ready"] }]
""".replace("TELL", TELL)
DEAF = "trap '' TERM; setsid sleep {0} & (sleep {0} &) ; echo deaf; sleep {0}; sleep {0}"
"""Every process it starts, in its own session or orphaned, inherits that TERM is ignored."""
_NAPS = count(86_400 + 1_000 * os.getpid())


def nap() -> int:
    """Return a duration in seconds that no other process of this machine sleeps for."""
    return next(_NAPS)


def sleeping(seconds: int) -> int:
    """Return how many processes sleep for exactly this duration."""
    lines = (each.info["cmdline"] for each in psutil.process_iter(["cmdline"]))
    return sum(line == ["sleep", str(seconds)] for line in lines)


def launch(on: Programs, *jobs: Job, **fields: Any) -> LaunchHandle:
    """Launch jobs from Python."""
    return on.client.launch(Launch(name="api", jobs=jobs, **fields))


def ended(handle: LaunchHandle) -> tuple[JobView, ...]:
    """Wait until the jobs of a launch have ended, and return them."""
    return handle.wait(timeout_s=DEADLINE_S).jobs


def shell(line: str, **fields: Any) -> Process:
    """Return a process that runs a shell line."""
    return Process(line, shell=True, **fields)


def check_told(env: dict[str, str], *, job: str) -> None:
    """Check the variables of process 1 of replica 1 of the gang's trainer."""
    page = (REPOSITORY / "docs" / "reference" / "environment.md").read_text()
    tables = page.partition("## Names of other")[0].partition("## The machine")[2]
    rows = re.findall(
        r"^\| (`[A-Z].*?) \|", tables + page.partition("variable of")[2], re.MULTILINE
    )
    names = set(re.findall(r"`([A-Za-z_]+)`", " ".join(rows)))
    # Of other devices, and of lone processes.
    others = ("TPU_", "MEGASCALE_", "NEURON_", "PET_", "TORCH_ELASTIC_")
    elsewhere = {name for name in names if name.startswith(others)}
    assert names - elsewhere - {"VIRTUAL_ENV", "PYTHONPATH"} <= env.keys()
    devices = env["CUDA_VISIBLE_DEVICES"].split(",")
    assert len(devices) == 2
    told = {
        "BASTION_PROJECT": "red",
        "BASTION_JOB_NAME": "trainer",
        "BASTION_JOB_ID": job,
        "BASTION_ATTEMPT": "1",
        "BASTION_REPLICA_INDEX": "1",
        "BASTION_REPLICA_COUNT": "2",
        "BASTION_HOST_INDEX": "0",
        "BASTION_HOST_COUNT": "1",
        "BASTION_PROCESS_INDEX": "1",
        "BASTION_PROCESS_INDEX_ON_MACHINE": "3",
        "BASTION_PROCESS_INDEX_ACROSS_ALL_REPLICAS": "3",
        "BASTION_PROCESS_COUNT_ACROSS_ALL_REPLICAS": "4",
        "RANK": "3",
        "WORLD_SIZE": "4",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
        "NODE_RANK": "1",
        "JAX_NUM_PROCESSES": "4",
        "JAX_PROCESS_ID": "3",
        "JAX_COORDINATOR_ADDRESS": f"{env['MASTER_ADDR']}:{env['MASTER_PORT']}",
        "CLUSTERFUDGE_JOB_NAME": "trainer",
        "CLUSTERFUDGE_REPLICA_INDEX": "1",
        "CLUSTERFUDGE_PROCESS_INDEX": "3",
        "local_gpu_id": devices[0],
        "world_size": "4",
        "dist_rank": "3",
        "job_id": job,
        "CONFIG": "large",
    }
    assert {name: env.get(name) for name in told} == told
    assert len(env["local_accessible_gpu"].split(",")) == 3


def test_a_gang_of_two_jobs_gets_every_variable_of_the_reference(programs: Programs) -> None:
    """There are two jobs, two replicas packed onto one machine, two processes each."""
    (programs.project / "gang.toml").write_text(GANG)
    ran = programs.run("run", "gang.toml")
    lines = dict(line.split(" | ", 1) for line in ran.stdout.splitlines())
    assert lines.keys() == {f"trainer/r{r}/p{p}" for r in "01" for p in "01"} | {"evaluator/r0/p0"}
    env = json.loads(lines["trainer/r1/p1"])
    check_told(env, job=env["BASTION_JOB_ID"])
    assert len(programs.client.job(env["BASTION_JOB_ID"]).machines) == 1
    others = [json.loads(lines[f"trainer/r{r}/p{p}"]) for r in "01" for p in "01"]
    used = [each for env in others for each in env["CUDA_VISIBLE_DEVICES"].split(",")]
    assert len(used) == len(set(used)) == 6

    tell = [Process(["python3", "-c", TELL], resources=Resources(h100=n)) for n in (1, 2)]
    handle = programs.client.launch(
        Launch(
            name="gang",
            jobs=[
                Job(
                    name="trainer",
                    replicas=2,
                    processes=tell,
                    aliases=["clusterfudge", "blox"],
                    env={"CONFIG": "large"},
                ),
                Job(name="evaluator", processes=[Process(["true"])]),
            ],
        )
    )
    assert handle.wait(timeout_s=DEADLINE_S).counts == {"succeeded": 2}
    check_told(json.loads(handle.logs("trainer", replica=1, process=1)), job=handle.jobs[0])


def test_a_process_that_ignores_term_is_killed_with_all_it_started(programs: Programs) -> None:
    """A time limit and a cancel end trees that ignore TERM, sessions and orphans included."""
    first, second, third = nap(), nap(), nap()
    handle = launch(programs, Job(processes=[shell(DEAF.format(second))], grace="1s"))
    limited = Job(processes=[shell(DEAF.format(third))], grace="1s", max_runtime="1s")
    late = launch(programs, limited)
    flags = ("--max_runtime=1s", "--grace=1s", "--cluster=primary", "--shard=rl", "--shell")
    ran = programs.run("run", *flags, "--", DEAF.format(first), check=False)
    assert (ran.returncode, ran.stdout) == (102, "deaf\n")
    assert not sleeping(first)
    until(lambda: sleeping(second) == 3, "the tree stands")
    handle.cancel()
    assert programs.run("wait", handle.id, check=False).returncode == 101
    assert not sleeping(second)
    assert [job.state for job in ended(late)] == ["timed_out"]
    assert not sleeping(third)


def test_a_failed_job_is_retried_with_its_outputs(programs: Programs, tmp_path: Path) -> None:
    """Retries wait for their backoff and count failures; the output directory is carried over."""
    line = 'cat "$BASTION_OUTPUT_DIR/s" && exit 0; echo saved > "$BASTION_OUTPUT_DIR/s"; exit 3'
    again = launch(programs, Job(processes=[shell(line)], retries=2, retry_backoff=0.2))
    never = launch(programs, Job(processes=[shell("exit 3")], retries=1, retry_backoff=0.2))
    flags = ("--retries=1", "--retry_backoff=0.2s", "--shell")
    job, printed = programs.follow("--name=again", *flags, "--", line)
    assert printed.endswith("saved\n")
    assert programs.client.job(job).attempt == 2
    (good,), (bad,) = ended(again), ended(never)
    assert (good.state, good.attempt) == ("succeeded", 2)
    assert (bad.state, bad.code, bad.attempt) == ("failed", 3, 2)
    found = programs.client.fetch(good.id, tmp_path / "kept")
    assert (found.folder / "r0" / "s").read_text() == "saved\n"


SCOPE = """
name = "scope"
[[jobs]]
name = "fails"
scope = "launch"
on_failure = "stop_others"
processes = [{ command = "exit 5", shell = true }]
[[jobs]]
name = "other"
processes = [{ command = ["sleep", "600"] }]
"""


def test_which_jobs_are_stopped_when_one_fails(programs: Programs) -> None:
    """This can be the other replicas, the other jobs of the launch, or none."""
    fails, good = shell("exit 5"), shell("sleep 0.5")
    all_end = launch(
        programs,
        Job(name="fails", processes=[fails], scope="launch", on_failure="stop_others"),
        Job(name="other", processes=[shell("sleep 600")]),
    )
    one_ends = launch(
        programs, Job(name="fails", processes=[fails]), Job(name="other", processes=[good])
    )
    line = 'test "$BASTION_REPLICA_INDEX" = 0 && exit 5; {}; echo done'
    for flags, nap_s, printed in (((), 600, ""), (("--on_failure=continue",), 0.5, "done\n")):
        words = ("--replicas=2", *flags, "--shell", "--", line.format(f"sleep {nap_s}"))
        ran = programs.run("run", *words, check=False)
        assert (ran.returncode, ran.stdout) == (5, printed)
    (programs.project / "scope.toml").write_text(SCOPE)
    assert programs.run("run", "scope.toml", check=False).returncode == 5
    assert [job.state for job in ended(all_end)] == ["failed", "cancelled"]
    assert [job.state for job in ended(one_ends)] == ["failed", "succeeded"]


def test_a_head_that_ends_well_ends_its_workers(programs: Programs) -> None:
    """With `--success=first`, workers that would run forever are stopped, and count as done."""
    head = 'test "$BASTION_REPLICA_INDEX" = 0 && exec sleep 0.5'
    worker = "trap 'echo told; exit 1' TERM; while :; do sleep 0.1; done"
    flags = ("--replicas=3", "--success=first", "--on_end=echo after $BASTION_OUTCOME", "--shell")
    ran = programs.run("run", *flags, "--", f"{head}; {worker}", check=False)
    assert (ran.returncode, ran.stdout.count("told\n")) == (0, 2)
    assert ran.stdout.count("after succeeded\n") == 3
    assert "its first replica succeeded, and the others were stopped" in ran.stderr


MARKS = """
import bastion, time
bastion.report(loss=0.5, step=7)
bastion.checkpointed()
bastion.finished()
time.sleep(600)
"""


def test_marks_are_read_from_python_and_as_files(programs: Programs) -> None:
    """Numbers are shown; a job that wrote *finished* succeeded, though stopped as hung."""
    env = {"PYTHONPATH": str(REPOSITORY)}
    process = Process([sys.executable, "-c", MARKS], env=env)
    handle = launch(programs, Job(processes=[process], idle_timeout="1s"))
    line = 'cd "$BASTION_MARKS_DIR"; echo \'{"loss": 2}\' > report; touch finished; sleep 600'
    job, _ = programs.follow("--idle_timeout=1s", "--shell", "--", line)
    assert programs.json("show", job)["jobs"][0]["report"] == {"loss": 2}
    assert re.search(r"^reported +loss=2$", programs.run("show", job).stdout, re.MULTILINE)
    (done,) = ended(handle)
    assert (done.state, done.report) == ("succeeded", {"loss": 0.5, "step": 7})


def test_a_hang_is_reported_and_a_failed_job_is_held(programs: Programs) -> None:
    """From Python: stacks in the log, a remark in `why`, a held machine, a clean-up at the end."""
    client = programs.client
    hung = Job(
        processes=[shell("echo begun; sleep 600")], idle_timeout="1s", on_idle="report", grace=1
    )
    handle = client.launch(Launch(name="hung", jobs=[hung]))
    until(lambda: "no output" in client.why(handle.id).text, "it is told that it hangs")
    until(lambda: "sleep 600" in handle.logs("main"), "its stacks are in the log")
    assert handle.status().counts == {"running": 1}
    handle.cancel()

    failing = Job(
        processes=[shell("echo oops; touch core; exit 7")],
        hold_on_failure="10m",
        on_end=["sh", "-c", "echo after $BASTION_OUTCOME $BASTION_EXIT_CODE"],
    )
    kept = client.launch(Launch(name="kept", jobs=[failing]))
    (job,) = ended(kept)
    assert (job.state, job.outcome, job.code, job.has_ended) == ("held", "failed", 7, False)
    folder = re.search(r"held for inspection until .* on machine .* in (\S+);", job.text)
    assert folder is not None
    assert Path(folder[1]).is_dir()
    assert programs.run("wait", kept.id, check=False).returncode == 7
    client.release(kept.id)
    until(lambda: client.job(kept.id).has_ended, "it is let go")
    assert "after failed 7" in kept.logs("main")
    assert client.job(kept.id).code == 7
    assert handle.wait(timeout_s=DEADLINE_S).counts == {"cancelled": 1}
    assert (Path(folder[1]) / "core").exists(), "what was left in the working directory stays"


def test_run_and_wait_do_not_wait_for_held_tasks(programs: Programs) -> None:
    """A failed task is held for ten minutes; `run` and `wait` immediately end with its code."""
    line = "exit $BASTION_TASK_INDEX"
    job = Job(processes=[shell(line)], hold_on_failure="10m")
    handle = launch(programs, job, array=Array("0-1"))
    words = ("run", "--array=0-1", "--hold_on_failure=10m", "--shell", "--", line)
    ran = programs.run(*words, check=False)
    assert ran.returncode == 1
    assert "1 of 2 tasks failed; task 1: exited with code 1; held for inspection" in ran.stderr
    (array,) = ended(handle)
    assert (array.state, array.outcome, array.code) == ("held", "failed", 1)
    assert array.counts == {"held": 1, "succeeded": 1}
    other = ran.stderr.partition("tasks of ")[2].partition(";")[0]
    programs.client.release(handle.id, other)

    def have_ended() -> bool:
        return all(programs.client.job(each).has_ended for each in (handle.id, other))

    until(have_ended, "it is let go")
    assert ended(handle)[0].counts == {"failed": 1, "succeeded": 1}


def test_a_terminal_shows_progress(programs: Programs, tmp_path: Path) -> None:
    """A progress bar is drawn after a second."""
    line = f"until [ -e {tmp_path}/gate ]; do sleep 0.05; done"
    handle = launch(programs, Job(processes=[shell(line)]))
    ours, theirs = os.openpty()
    drawn = bytearray()

    def is_drawn() -> bool:
        if select.select([ours], [], [], 0.1)[0]:
            drawn.extend(os.read(ours, 4096))
        return b"waiting" in drawn and b"0/1" in drawn

    command = [*programs.command, "wait", handle.id]
    env = {**programs.env, "TERM": "xterm", "LANG": "C.UTF-8"}
    waiting = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=theirs)
    until(is_drawn, "a bar", timeout_s=20.0)
    (tmp_path / "gate").touch()
    assert waiting.wait(DEADLINE_S) == 0
    os.close(ours)
    os.close(theirs)


def test_python_and_the_command_make_the_same_sweeps(programs: Programs) -> None:
    """Grid, zip and sample combined; a rerun of a part; one array for both, by one key."""
    sweep = Sweep(
        grid={"seed": [1, 2]},
        zip={"layers": [2, 4], "width": [512, 256]},
        sample=Sample(2, seed=7, draw={"lr": LogUniform(1e-5, 1e-1), "opt": Choice(["a", "b"])}),
        at_once=4,
    )
    line = "echo {seed} {layers}x{width} {lr} {opt}; test {seed} = 1"
    wanted = Launch(name="grid", jobs=[Job(processes=[shell(line)])], sweep=sweep)
    handle = programs.client.launch(wanted, idempotency_key="grid")
    assert handle.wait(timeout_s=DEADLINE_S).counts == {"failed": 4, "succeeded": 4}
    assert programs.client.launch(wanted, idempotency_key="grid").id == handle.id
    for task in handle.tasks:
        told = {name: str(each) for name, each in task.parameters.items()}
        assert handle.logs(task.task or 0) == wanted_line(told)
        assert (task.attempt, task.code) == (1, 0 if told["seed"] == "1" else 1)
    shown = programs.json("show", handle.id, "--tasks")["jobs"]
    assert [task["parameters"] for task in shown] == [dict(t.parameters) for t in handle.tasks]

    bad = ("run", "--array=0-9%1", "--max_failures=2", "-q", "--name=bad", "--", "false")
    assert programs.run(*bad, check=False).returncode == 1
    fails = launch(programs, Job(processes=[shell("exit 1")]), array=Array("0-9%1"), max_failures=2)
    for whole in (programs.client.job("bad"), *ended(fails)):
        assert (whole.state, whole.counts) == ("failed", {"cancelled": 8, "failed": 2})

    plain = Launch(name="true", jobs=[Job(processes=[Process(["true"])])], array=Array("0-9%3"))
    from_python = programs.client.launch(plain)
    key = ("--array=0-9%3", "--idempotency_key=tens", "-q", "--", "true")
    array = programs.run("launch", *key).stdout
    assert programs.run("launch", *key).stdout == array
    assert from_python.wait(timeout_s=DEADLINE_S).counts == {"succeeded": 10}
    assert programs.wait(array.strip()).counts == {"succeeded": 10}


def wanted_line(told: dict[str, str]) -> str:
    """Return what a task of the sweep prints."""
    return "{seed} {layers}x{width} {lr} {opt}\n".format(**told)


def test_jobs_wait_for_jobs_with_every_kind_of_end(programs: Programs) -> None:
    """A chain in one launch, and a wait for any end of another job; cycles are refused."""
    line = "echo $BASTION_JOB_NAME >> {}".format(programs.folder / "order")
    steps = [
        Job(name="train", processes=[shell(f"{line}; exit 1")]),
        Job(name="test", processes=[shell(line)], after=["train"]),
        Job(name="sorry", processes=[shell(line)], after=[After("train", when="failed")]),
        Job(name="clean", processes=[shell(line)], after=[After("test", when="any")]),
    ]
    jobs = ended(launch(programs, *steps, together=False))
    assert [job.state for job in jobs] == ["failed", "cancelled", "succeeded", "succeeded"]
    assert sorted((programs.folder / "order").read_text().split()) == ["clean", "sorry", "train"]
    assert programs.run("wait", jobs[0].launch, check=False).returncode == 1
    ran = programs.run("run", f"--after={jobs[0].id}:any", "--", "echo", "after any")
    assert ran.stdout == "after any\n"
    ran = programs.run("launch", f"--after={jobs[0].id}", "--", "true", check=False)
    assert ran.returncode == 104
    assert "with :any behind the name it starts however that one ended" in ran.stderr
    with pytest.raises(SpecError, match="a -> b -> a is a circle"):
        Launch(
            name="circle",
            together=False,
            jobs=[
                Job(name="a", processes=[shell("true")], after=["b"]),
                Job(name="b", processes=[shell("true")], after=["a"]),
            ],
        )


def test_a_job_that_may_not_wait_is_refused_with_every_machine(programs: Programs) -> None:
    """Whole machines are allocated on request, and then nothing else fits on them."""
    flags = ("--exclusive", "--resources=h100=5", "--replicas=2", "-q", "--name=whole")
    whole = programs.run("launch", *flags, "--", "sleep", "600").stdout.strip()
    until(lambda: programs.client.job(whole).state == "running", "it runs")
    machines = programs.client.pool().machines
    until(
        lambda: not any(each.free["h100"] for each in programs.client.pool().machines),
        "nothing is free",
    )
    asked = ("--when_busy=fail", "--resources=h100=1", "--", "true")
    ran = programs.run("launch", *asked, check=False)
    assert ran.returncode == 104
    assert all(f"{machine.name}  1 h100" in ran.stderr for machine in machines)
    assert "hint: without when_busy=fail it would wait in the queue" in ran.stderr
    process = Process(["true"], resources=Resources(h100=1))
    with pytest.raises(BusyError) as busy:
        programs.client.launch(
            Launch(
                name="now",
                jobs=[Job(processes=[process])],
                when_busy="fail",
                where=Where(cluster="primary", labels={"shard": "rl"}),
            )
        )
    assert {each.machine for each in busy.value.machines} == {each.name for each in machines}
    programs.client.cancel(whole)
    assert programs.wait(whole).state == "cancelled"


def test_mistakes_of_a_launch_are_reported_alike(programs: Programs, tmp_path: Path) -> None:
    """By the command, from a file, and from Python; nothing is left in the inbox."""

    def job(name: str = "a", more: str = "", process: str = 'command = ["true"]') -> str:
        return f'[[jobs]]\nname = "{name}"\n{more}\nprocesses = [{{ {process} }}]\n'

    def a(name: str = "a", **fields: Any) -> Job:
        return Job(name=name, processes=[Process(["true"])], **fields)

    greedy = Job(name="a", processes=[Process(["true"], resources=Resources(h10=1))])
    mistakes: list[tuple[str, str, Callable[[], object]]] = [
        ("replicas: -1 is not", job(more="replicas = -1"), lambda: a(replicas=-1)),
        ("two are called 'a'", 2 * job(), lambda: launch(programs, a(), a())),
        ("'true' is one string", job(process='command = "true"'), lambda: Process("true")),
        (
            "no resource type 'h10' here",
            job(process='command = ["true"], resources = { h10 = 1 }'),
            lambda: launch(programs, greedy),
        ),
        (
            "nowhere",
            'where = { hostnames = ["nowhere"] }\n' + job(),
            lambda: launch(programs, a(), where=Where(hostnames=("nowhere",))),
        ),
        (
            "circle",
            "together = false\n" + job("a", 'after = ["b"]') + job("b", 'after = ["a"]'),
            lambda: launch(programs, a(after=["b"]), a("b", after=["a"]), together=False),
        ),
    ]
    file = tmp_path / "wrong.toml"
    for problem, text, made in mistakes:
        file.write_text(f'name = "wrong"\n{text}')
        ran = programs.run("launch", str(file), check=False)
        assert ran.returncode in (2, 104)
        assert problem in ran.stderr
        with pytest.raises(BastionError, match=re.escape(problem)):
            made()
    assert not programs.place.keys("inbox/")


def test_old_working_directories_are_deleted_and_used_ones_stay(programs: Programs) -> None:
    """A job's files are deleted by age, unless it is young, running or held."""
    leave = "pwd; touch kept"
    (old,) = ended(launch(programs, Job(processes=[shell(leave)])))
    held = Job(processes=[shell(f"{leave}; exit 1")], hold_on_failure="10m")
    (failed,) = ended(launch(programs, held))
    runs = programs.run("launch", "-q", "--shell", "--", f"{leave}; sleep 600").stdout.strip()
    until(lambda: programs.printed(runs), "it runs")
    young, _ = programs.follow("--shell", "--", leave)
    gone, *kept = (Path(programs.printed(job).strip()) for job in (old.id, failed.id, runs, young))
    for code in (gone, *kept[:2]):
        os.utime(code.parent, (0, 0))
    until(lambda: not gone.exists(), "the old one is gone")
    assert all((code / "kept").exists() for code in kept)
    programs.client.cancel(failed.id, runs)
