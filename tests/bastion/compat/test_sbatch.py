"""Slurm scripts as launches, and the errors for options without a counterpart."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from bastion.client.submit.launch_file import launch_text, parse_launch
from bastion.compat import files, sbatch_script
from bastion.compat.imported import Imported
from bastion.compat.sbatch import _REFUSED, to_launch
from bastion.compat.sbatch_options import SHORT, TAKES
from bastion.errors import SpecError
from bastion.spec import After, Job, Where
from bundler.code import LocalDir


def imported(*lines: str, shebang: str = "#!/bin/bash", body: str = "true\n") -> Imported:
    """Return the result of a script with these options."""
    header = "".join(f"#SBATCH {line}\n" for line in lines)
    return to_launch(
        f"{shebang}\n{header}{body}",
        name="job.sbatch",
        device=lambda: "h100",
        environment={"HERE": "there"},
    )


def job_of(*lines: str, body: str = "true\n") -> Job:
    """Return the single job of such a script."""
    (job,) = imported(*lines, body=body).launch.jobs
    return job


def asked(*lines: str) -> dict[str, int]:
    """Return the requests of one node of such a script."""
    return dict(job_of(*lines).per_replica.items())


def problems(*lines: str, shebang: str = "#!/bin/bash") -> list[str]:
    """Return the errors in such a script."""
    with pytest.raises(SpecError) as error:
        imported(*lines, shebang=shebang)
    return list(error.value.problems)


@pytest.mark.parametrize(
    ("lines", "nodes", "tasks"),
    [
        ((), 1, 1),
        (("--ntasks=4",), 1, 4),
        (("-n4",), 1, 4),
        (("-N 2", "--ntasks-per-node=8"), 2, 8),
        (("--nodes=2-2 --tasks-per-node 3",), 2, 3),
        (("--nodes=4", "--ntasks=8"), 4, 2),
        (("--ntasks=8", "--ntasks-per-node=4"), 2, 4),
        (("--ntasks=2", "--ntasks=6"), 1, 6),
    ],
)
def test_a_node_is_a_replica(lines: tuple[str, ...], nodes: int, tasks: int) -> None:
    """Any two of nodes, tasks and tasks per node determine the third; later options win."""
    job = job_of(*lines)
    assert (job.replicas, job.env["SLURM_NTASKS_PER_NODE"]) == (nodes, str(tasks))


@pytest.mark.parametrize(
    ("lines", "units"),
    [
        ((), {}),
        (("--gres=gpu:4",), {"h100": 4}),
        (("--gres=gpu",), {"h100": 1}),
        (("--gres=gpu:a100:2",), {"a100": 2}),
        (("--gpus-per-node=rtx3090:1",), {"rtx_3090": 1}),
        (("-N2", "--gpus=8"), {"h100": 4}),
        (("-n4", "--gpus-per-task=v100:1"), {"v100": 4, "cpu": 4}),
        (("--cpus-per-task=8",), {"cpu": 8}),
        (("-n2", "-c 8"), {"cpu": 16}),
        (("--gres=gpu:2", "--cpus-per-gpu=6"), {"h100": 2, "cpu": 12}),
        (("--mem=64G",), {"memory": 64 << 30}),
        (("--mem=500",), {"memory": 500 << 20}),
        (("-c4", "--mem-per-cpu=2GB"), {"cpu": 4, "memory": 8 << 30}),
        (("-G2", "--mem-per-gpu=1T"), {"h100": 2, "memory": 2 << 40}),
    ],
)
def test_resources_are_asked_for_by_node(lines: tuple[str, ...], units: dict[str, int]) -> None:
    """Requests in any unit of Slurm become requests per node."""
    assert asked(*lines) == units


@pytest.mark.parametrize(
    ("written", "limit_s"),
    [
        ("90", 5400.0),
        ("1:30", 90.0),
        ("12:00:00", 43200.0),
        ("2-12", 216000.0),
        ("1-2:3", 93780.0),
        ("1-0:0:5", 86405.0),
        ("0", None),
        ("UNLIMITED", None),
    ],
)
def test_times_are_read_as_slurm_reads_them(written: str, limit_s: float | None) -> None:
    """Minutes, minutes:seconds, hours:minutes:seconds, and days before a dash."""
    assert job_of(f"--time={written}").max_runtime_s == limit_s


def test_the_signal_comes_before_the_limit() -> None:
    """The notice is early enough that, with its grace period, the job ends at its limit."""
    job = job_of("--time=1:00:00", "--signal=TERM@120")
    assert (job.max_runtime_s, job.grace_s) == (3480.0, 120.0)
    assert job_of("--signal=SIGTERM").grace_s == 60.0
    found = imported("--signal=B:15@30")
    assert "every process of the job gets it" in found.notes[0]


def test_an_error_of_a_script_has_the_line_of_its_file() -> None:
    """Inserted lines, such as `srun`, do not count."""
    (process,) = job_of("--time=1:00:00", body="nocommand\n").processes
    ran = subprocess.run(process.command, capture_output=True, text=True, check=False)
    assert ran.returncode == 127
    assert ran.stderr.startswith("job.sbatch: line 3: nocommand: command not found")


def test_names_places_and_order_are_mapped() -> None:
    """All other options with a counterpart are mapped."""
    found = imported(
        '--job-name="my run" --comment=why --account=research',
        "-p gpu --nodelist=a1,a2 --constraint=zone=b&disk=ssd --exclusive",
        "--dependency=afterok:one-1:two-2,afterany:three-3 --dependency=afternotok:four-4",
        "--hold --nice=50 --chdir=src --export=HERE,LR=0.1 --requeue --open-mode=append",
    )
    launch = found.launch
    assert (launch.name, launch.description, launch.project) == ("my-run", "why", "research")
    assert launch.where == Where(
        pool="gpu", hostnames=("a1", "a2"), labels={"zone": "b", "disk": "ssd"}, exclusive=True
    )
    assert launch.after == (After("four-4", when="failed"),)
    (job,) = launch.jobs
    assert (job.hold, job.priority) == (True, 4)
    assert job.env["HERE"] == "there"
    assert job.env["LR"] == "0.1"
    assert job.env["SLURM_CHDIR"] == "src"
    assert job.env["SLURM_JOB_NAME"] == "my run"
    assert found.notes == ()
    after = imported("--dependency=afterok:one-1:two-2,afterany:three-3").launch.after
    assert after == (After("one-1"), After("two-2"), After("three-3", when="any"))
    assert [job_of(f"--nice{n}").priority for n in ("", "=0", "=100", "=101")] == [4, 3, 4, 5]


def test_an_array_is_an_array(tmp_path: Path) -> None:
    """Indices, steps and the limit are read as they are, and each task knows its own."""
    found = script_of("echo $SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT\n", "--array=0-8:4%2")
    array = found.launch.array
    assert array is not None
    assert (list(array.tasks), array.at_once) == ([0, 4, 8], 2)
    ran = run(found, tmp_path, BASTION_TASK_INDEX="4", BASTION_TASK_COUNT="3", BASTION_ARRAY_ID="a")
    assert ran.stdout == "4/3\n"


def test_a_script_is_told_its_lowest_and_highest_index_and_its_cpus() -> None:
    """Known when it is read; without an array, or where no cpus are asked for, they are not set."""
    lines = ("--array=7,2-4", "--ntasks-per-node=2", "--cpus-per-task=3")
    env = script_of("true\n", *lines).launch.jobs[0].env
    assert (env["SLURM_ARRAY_TASK_MIN"], env["SLURM_ARRAY_TASK_MAX"]) == ("2", "7")
    assert env["SLURM_ARRAY_TASK_STEP"] == "1"
    assert env["SLURM_CPUS_ON_NODE"] == "6"
    plain = script_of("true\n").launch.jobs[0].env
    assert not plain.keys() & {"SLURM_ARRAY_TASK_MIN", "SLURM_CPUS_ON_NODE"}


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (("--array=9-0",), "line 2: --array=9-0: "),
        (("--time=soon",), "line 2: --time=soon: is not a time such as 90, 12:00:00 or 2-12"),
        (("--nodes=2-4",), "line 2: --nodes=2-4: a gang has one size"),
        (("--nodes=0",), "line 2: --nodes=0: is not a whole number above zero"),
        (("-N3 -n4",), "line 2: --ntasks=4: is not the same number on each of 3 nodes"),
        (("--gres=lscratch:5",), "line 2: --gres=lscratch:5: 'lscratch:5' is not a GPU"),
        (("--gpus=2", "--gres=gpu:2"), "line 2: --gpus=2: says again what --gres says"),
        (("-N2 --gpus=3",), "line 2: --gpus=3: is not the same number on each of 2 nodes"),
        (("--mem=0",), "line 2: --mem=0: all of a machine is asked for with --exclusive"),
        (("--mem=lots",), "line 2: --mem=lots: is not a size such as 64G"),
        (("--mem=1G --mem-per-cpu=1G",), "--mem, --mem-per-cpu and --mem-per-gpu exclude"),
        (("--mem-per-gpu=1G",), "line 2: --mem-per-gpu=1G: no GPU is asked for"),
        (("--partition=a,b",), "line 2: --partition=a,b: a job goes to one pool; name one"),
        (("--constraint=a100",), "line 2: --constraint=a100: machines have labels, no features"),
        (("--nodelist=a[1-4]",), "line 2: --nodelist=a[1-4]: write each machine's name"),
        (("--exclusive=user",), "line 2: --exclusive=user: a machine is shared with all or"),
        (("--export=ALL",), "line 2: --export=ALL: your whole environment is not sent"),
        (("--export=NOWHERE",), "line 2: --export=NOWHERE: there is no variable 'NOWHERE' here"),
        (("--dependency=singleton",), "'singleton' has no counterpart; allowed: afterok, afterany"),
        (("--dependency=afterok:1?afterok:2",), "any of several cannot be asked for"),
        (
            ("--signal=USR1@60",),
            "line 2: --signal=USR1@60: a job here is notified by TERM and a file",
        ),
        (("--signal=soon",), "line 2: --signal=soon: is not [B:]SIGNAL[@SECONDS]"),
        (("--time=1 --signal=TERM@60",), "comes before the job begins; --time is shorter"),
        (("--nice=low",), "line 2: --nice=low: is not a whole number"),
        (("--nice=-5",), "line 2: --nice=-5: only admins of a project raise priorities"),
        (("--job-nam=x",), "line 2: --job-nam: has no counterpart here; did you mean --job-name?"),
        (("--uid=5",), "line 2: --uid: has no counterpart here; take it out"),
        (("-Z",), "line 2: -Z: has no counterpart here"),
        (("--job-name=a b",), "line 2: b: is not an option"),
        (("--time",), "line 2: --time: has no value"),
        (("--hold=yes",), "line 2: --hold=yes: takes no value"),
        (('--job-name="a',), "line 2: no closing quotation"),
    ],
)
def test_what_has_no_counterpart_is_refused_with_its_line(
    lines: tuple[str, ...], problem: str
) -> None:
    """Every error names the line, the option as it was written, and what to do."""
    (found,) = problems(*lines)
    assert problem in found


@pytest.mark.parametrize("name", _REFUSED)
def test_refused_options_say_what_to_do(name: str) -> None:
    """Each option that cannot be mapped has its own advice."""
    value = "=1" if TAKES[name] == "text" else ""
    (found,) = problems(f"--{name}{value}")
    assert found == f"line 2: --{name}{value}: {_REFUSED[name]}"


def test_what_is_not_to_be_requeued_does_not_resume() -> None:
    """The last of the two options counts, as in Slurm."""
    assert job_of().resume
    assert job_of("--requeue").resume
    assert not job_of("--requeue", "--no-requeue").resume
    assert job_of("--no-requeue", "--requeue").resume


def test_mail_is_noted_with_what_is_there_instead() -> None:
    """The script runs: no mail is sent, and the alternative is named once."""
    (note,) = imported("--mail-type=END,FAIL", "--mail-user=ada@lab.org").notes
    assert note.startswith("line 2: --mail-type=END,FAIL: no mail is sent; use a webhook:")
    assert note.endswith("--notify=WEBHOOK --notify_on=ended")
    (note,) = imported("--mail-user=ada@lab.org").notes
    assert note.startswith("line 2: --mail-user=ada@lab.org: no mail is sent")


def test_notes_are_in_the_order_of_the_script() -> None:
    """Every note is at the position of its line."""
    notes = imported("--output=a.out", "--error=a.err", "--mail-type=END").notes
    assert [each.partition(":")[0] for each in notes] == ["line 2", "line 3", "line 4"]


@pytest.mark.parametrize("shebang", ["#!/bin/bash", "#!/usr/bin/env python3"])
def test_the_script_of_a_command_is_found_again(shebang: str) -> None:
    """What is shown of such a job is its script, and not what surrounds it."""
    text = f"{shebang}\nprint\n"
    made = sbatch_script.command(text, name="job.sbatch", arguments=("a", "b c"))
    assert sbatch_script.script_of(made) == ("job.sbatch", text, ("a", "b c"))
    assert sbatch_script.script_of(("bash", "-c", "true")) is None
    assert sbatch_script.script_of(("python3", "train.py")) is None


def test_all_problems_come_at_once() -> None:
    """Four wrong lines are four problems, in the order of the script."""
    found = problems("--time=x", "--mem=y", "--qos=z", "--nodes=w")
    assert [each.partition(":")[0] for each in found] == ["line 2", "line 3", "line 4", "line 5"]


def test_short_names_are_long_names() -> None:
    """Every letter is a known option."""
    assert set(SHORT.values()) <= set(TAKES)


def test_what_sbatch_does_not_read_is_not_read() -> None:
    """Comments are skipped; options below the first command are noted."""
    found = to_launch(
        "#!/bin/bash\n##SBATCH --qos=high\n# SBATCH --qos=high\n#SBATCH -n 2 # --qos=high\n"
        "\necho\n#SBATCH --qos=high\n"
    )
    assert found.launch.jobs[0].env["SLURM_NTASKS_PER_NODE"] == "2"
    assert found.notes == ("line 7: below the first command, where sbatch reads nothing",)
    separated = to_launch("#!/bin/bash\n# one\fpage\u2028and a line\n#SBATCH -n 2\necho\n")
    assert separated.launch.jobs[0].env["SLURM_NTASKS_PER_NODE"] == "2"
    assert not separated.notes
    with pytest.raises(SpecError, match="line 2: #PBS is another system's"):
        to_launch("#!/bin/bash\n#PBS -l nodes=2\ntrue\n")


def test_output_files_are_noted() -> None:
    """Output is in another place than the script says: that is noted, not refused."""
    (note,) = imported("--output=logs/%j.out").notes
    assert note.startswith("line 2: --output=logs/%j.out: everything printed is kept in the bucket")


def test_a_device_without_a_type_needs_one_to_be_told() -> None:
    """Where there are several types, or none is known, the script has to name it."""
    script = "#!/bin/bash\n#SBATCH --gres=gpu:2\ntrue\n"
    with pytest.raises(SpecError, match=r"names no type of device.*gpu:h100:2"):
        to_launch(script)


@pytest.mark.parametrize("shebang", ["", "#!", "#!/bin/tcsh", "#!/usr/bin/perl -w", "#!/bin/sh '"])
def test_scripts_that_cannot_be_handed_over_are_told(shebang: str) -> None:
    """A script needs an interpreter that takes its text as an argument."""
    assert problems(shebang=shebang)[0].startswith("line 1: ")


def test_an_imported_launch_is_a_file_of_ours() -> None:
    """What it is as TOML is the same launch again."""
    found = imported("--gres=gpu:2 --time=1:0:0 -p gpu --dependency=afterok:one-1", "-J x").launch
    assert parse_launch(launch_text(found), source="spec.toml") == found


def run(
    found: Imported, folder: Path, *, node: int = 0, nodes: int = 1, **told: str
) -> subprocess.CompletedProcess[str]:
    """Run one node of a launch as its keeper would."""
    (job,) = found.launch.jobs
    env = {
        "PATH": os.environ["PATH"],
        "BASTION_JOB_ID": "job-0123456789",
        "BASTION_REPLICA_COUNT": str(nodes),
        "BASTION_REPLICA_INDEX": str(node),
        "BASTION_ATTEMPT": "2",
        "BASTION_HOSTS": "10.0.0.1,10.0.0.2",
        "CUDA_VISIBLE_DEVICES": "4,5",
        **job.env,
        **told,
    }
    return subprocess.run(
        job.processes[0].argv, cwd=folder, env=env, capture_output=True, text=True, timeout=60
    )


def script_of(body: str, *lines: str, shebang: str = "#!/bin/bash") -> Imported:
    """A script of these options with this body, and two arguments."""
    header = "".join(f"#SBATCH {line}\n" for line in lines)
    script = f"{shebang}\n{header}{body}"
    return to_launch(script, name="a b.sbatch", arguments=("x y", "z"), device=lambda: "h100")


@pytest.mark.parametrize("shebang", ["#!/bin/bash", "#!/bin/sh", "#!/usr/bin/env bash"])
def test_the_script_runs_as_it_is(shebang: str, tmp_path: Path) -> None:
    """Its name, its arguments and its exit code are those of the script; quotes are its own."""
    body = 'echo "$0|$1|$2|$#" \'$1\' "$SLURM_JOB_ID $SLURM_RESTART_COUNT"\nexit 3\n'
    ran = run(script_of(body, shebang=shebang), tmp_path)
    assert ran.stdout == "a b.sbatch|x y|z|2 $1 job-0123456789 1\n"
    assert ran.returncode == 3


@pytest.mark.parametrize("shebang", ["#!/bin/bash", "#!/bin/sh"])
def test_the_shell_counts_the_lines_of_the_script(shebang: str, tmp_path: Path) -> None:
    """What it complains about is where its author looks for it."""
    ran = run(script_of("\nnocommand\n", shebang=shebang), tmp_path)
    assert re.search(r"(: line|:) 3: (eval: )?nocommand", ran.stderr), ran.stderr


@pytest.mark.parametrize("shebang", ["#!/bin/bash", "#!/bin/sh"])
def test_srun_starts_the_tasks_of_its_node(shebang: str, tmp_path: Path) -> None:
    """Each task has its rank over all nodes and sees every device of its node."""
    body = (
        "srun --label sh -c 'echo $SLURM_PROCID/$SLURM_NTASKS $SLURM_LOCALID $RANK/$WORLD_SIZE"
        " $LOCAL_RANK $CUDA_VISIBLE_DEVICES'\n"
    )
    found = script_of(body, "-N2 -n6 --gres=gpu:2", shebang=shebang)
    ran = run(found, tmp_path, node=1, nodes=2)
    assert sorted(ran.stdout.splitlines()) == [f"{3 + i}/6 {i} {3 + i}/6 {i} 4,5" for i in range(3)]
    assert ran.returncode == 0


def test_srun_ends_as_its_worst_task(tmp_path: Path) -> None:
    """The highest exit code of all tasks is srun's, and `set -e` ends the script with it."""
    body = "set -e\nsrun sh -c 'exit $((SLURM_PROCID * 2))'\necho never\n"
    ran = run(script_of(body, "--ntasks=3"), tmp_path)
    assert (ran.stdout, ran.returncode) == ("", 4)
    assert run(script_of("srun sh -c 'exit 9'\n"), tmp_path).returncode == 9


