"""Hints before a submission, and accepted habits: names, parameters, secrets, files."""

from __future__ import annotations

from pathlib import Path

import pytest

from bastion.compat.sbatch_script import command
from bastion.spec import Job, Launch, Process
from launch.screen.job_spec import spec_fields
from launch.submission.flags import name_from
from tests.launch.bucket import JOB, Bucket
from tests.launch.command_line import Run
from tests.rigs.scripted_bastion import publish, row


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["python3", "train.py", "--lr=1"], "train"),
        (["/usr/bin/python3", "-c", "import jax"], "python"),
        (["python3.12", "-u", "-c", "raise SystemExit"], "python"),
        (["sh", "-c", "echo task $BASTION_TASK_INDEX"], "echo"),
        (["/opt/bin/evaluate", "-c", "config.toml"], "evaluate"),
        (["torchrun", "--nproc", "train.py"], "train"),
    ],
)
def test_a_job_is_named_after_its_program(command: list[str], name: str) -> None:
    """Code behind `-c` is no name."""
    assert name_from(command) == name


def test_a_parameter_that_nothing_names_is_told(run: Run, bucket: Bucket) -> None:
    """Tasks of `echo nothing` differ only in a variable; used parameters cause no note."""
    with bucket.bastion():
        ran = run("launch", "-q", "--sweep=lr=1,2", "--sweep=seed=1,2", "--", "echo", "{seed}")
        used = run("launch", "-q", "--sweep=lr=1,2", "--env=RATE={lr}", "--", "train")
    assert "note: the command does not contain {lr}" in ran.err
    assert "BASTION_PARAM_LR" in ran.err
    assert "{seed}" not in ran.err
    assert "note" not in used.err


def test_a_secret_is_told_to_be_read_on_the_machine(run: Run, bucket: Bucket) -> None:
    """Only the machine knows whether it exists, and the submission says so."""
    with bucket.bastion():
        ran = run("launch", "-q", "--secret=WANDB_API_KEY", "--", "train")
        named = run("launch", "-q", "--secret=KEY=file:a", "--", "train")
    assert "note: secret WANDB_API_KEY is read on the machine" in ran.err
    assert "note: secret" not in named.err


def test_a_switch_takes_no_value(run: Run) -> None:
    """The error has our words, not those of argparse."""
    ran = run("launch", "--no_resume=false", "--", "train")
    assert ran.err.startswith("error: --no_resume: takes no value, but 'false' was given")
    assert ran.code == 2


def test_a_profile_has_the_names_of_flags_too(run: Run) -> None:
    """`project_id` and `user_id` mean the same as the flags of that name."""
    assert run("config", "set", "project_id=blue", "user_id=ada").code == 0
    shown = run("config", "show", "--json").out
    assert '"project": "blue"' in shown
    assert '"user": "ada"' in shown


def test_a_configuration_is_checked_before_it_is_in_force(run: Run, tmp_path: Path) -> None:
    """All problems of a file, of any kind, are reported together with the file's own name."""
    file = tmp_path / "pools.toml"
    file.write_text(
        '[pools.a]\nprovider = "nowhere"\nfoo = 1\ncount = 2\nresources = { h100 = 8 }\n'
        '[pools.b]\nprovider = "local"\nresources = { h100 = 8 }\ncount = -1\n'
    )
    ran = run("config", "check", str(file))
    assert ran.code == 2
    assert len(ran.err.splitlines()) == 4
    for told in ("line 2: pools.a.provider", "line 3: pools.a.foo", "line 9: pools.b.count"):
        assert f"error: {file}: {told}" in ran.err
    file.write_text(
        '[pools.a]\nprovider = "aws"\ncount = -2\nresources = { h100 = 8 }\n[x]\ny = 1\n'
    )
    told = run("config", "check", str(file)).err
    for each in (
        "line 2: pools.a.provider: 'aws' is unknown",
        "line 3: pools.a.count: input",
        "line 5: x: unknown field",
    ):
        assert f"error: {file}: {each}" in told
    file.write_text("pools = 3\n")
    told = run("config", "check", str(file)).err
    assert told.startswith(f"error: {file}: line 1: pools: input should be a table (found 3)")
    file.write_text('[pools.b]\nprovider = "local"\nresources = { h100 = 8 }\ncount = 1\n')
    ran = run("config", "check", str(file))
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == f"{file} is valid; its pools: b\n"