def test_steps_of_another_shape_are_refused_when_they_come(tmp_path: Path) -> None:
    """An option that would change what srun starts ends it; nothing else is started instead."""
    ran = run(script_of("srun -n 1 echo wrong\n", "--ntasks=2"), tmp_path)
    assert (ran.stdout, ran.returncode) == ("", 64)
    assert "srun: -n: a step of another shape" in ran.stderr
    ran = run(script_of("scontrol requeue 5\n"), tmp_path)
    assert (ran.returncode, "only 'show hostnames'" in ran.stderr) == (64, True)


def test_the_first_host_is_found_as_scripts_do(tmp_path: Path) -> None:
    """`scontrol show hostnames` lists the hosts, one a line, also in shells that are started."""
    body = "bash -c 'scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1'\n"
    assert run(script_of(body), tmp_path).stdout == "10.0.0.1\n"


def test_a_script_begins_where_it_says(tmp_path: Path) -> None:
    """The directory that --chdir names, or an error that names it."""
    (tmp_path / "src").mkdir()
    ran = run(script_of("pwd\n", "--chdir=src"), tmp_path)
    assert ran.stdout == f"{tmp_path.resolve()}/src\n"
    ran = run(script_of("pwd\n", "--chdir=nowhere"), tmp_path)
    assert (ran.stdout, ran.returncode != 0) == ("", True)
    assert "nowhere" in ran.stderr