def test_a_wrong_quota_file_names_the_page_that_comes_with_the_program(
    run: Run, tmp_path: Path
) -> None:
    """The path is not that of the sources, which an installed program does not have."""
    path = tmp_path / "quotas.toml"
    path.write_text("[totall]\n")
    checked = run("quota", "check", str(path))
    assert checked.code == 2
    assert "hint: bastion help quota-file describes every key" in checked.err
    assert run("help", "quota-file").code == 0


def test_quiet_prints_names_alone(run: Run, bucket: Bucket) -> None:
    """This includes single views: the projects of `status`, the job of `why` and `show`."""
    publish(bucket.store, "queue", {"jobs": [row(JOB)]})
    publish(bucket.store, "status", {"leader": "a", "projects": {"blue": {}, "red": {}}})
    assert run("status", "-q").out == "blue\nred\n"
    assert run("why", "-q", JOB).out == run("show", "-q", JOB).out == f"{JOB}\n"


def test_a_file_of_yaml_is_told_what_serves_here(run: Run) -> None:
    """The message does not call it a command."""
    ran = run("launch", "task.yaml")
    assert ran.code == 2
    assert ran.err.splitlines()[:2] == [
        "error: 'task.yaml' is a YAML file, which Bastion cannot read",
        "hint: give a command after --: bastion launch --code=. -- COMMAND;"
        " more: bastion help come-from-another-system",
    ]


def test_an_empty_list_tells_where_the_others_are(run: Run, bucket: Bucket) -> None:
    """A newcomer's first job ends within a second."""
    publish(bucket.store, "queue", {"jobs": []})
    assert "to see jobs that have ended: bastion list --all" in run("list").err
    assert "--all" not in run("list", "--all").err


def test_what_is_used_up_is_told_as_none(run: Run, bucket: Bucket) -> None:
    """Free is `0 h100`, not an empty cell; devices are first."""
    machine = {
        "name": "own-1-0",
        "pool": "own",
        "phase": "ready",
        "resources": {"cpu": 32, "h100": 8, "memory": 2**36},
        "free": {"cpu": 30, "memory": 2**36},
    }
    publish(bucket.store, "pool", {"machines": [machine], "pools": []})
    for verb in ("machines", "pool"):
        row = run(verb).out.splitlines()[1]
        assert "8 h100 + 32 cpu + 64 GiB memory" in row
        assert "0 h100 + 30 cpu + 64 GiB memory" in row


def fields_of(job: Job) -> dict[str, str]:
    """Return the fields shown of `job`, alone in its launch."""
    return dict(spec_fields(job, Launch(name="a", jobs=[job])))


def test_a_script_hides_no_other_field() -> None:
    """Of an argument of many lines the first is shown; a short command is shown whole."""
    script = "\n".join(["#!/bin/sh", *(f"step {n}" for n in range(60))])
    long = Job(processes=[Process(["bash", "-c", script, "job.sbatch"])])
    shown = fields_of(long)["command"]
    assert shown == "bash -c '#!/bin/sh ... (61 lines; --json shows all)' job.sbatch"
    slurm = command("#!/bin/bash\n#SBATCH -n 1\ntrue\n", name="job.sbatch", arguments=("8",))
    batch = Job(processes=[Process(slurm)])
    assert fields_of(batch)["command"] == (
        "job.sbatch 8 (a Slurm script of 3 lines; --json shows all)"
    )
    short = Job(processes=[Process(["python3", "-c", "import a\nprint(a)"])])
    assert fields_of(short)["command"] == "python3 -c 'import a\nprint(a)'"


def test_what_decides_a_gang_is_shown() -> None:
    """Only non-default values are shown: the first replica decides, others continue."""
    ray = Job(processes=[Process(["ray"])], replicas=3, success="first", on_failure="continue")
    shown = {name: said for name, said in fields_of(ray).items() if said}
    assert shown["succeeds"] == "when its first replica does"
    assert shown["on failure"] == "other replicas continue"
    plain = {name for name, said in fields_of(Job(processes=[Process(["a"])])).items() if said}
    assert not plain & {"succeeds", "on failure"}