def test_a_python_script_has_the_variables_too(tmp_path: Path) -> None:
    """A script in Python is run by the Python that it names."""
    body = "import os, sys\nprint(os.environ['SLURM_PROCID'], sys.argv[1:])\n"
    ran = run(script_of(body, shebang="#!/usr/bin/env python3"), tmp_path)
    assert ran.stdout == "0 ['x y', 'z']\n"


def test_a_script_is_told_the_step_of_its_indices() -> None:
    """The distance of each index from the next where that is one, as Slurm counts it."""
    steps = {"0-8:4": "4", "1,3,5": "2", "0-3": "1", "7": "1", "0-2,9": "1"}
    for written, step in steps.items():
        assert job_of(f"--array={written}").env["SLURM_ARRAY_TASK_STEP"] == step


def test_a_variable_that_nobody_sets_is_noted() -> None:
    """It is noted once, at its first use, unless the script sets it or has a default."""
    body = (
        "SLURM_TMPDIR=/tmp; cd $SLURM_TMPDIR\n"
        "# $SLURM_JOB_QOS\n"
        "echo $SLURM_JOB_ID ${SLURM_LOCALID} ${SLURM_MEM_PER_NODE:-0} $SLURM_ARRAY_TASK_ID\n"
        "echo $SLURMD_NODENAME ${SLURM_JOB_CPUS_PER_NODE%%(*}\n"
        "echo $SLURMD_NODENAME $HERE\n"
    )
    found = imported("--export=HERE", body=body).notes
    assert found == (
        "line 6: $SLURMD_NODENAME is set by Slurm alone and empty here;"
        " --env=SLURMD_NODENAME=TEXT sets it",
        "line 6: $SLURM_JOB_CPUS_PER_NODE is set by Slurm alone and empty here;"
        " --env=SLURM_JOB_CPUS_PER_NODE=TEXT sets it",
    )


PREPARES = """\
module load cuda
export A=1 B=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
# python before.py
echo "$A" && mkdir -p out
srun --label \\
    python train.py
"""


@pytest.mark.parametrize("lines", [("-N 2",), ("-n 4 --ntasks-per-node=2",)])
def test_what_a_script_for_several_nodes_runs_itself_is_noted(lines: tuple[str, ...]) -> None:
    """Slurm runs it on the first node alone; what prepares the shell and steps are alike here."""
    assert imported(*lines, body=PREPARES).notes == ()
    (note,) = imported(*lines, body=f"{PREPARES}OUT=x python3.11 merge.py\n").notes
    assert note.startswith("line 9: python3.11 runs on each of the 2 nodes, not only on the first")
    assert imported(body="python merge.py\n").notes == ()
    (note,) = imported(*lines, shebang="#!/usr/bin/env python3", body="import os\n").notes
    assert note.startswith("line 1: the script runs on each of the 2 nodes")


def test_files_are_told_apart(tmp_path: Path) -> None:
    """By their names; a shell script without options is told how it runs."""
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\n#SBATCH -n2\ntrue\n")
    found = files.read(script, code=LocalDir("."), arguments=["a"])
    assert found.launch.code == LocalDir(".")
    assert found.launch.jobs[0].processes[0].command[-1] == "a"
    script.write_text("#!/bin/sh\ntrue\n")
    with pytest.raises(SpecError, match=r"job\.sh: has no #SBATCH line"):
        files.read(script)
    with pytest.raises(SpecError, match="no file"):
        files.read(tmp_path / "none.sbatch")
    script.write_bytes(b"\xff")
    with pytest.raises(SpecError, match="cannot be read as text"):
        files.read(script)


def test_a_script_without_a_name_for_its_job_names_it_by_its_stem() -> None:
    """The suffix of a file says nothing of a job; SLURM_JOB_NAME has it, as Slurm sets it."""
    launch = imported().launch
    (job,) = launch.jobs
    assert (launch.name, job.name, job.env["SLURM_JOB_NAME"]) == ("job", "job", "job.sbatch")
