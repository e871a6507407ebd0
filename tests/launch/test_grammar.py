"""The grammar of the command line, and messages about errors in it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from bastion.provider.build import build_digest
from bastion.records.requests.launch_request import LaunchRequest
from bastion.version import VERSION
from launch.commands.enter.ssh import ports
from launch.errors import UsageError
from launch.grammar.foreign_words import DESTRUCTIVE, FLAGS, NOT_YET
from launch.grammar.foreign_words import VERBS as THEIRS
from launch.grammar.parser import normal, split_command
from launch.grammar.vocabulary import ALIASES, FAMILIES, SEVERAL_VERBS
from launch.handbook import find_page
from launch.submission.command import is_quoted
from launch.submission.flags import name_from
from launch.verbs import build
from tests.launch.bucket import Bucket
from tests.launch.command_line import Run

VERBS = [verb for family in FAMILIES.values() for verb in family]

PLAIN = str(Path(__file__).with_name("__init__.py"))
"""A script that submits nothing."""


@pytest.mark.parametrize("written", ["0:6006", "6006:0", "65536", "1:2:3", "", "9" * 5000])
def test_a_port_that_nothing_listens_on_is_refused(written: str) -> None:
    """Both ends of a tunnel are real ports."""
    with pytest.raises(UsageError, match=r"^--forward: '.*' is not a port"):
        ports(written)
    assert (ports("6006"), ports("6006:1")) == ((6006, 6006), (6006, 1))


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example(verb: str, run: Run) -> None:
    """`--help` describes the verb and shows a line to copy."""
    ran = run(verb, "--help")
    assert ran.code == 0
    assert f"usage: bastion {verb}" in ran.out
    assert f"example:\n  {'bastion' if verb != 'completion' else 'eval'} " in ran.out.replace(
        '"$(', ""
    )


def test_the_help_of_launch_begins_with_its_common_flags(run: Run) -> None:
    """Flags about code are among the first; those of all verbs come last."""
    lines = run("launch", "--help").out.splitlines()
    heads = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert heads[1:4] == ["positional arguments:", "options:", "common:"]
    assert heads[-3:] == ["which bastion:", "output:", "general:"]
    (code,) = (n for n, line in enumerate(lines) if line.startswith("  --code FOLDER"))
    assert "upload this folder and run in it" in lines[code]


def test_the_first_page_fits_a_narrow_terminal(run: Run) -> None:
    """Nothing is broken at 80 columns."""
    assert max(map(len, run("--help").out.splitlines())) <= 80


def test_the_first_page_names_every_verb(run: Run) -> None:
    """Nothing is hidden, and families keep it readable."""
    ran = run("--help")
    assert ran.code == 0
    assert all(f"\n  {verb} " in ran.out or f"\n    {verb} " in ran.out for verb in VERBS)
    _, verbs = build()
    assert set(verbs.parsers) == set(VERBS)
    assert set(ALIASES.values()) <= set(VERBS)


@pytest.mark.parametrize("word", SEVERAL_VERBS)
def test_a_verb_is_built_without_the_others(word: str) -> None:
    """The part of the grammar for one command equals that of the whole."""
    verb = ALIASES.get(word, word)
    _, alone = build(word)
    _, whole = build()
    assert alone.parsers[verb].format_help() == whole.parsers[verb].format_help()
    assert len(alone.parsers) <= 5 or verb in ("completion", "help")


def test_no_words_at_all_print_help_and_are_a_mistake(run: Run) -> None:
    """`bastion` alone prints help, with the exit code of usage errors."""
    ran = run()
    assert ran.code == 2
    assert "usage: bastion VERB" in ran.out


def test_the_version_is_one_line(run: Run) -> None:
    """It can be pasted into reports."""
    ran = run("--version")
    assert (ran.code, ran.out) == (0, f"bastion {VERSION}, build {build_digest()[:12]}\n")


def test_what_others_call_a_verb_is_none_of_ours_and_means_one() -> None:
    """Otherwise a valid verb would be refused, or the answer would name an unknown one."""
    ours = {command.split()[0] for command in THEIRS.values()}
    assert ours - {"--version"} <= set(SEVERAL_VERBS)
    assert set(DESTRUCTIVE) <= set(VERBS)
    assert {*THEIRS, *NOT_YET}.isdisjoint(SEVERAL_VERBS)
    assert set(THEIRS).isdisjoint(NOT_YET)


def test_what_others_call_a_flag_is_none_of_ours_and_means_one() -> None:
    """A flag named in an answer is one of launch, list, logs or quota."""
    _, verbs = build()
    for verb in ("launch", "list"):
        own = {flag for each in verbs.parsers[verb]._actions for flag in each.option_strings}
        assert own.isdisjoint(FLAGS) or verb == "list"
    parsers = (verbs.parsers[verb] for verb in ("launch", "list", "logs", "quota"))
    ours = {f for parser in parsers for each in parser._actions for f in each.option_strings}
    for answer in FLAGS.values():
        named = {word.split("=")[0].rstrip(",;:") for word in answer.split() if word[:2] == "--"}
        assert named - {"--"} <= ours | {"--flagfile"}, answer


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["resume", "x"], "bastion release x"),
        (["restart", "train"], "bastion rerun train"),
        (["tail", "train"], "bastion logs -f train"),
        (["port", "train", "6006"], "bastion ssh train --forward=6006"),
        (["diff", "one", "two"], "bastion show one two"),
        (["compare", "one", "two"], "bastion show one two"),
        (["sbatch", "job.sbatch"], "bastion launch job.sbatch"),
        (["submit", "python3", "train.py"], "bastion launch -- python3 train.py"),
        (["sacct"], "bastion history"),
        (["dashboard"], "bastion web --open"),
        (["cost"], "bastion usage"),
        (["LIST"], "bastion list"),
        (["cancle", "x"], "bastion --help"),
        (["scontrol", "show", "job", "train"], "bastion show train"),
        (["scontrol", "hold", "train"], "bastion hold train"),
        (["scontrol", "show", "reservation"], "bastion quota show"),
        (["scontrol", "create", "reservation", "duration=60"], "bastion help write-a-quota-file"),
        (["qstat"], "bastion list"),
        (["groups"], "bastion quota show"),
        (["backup"], "bastion help recover-a-bucket"),
        (["port-forward", "train"], "bastion ssh train --forward=PORT"),
        (["tunnel", "train", "6006"], "bastion ssh train --forward=6006"),
        (["kubectl", "port-forward", "-n", "team", "pod/train", "8080:80"],
         "bastion ssh train --forward=80:8080"),
        (["kubectl", "get", "pods"], "bastion list"),
        (["kubectl", "delete", "pod", "train"], "bastion cancel train"),
        (["sky", "stop", "train"], "bastion cancel train"),
        (["kubectl", "get", "nodes"], "bastion machines"),
        (["kubectl", "describe", "pod", "train"], "bastion show train"),
        (["sky", "down", "train"], "bastion cancel train"),
        (["gcp", "bastion", "create", "--name=x"], "bastion create --name=x"),
        (["sky", "launch", "task.yaml"],
         "bastion launch --code=. -- COMMAND; more: bastion help come-from-another-system"),
        (["launch", "--down", "--", "x"],
         "omit it: a pool deletes machines that stay idle"),
        (["launch", "-f", "job.yaml"],
         "omit it: give the file alone, bastion launch FILE"),
        (["launch", "--comment=a b"], "bastion launch --help"),
        (["launch", "--requirements=r.txt", "--", "x"],
         "use --python_env=requirements.txt --code=."),
        (["launch", "--timeout=1h", "--", "x"], "use --max_runtime=TIME"),
        (["launch", "--detach", "--", "x"], "omit it: launch never waits"),
    ],
)  # fmt: skip
def test_another_systems_word_is_answered_with_ours(words: list[str], hint: str, run: Run) -> None:
    """The answer can be pasted; no misspelling is answered with a destructive verb."""
    ran = run(*words)
    assert ran.code == 2
    assert ran.err.splitlines()[1] == f"hint: {hint}"


@pytest.mark.parametrize(
    ("typed", "ours"),
    [
        ("kubectl logs x -c main", "logs x"),
        ("kubectl logs x -n team --previous --tail=20", "logs x --project_id team --tail=20"),
        ("kubectl exec -it x -c main -- bash", "exec x -- bash"),
        ("kubectl exec -n team x -- ls", "exec x --project_id team -- ls"),
        ("kubectl get pods -A -w", "list --watch"),
        ("kubectl get job x -o yaml", "show x -o json"),
        ("kubectl describe pod x -n team", "show x --project_id team"),
        ("kubectl delete job x --force", "cancel x"),
        ("kubectl delete pods --all", "cancel --mine"),
        ("kubectl cp x:/out ./out", "fetch x ./out"),
        ("kubectl drain m-1 --ignore-daemonsets", "drain m-1"),
        ("kubectl wait --for=condition=complete job/x", "wait x"),
        (
            "kubectl run x --image=python:3.11 -- python3 a.py",
            "launch --name x --bundler_type=image --bundler_spec=ref=python:3.11 -- python3 a.py",
        ),
        ("ray job submit --working-dir . -- python3 a.py", "launch --code . -- python3 a.py"),
        (
            "ray job submit --no-wait --address http://h:1 --entrypoint-num-gpus 2 -- a",
            "launch --gpus 2 -- a",
        ),
        ("ray job logs x --follow", "logs x -f"),
        ("ray submit --start c.yaml a.py --lr 3", "launch --code=. -- python3 a.py --lr 3"),
        ("sky launch -d --use-spot --num-nodes 2 -- a b", "launch --num_nodes 2 -- a b"),
        ("sky jobs launch -n x --env A=1 -- a", "launch --name x --env A=1 -- a"),
        ("sky exec main --gpus H100:1 -- a", "exec main -- a"),
        ("sky logs main --no-follow", "logs main"),
        ("sky down -a -y", "cancel --mine"),
        ("sky logs --sync-down main 1", "logs main --download=."),
        ("sky jobs cancel -n train", "cancel train"),
        ("sky jobs queue --skip-finished", "list"),
        ("sky local up", "up"),
        ("sky launch --cpus 4+ --memory=16 -- a", "launch --cpus 4 --memory=16GiB -- a"),
        ("sacct -X --state=FAILED", "history --state=failed"),
        ("dstack stop x -y", "cancel x"),
        (
            "xpk workload create --workload=x --tpu-type=v4-32 --command='python3 a.py'",
            "launch --name=x --instance_type=v4-32 -- python3 a.py",
        ),
        ("xpk workload list --cluster=c", "list"),
        ("xpk workload delete --workload=x --cluster=c", "cancel x"),
        ("axlearn gcp launch run --instance_type=v4-32 -- a", "launch --instance_type=v4-32 -- a"),
        ("axlearn gcp launch stop --name=x", "cancel x"),
    ],
)
def test_a_command_of_another_program_keeps_its_meaning(typed: str, ours: str, run: Run) -> None:
    """Each flag becomes ours or is left out; the suggested command parses."""
    ran = run(*shlex.split(typed))
    hint = ran.err.splitlines()[1].removeprefix("hint: bastion ")
    assert hint == ours
    words, _ = split_command(shlex.split(hint))
    parsed, unknown = build()[0].parse_known_args(normal(words))
    assert (parsed.verb_name, unknown) == (hint.split()[0], [])


@pytest.mark.parametrize("flag", ["--gpus=two", "-G=two", "--accelerators=two"])
def test_a_flag_with_many_names_is_told_under_the_one_that_was_typed(flag: str, run: Run) -> None:
    """The message does not list all of them."""
    ran = run("launch", flag, "--", "true")
    name = flag.partition("=")[0]
    assert (
        ran.err.splitlines()[0] == f"error: {name}: 'two' is not N or TYPE:N, such as 2 or h100:2"
    )


@pytest.mark.parametrize("flags", ["--json -q", "-o json -q", "-o wide --json", "-o name --json"])
def test_two_formats_are_refused(flags: str, run: Run, bucket: Bucket) -> None:
    """A program that asks for JSON gets it, or an error; the same value twice is fine."""
    ran = run("list", *flags.split())
    assert (ran.code, ran.out) == (2, "")
    assert "are different output formats; give only one" in ran.err
    assert run("list", "-o", "json", "--json").out.startswith("{")
    assert run("list", "-o", "name", "-q").code == 0


@pytest.mark.parametrize("flags", ["--gpus=8 -N 2", "-N2 -G h100:8", "--nodes=2 --gpus 8"])
def test_devices_of_all_nodes_together_are_refused(flags: str, run: Run, bucket: Bucket) -> None:
    """Otherwise sixteen would be requested where Slurm gives eight."""
    ran = run("launch", "--dry_run", *flags.split(), "--", "true")
    assert ran.code == 2
    assert "Slurm counts the devices of all nodes together" in ran.err
    assert "hint: give the devices of each node: --gpus_per_node=N" in ran.err
    same = ("-N1 --gpus=8", "--num_nodes=2 --gpus=8", "-N2 --gpus-per-node=8", "-N2 --gres=gpu:8")
    for meant in same:
        ran = run("launch", "--dry_run", "--json", *meant.split(), "--", "true")
        (job,) = json.loads(ran.out)["launch"]["jobs"]
        assert job["processes"][0]["resources"] == {"h100": 8}


@pytest.mark.parametrize(
    ("flags", "field", "value"),
    [
        ("--gpus 2", "resources", {"h100": 2}),
        ("--gpus=H100:2 --cpus=8", "resources", {"h100": 2, "cpu": 8}),
        ("--gres=gpu:h100:2 --mem=64G", "resources", {"h100": 2, "memory": 64 << 30}),
        ("--resources=H100:2,mem=2g", "resources", {"h100": 2, "memory": 2 << 30}),
        ("--accelerators=h100:8", "resources", {"h100": 8}),
        ("--gpus H100 --cpus 4+", "resources", {"h100": 1, "cpu": 4}),
        ("--memory 16+", "resources", {"memory": 16 << 30}),
        ("--memory=512MiB", "resources", {"memory": 512 << 20}),
        ("--mem=16", "resources", {"memory": 16 << 20}),
        ("--num-gpus 2", "resources", {"h100": 2}),
        ("-N 2", "replicas", 2),
        ("--num-nodes=2", "replicas", 2),
        ("--nnodes 2:8", "replicas", "2-8"),
        ("--replicas 2-8", "replicas", "2-8"),
        ("--time 1:00:00", "max_runtime", 3600.0),
        ("--time=10", "max_runtime", 600.0),
        ("--max_runtime=2-12", "max_runtime", 216000.0),
        ("-J nightly", "name", "nightly"),
    ],
)
def test_a_foreign_flag_that_can_mean_one_thing_is_understood(
    flags: str, field: str, value: object, run: Run, bucket: Bucket
) -> None:
    """Slurm's and sky's flags work like our own."""
    ran = run("launch", "--dry_run", "--json", *flags.split(), "--", "true")
    assert ran.code == 0, ran.err
    (job,) = json.loads(ran.out)["launch"]["jobs"]
    assert (job["processes"][0] if field == "resources" else job)[field] == value


def test_a_wrapped_command_is_one_of_the_shell(run: Run, bucket: Bucket) -> None:
    """This works like `sbatch --wrap`; a second command beside it is refused."""
    ran = run("launch", "--dry_run", "--json", "--wrap=echo $HOME && ls")
    assert ran.code == 0, ran.err
    (job,) = json.loads(ran.out)["launch"]["jobs"]
    assert job["processes"][0]["command"] == ["sh", "-c", "echo $HOME && ls"]
    ran = run("launch", "--wrap=ls", "--", "true")
    assert ran.err.splitlines() == [
        "error: --wrap cannot be combined with the command after --; give only one"
    ]


@pytest.mark.parametrize(
    ("written", "error", "hint"),
    [
        ("memory=4", "resources.memory: 4 bytes are too few for any process; did you mean 4GiB?",
         ""),
        ("accelerator=1", "resources.accelerator: no resource type 'accelerator' here",
         "this bastion has cpu, h100, memory, v4"),
        ("h10=1", "resources.h10: no resource type 'h10' here",
         "did you mean h100? this bastion has cpu, h100, memory, v4"),
        ("h100=1,H100=2", "--resources: h100 is given twice, 1 and 2", ""),
    ],
)  # fmt: skip
def test_resources_that_cannot_be_meant_are_refused(
    written: str, error: str, hint: str, run: Run, bucket: Bucket
) -> None:
    """The error lists only types that this bastion has."""
    ran = run("launch", f"--resources={written}", "--", "true")
    assert ran.code == 2
    assert ran.err.splitlines() == [f"error: {error}", *([f"hint: {hint}"] if hint else [])]


def test_help_is_a_verb_too(run: Run) -> None:
    """As in git and kubectl, it prints the same text as the flag."""
    assert run("help").out == run("--help").out
    assert run("help", "launch").out == run("launch", "--help").out
    assert run("help", "ls").out == run("list", "--help").out
    assert run("help", "sbatch").err.splitlines()[1] == "hint: bastion launch FILE.sbatch"


def test_help_prints_a_page_by_name(run: Run) -> None:
    """This can be an error, a reason or a guide in any case; an unknown name gets the nearest."""
    assert run("help", "fragmented").out.startswith("# Fragmented\n")
    assert run("help", "Stop_and_resume").out.startswith("# ")
    assert "InDoubtError" in run("help", "pages").out.splitlines()
    assert "[Fragmented](Fragmented.md)" in run("help", "reasons").out
    assert "[InDoubtError](InDoubtError.md)" in run("help", "errors").out
    assert run("help", "quota", "show").out == run("quota", "--help").out
    unknown = run("help", "nonsense")
    assert (unknown.code, unknown.err.splitlines()) == (
        2,
        [
            "error: no verb or page is named 'nonsense'",
            "hint: bastion --help lists all verbs; bastion help pages lists all pages",
        ],
    )
    refused = run("help", "Fragmentd")
    assert refused.code == 2
    assert refused.err.splitlines()[1] == "hint: did you mean: bastion help Fragmented"


def test_the_usage_of_a_verb_says_what_it_takes(run: Run) -> None:
    """It shows a command if there is one, and no argument that is always refused."""
    usages = {verb: run(verb, "--help").out.splitlines()[0] for verb in VERBS}
    for verb in ("launch", "run"):
        assert usages[verb] == f"usage: bastion {verb} [FILE...] [flags] [-- COMMAND...]"
    assert usages["exec"] == "usage: bastion exec JOB[/REPLICA] [flags] [-- COMMAND...]"
    assert usages["notebook"] == "usage: bastion notebook [flags]"
    assert usages["start"] == "usage: bastion start [flags]"
    assert usages["completion"] == "usage: bastion completion SHELL [flags]"


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb_names_a_page(verb: str, run: Run) -> None:
    """The page exists."""
    named = run(verb, "--help").out.splitlines()[-1].removeprefix("more: bastion help ")
    assert find_page(named)


@pytest.mark.parametrize(
    ("words", "error", "hint"),
    [
        (["lst"], "unknown verb 'lst'", "did you mean bastion list?"),
        (["squeue"], "unknown verb 'squeue'", "bastion list"),
        (["submti"], "unknown verb 'submti'", "did you mean bastion launch -- COMMAND?"),
        (
            ["submit", "train.py", "8"],
            "unknown verb 'submit'",
            "bastion launch --code=. -- python3 train.py 8",
        ),
        (
            ["gcp", "launch", "--instance_type=tpu-v4-32", "--", "a b"],
            "unknown verb 'gcp'",
            "bastion launch --instance_type=tpu-v4-32 -- 'a b'",
        ),
        (["gcp", "launch", "--gpus=1", "--", "python3", "-c", "'import jax'"],
         "unknown verb 'gcp'", "bastion launch --gpus=1 -- python3 -c \"'import jax'\""),
        (["gcp", "launch", "--help"], "unknown verb 'gcp'", "bastion launch --help"),
        (["gcp", "bastion", "--help"], "unknown verb 'gcp'", "bastion create --help"),
        (["sky", "--help"], "unknown verb 'sky'", "bastion --help"),
        (["simulate", "--jobs-per-hour", "1"], "unknown flag --jobs_per_hour",
         "use --load=N"),
        (["config", "activate"], "config activate: no profile given",
         "to see them: bastion config list"),
        (["sky", "launch", "train.py"], "unknown verb 'sky'",
         "bastion launch --code=. -- python3 train.py"),
        (["sky", "launch", "--gpus", "H100:1", "train.py", "8"], "unknown verb 'sky'",
         "bastion launch --gpus H100:1 --code=. -- python3 train.py 8"),
        (["sbatch", "--wrap=echo hello"], "unknown verb 'sbatch'",
         "bastion launch '--wrap=echo hello'"),
        (["sky", "launch", "-y", "-c", "main", "train.py"], "unknown verb 'sky'",
         "bastion launch --name main --code=. -- python3 train.py"),
        (["sky", "down"], "unknown verb 'sky'", "bastion --help"),
        (["flambe", "a.yaml", "--cluster", "c.yaml"], "unknown verb 'flambe'",
         "bastion launch --code=. -- flambe a.yaml; it runs on machines of a pool"),
        (["ray", "submit", "cluster.yaml", "train.py"], "unknown verb 'ray'",
         "bastion launch --code=. -- python3 train.py"),
        (["ray", "job", "logs", "x"], "unknown verb 'ray'", "bastion logs x"),
        (["kubectl", "exec", "-it", "pod/x", "--", "bash"], "unknown verb 'kubectl'",
         "bastion exec x -- bash"),
        (["sky", "exec", "x", "nvidia-smi", "-L"], "unknown verb 'sky'",
         "bastion exec x -- nvidia-smi -L"),
        (["kubectl", "logs", "-f", "job/x"], "unknown verb 'kubectl'", "bastion logs x -f"),
        (["ray", "up", "cluster.yaml"], "unknown verb 'ray'", "bastion up"),
        (["srun", "-N", "2", "--gres=gpu:8", "python3", "a b"], "unknown verb 'srun'",
         "bastion run -N 2 --gres=gpu:8 -- python3 'a b'"),
        (["srun", "-l", "hostname"], "unknown verb 'srun'", "bastion run -- hostname"),
        (["srun", "--pty", "bash"], "unknown verb 'srun'", "bastion exec JOB -- bash"),
        (["sbatch", "--array=0-3", "train.sh"], "unknown verb 'sbatch'",
         "bastion launch --array=0-3 train.sh"),
        (["squeue", "-u", "ada"], "unknown verb 'squeue'", "bastion list --user_id=ada"),
        (["squeue", "--me"], "unknown verb 'squeue'", "bastion list --mine"),
        (["squeue", "--jobs=4,5"], "unknown verb 'squeue'", "bastion show 4 5"),
        (["squeue", "-t", "PD"], "unknown verb 'squeue'", "bastion list --state=queued"),
        (["squeue", "-u", "ada", "-t", "PD"], "unknown verb 'squeue'",
         "bastion list --user_id=ada --state=queued"),
        (["sacct", "-u", "ada", "--state=F,CD"], "unknown verb 'sacct'",
         "bastion history --user_id=ada --state=failed,succeeded"),
        (["squeue", "-u", "ada", "-j", "12"], "unknown verb 'squeue'",
         "bastion list --user_id=ada"),
        (["axlearn", "gcp", "launch", "--help"], "unknown verb 'axlearn'",
         "bastion launch --help"),
        (["axlearn", "gcp", "bastion", "--help"], "unknown verb 'axlearn'",
         "bastion create --help"),
        (["launch", "--env-file", ".env", "--", "x"], "unknown flag --env_file",
         "use --flagfile=FILE, a file with one --env=NAME=TEXT per line"),
        (["launch", "--image-id", "docker:python", "--", "x"], "unknown flag --image_id",
         "use --bundler_type=image --bundler_spec=ref=NAME"),
        (["launch", "-d", "--gpus=1", "--", "x"], "-d needs a value",
         "omit SkyPilot's -d, as launch never waits; Slurm's is -d afterok:JOB"),
        (["squeue", "-t", "PD,R"], "unknown verb 'squeue'", "bastion list --state=queued,running"),
        (["list", "--state=PD,X"], "--state: 'x' is unknown", "bastion list --help"),
        (["list", "--state=,"], "--state: ',' is unknown", "bastion list --help"),
        (["launch", "--h100", "2", "--", "x"], "unknown flag --h100",
         "to ask for a type of device: --resources=h100=2"),
        (["launch", "-d", "afterok:1,after:2", "--", "x"],
         "-d: 'after:2' is not afterok:JOB, afterany:JOB or afternotok:JOB; or use"
         " --after=JOB", "bastion launch --help"),
        (["launch", "--volumes", "data:/data", "--", "x"], "unknown flag --volumes",
         "omit it: nothing is mounted; a job reads buckets itself, or files of its machine"),
        (["sky", "storage", "ls"], "unknown verb 'sky'",
         "Bastion has no such verb; instead: a job reads buckets itself, and bastion fetch JOB"
         " downloads what it kept in BASTION_OUTPUT_DIR"),
        (["config", "set", "private_bucket=gs://b"], "config set: private_bucket: unknown key",
         "one bucket holds jobs, logs and quotas: bastion config set root=gs://b"),
        (["scancel", "-u", "ada"], "unknown verb 'scancel'", "bastion cancel --mine"),
        (["scancel", "--name=train"], "unknown verb 'scancel'", "bastion cancel train"),
        (["scancel", "12_3", "13_[0-2]"], "unknown verb 'scancel'", "bastion cancel 12.3 13.0-2"),
        (["squeue", "-j", "12_3,13_[1,2]"], "unknown verb 'squeue'", "bastion show 12.3 13.1,2"),
        (["scontrol", "update", "NodeName=m-1", "State=DRAIN"], "unknown verb 'scontrol'",
         "bastion drain m-1"),
        (["scontrol", "update", "NodeName=m-1", "State=resume"], "unknown verb 'scontrol'",
         "bastion uncordon m-1"),
        (["scontrol", "update", "NodeName=m-1", "Weight=3"], "unknown verb 'scontrol'",
         "bastion machines"),
        (["undrain", "m-1"], "unknown verb 'undrain'", "bastion uncordon m-1"),
        (["secret", "set", "A=1"], "unknown verb 'secret'", "bastion help secrets"),
        (["launch", "-e", "A=1", "--", "x"], "unknown flag -e",
         "use --env=NAME=TEXT; for an error file, omit it: bastion logs JOB includes stderr"),
        (["exec", "x", "nvidia-smi", "-L"], "unknown argument nvidia-smi",
         "give a command after --: bastion exec JOB -- nvidia-smi -L"),
        (["rerun", "x", "--", "train", "a b"],
         "bastion rerun takes nothing after --, but train 'a b' was given",
         "a rerun keeps its command; for another one: bastion launch -- train 'a b'"),
        (["cancel", "--", "x"], "bastion cancel takes nothing after --, but x was given",
         "bastion cancel --help"),
        (["sinfo", "-N", "-l"], "unknown verb 'sinfo'", "bastion machines"),
        (["sacct", "-j", "33", "--format=State"], "unknown verb 'sacct'", "bastion show 33"),
        (["sacct", "--starttime=2026-11-01"], "unknown verb 'sacct'",
         "bastion history --since=2026-11-01"),
        (["srun", "--gres=gpu:1", "--pty", "bash"], "unknown verb 'srun'",
         "bastion launch --name=shell --gres=gpu:1 --max_runtime=8h -- sleep infinity"
         " && bastion exec shell -- bash"),
        (["scontrol", "show", "nodes"], "unknown verb 'scontrol'", "bastion machines"),
        (["scontrol", "update", "JobId=3", "TimeLimit=1:00:00"], "unknown verb 'scontrol'",
         "bastion update 3 --max_runtime=1:00:00"),
        (["sattach", "3"], "unknown verb 'sattach'", "bastion logs -f 3"),
        (["sky", "jobs", "cancel", "3"], "unknown verb 'sky'", "bastion cancel 3"),
        (["sky", "jobs", "launch", "task.yaml"], "unknown verb 'sky'",
         "bastion launch --code=. -- COMMAND; more: bastion help come-from-another-system"),
        (["sky", "logs", "main", "1"], "unknown verb 'sky'", "bastion logs main"),
        (["sky", "exec", "main", "task.yaml"], "unknown verb 'sky'",
         "bastion launch --code=. -- COMMAND; more: bastion help come-from-another-system"),
        (["down", "main"], "unknown argument main", "for one job: bastion cancel main"),
        (["launch", "-c", "main", "--", "true"],
         "-c: 'main' is not a whole number of CPUs; to name a job:"
         " --name=NAME", ""),
        (["quota"], "ACTION is missing; it is show, check, diff, apply or edit",
         "bastion quota --help"),
        (["salloc", "-N", "1"], "unknown verb 'salloc'",
         "bastion launch --name=shell -N 1 --max_runtime=8h -- sleep infinity"
         " && bastion exec shell -- bash"),
        (["salloc", "-p", "own", "-t", "60", "bash"], "unknown verb 'salloc'",
         "bastion launch --name=shell --pool own -t 60 -- sleep infinity"
         " && bastion exec shell -- bash"),
        (["salloc", "-N2", "-J", "lab", "-t", "60"], "unknown verb 'salloc'",
         "bastion launch -N 2 -J lab -t 60 -- sleep infinity && bastion exec lab -- bash"),
        (["sbatch", "--test-only", "job.sh"], "unknown verb 'sbatch'",
         "bastion launch --dry_run job.sh"),
        (["squeue", "--start", "-j", "12"], "unknown verb 'squeue'", "bastion why 12"),
        (["scontrol", "requeuehold", "12"], "unknown verb 'scontrol'", "bastion rerun 12"),
        (["scontrol", "write", "batch_script", "12"], "unknown verb 'scontrol'",
         "bastion show 12"),
        (["scontrol", "reconfigure"], "unknown verb 'scontrol'",
         "bastion help come-from-another-system"),
        (["sbatch", "-a", "0-9%2", "--parsable", "-o", "x.out", "job.sh", "8"],
         "unknown verb 'sbatch'", "bastion launch --array 0-9%2 -q job.sh 8"),
        (["srun", "-n", "4", "-p", "own", "hostname"], "unknown verb 'srun'",
         "bastion run --replicas 4 --pool own -- hostname"),
        (["sky", "status", "dev"], "unknown verb 'sky'", "bastion show dev"),
        (["sky", "start", "dev"], "unknown verb 'sky'", "bastion rerun dev"),
        (["sky", "jobs", "dashboard"], "unknown verb 'sky'", "bastion web --open"),
        (["srun", "--jobid=12", "--pty", "bash"], "unknown verb 'srun'",
         "bastion exec 12 -- bash"),
        (["scancel", "--signal=USR1", "12_3"], "unknown verb 'scancel'",
         "bastion exec 12.3 -- kill -s USR1 PID"),
        (["scontrol", "top", "12"], "unknown verb 'scontrol'", "bastion update 12 --priority=1"),
        (["scontrol", "ping"], "unknown verb 'scontrol'", "bastion status"),
        (["squeue", "-A", "vision"], "unknown verb 'squeue'", "bastion list --project_id=vision"),
        (["squeue", "-i", "5"], "unknown verb 'squeue'", "bastion list --watch"),
        (["python3", "train.py", "--batch-size", "8"], "unknown verb 'python3'",
         "bastion run --code=. -- python3 train.py --batch-size 8"),
        (["srun", "--job-name=a", "python3", "train.py", "--batch-size=8"], "unknown verb 'srun'",
         "bastion run --job_name=a -- python3 train.py --batch-size=8"),
        (["las_scheduler.py", "--exp-prefix", "test"], "unknown verb 'las_scheduler.py'",
         "bastion launch --code=. -- python3 las_scheduler.py --exp-prefix test"),
        (["launch", "-a", "0-3", "--", "x"], "unknown flag -a",
         "use --array=0-99%10, which runs 10 at a time"),
        (["list", "--me"], "unknown flag --me", "use --mine"),
        (["launch", "--h100=2", "--", "x"], "unknown flag --h100",
         "to ask for a type of device: --resources=h100=2"),
        (["launch", "--h100", "--foo", "--", "x"], "unknown flags --h100, --foo",
         "--h100: to ask for a type of device: --resources=h100=N"),
        (["run", "--A100-80GB", "1", "--", "x"], "unknown flag --A100_80GB",
         "to ask for a type of device: --resources=a100-80gb=1"),
        (["status", "-a"], "unknown flag -a", "bastion status --help"),
        (["list", "-t", "PD"], "unknown flag -t", "use --state=STATE"),
        (["list", "-j", "train"], "unknown flag -j",
         "omit it: for one job, bastion show JOB"),
        (["cancel", "-n", "train"], "unknown flag -n",
         "omit it: give the job alone, bastion cancel JOB"),
        (["launch", "-"], "unknown flag -",
         "give the script as a file, such as bastion launch job.sbatch"),
        (["launch", "--retry-until-up", "--", "x"], "unknown flag --retry_until_up",
         "omit it: a job waits in the queue until it can start"),
        (["simulate", "--gpus=32"], "unknown flag --gpus",
         "use --machines=4x8, four machines of eight"),
        (["bundle", "--name=a", "--bundler_type=artifact_registry"],
         "--bundler_type: 'artifact_registry' is unknown, did you mean 'artifactregistry'?;", ""),
        (["sweep.toml"], "unknown verb 'sweep.toml'", "bastion launch sweep.toml"),
        (["xyzzy"], "unknown verb 'xyzzy'", "bastion --help"),
        (["list", "--stat=x"], "unknown flag --stat", "did you mean --state?"),
        (["list", "--foo"], "unknown flag --foo", "bastion list --help"),
        (["list", "--foo", "--projct=a"], "unknown flags --foo, --projct",
         "--projct: did you mean --project_id?"),
        (["launch", "--instance-typ=a", "--", "x"], "unknown flag --instance_typ",
         "did you mean --instance_type?"),
        (["launch", "--grace-period=9", "--", "x"], "unknown flag --grace_period",
         "did you mean --grace?"),
        (["launch", "--replica-count=9", "--", "x"], "unknown flag --replica_count",
         "did you mean --replicas?"),
        (["launch", "--max=9", "--", "x"], "unknown flag --max",
         "did you mean --max_runtime or --max_failures?"),
        (["launch", "--graceperiod=30s", "--", "x"], "unknown flag --graceperiod",
         "did you mean --grace?"),
        (["launch", "--term_grace=30s", "--", "x"], "unknown flag --term_grace",
         "did you mean --grace?"),
        (["launch", "--retry=3", "--", "x"], "unknown flag --retry", "did you mean --retries?"),
        (["launch", "--max_retry=3", "--", "x"], "unknown flag --max_retry", "use --retries=N"),
        (["launch", "--depends_on=a", "--", "x"], "unknown flag --depends_on", "use --after=JOB"),
        (["logs", "x", "--lines=3"], "unknown flag --lines", "use --tail=N"),
        (["cancel", "--delete_all"], "unknown flag --delete_all", "bastion cancel --help"),
        (["prioritize", "train", "1"],
         "--priority is missing; it is the new priority, 1 (highest) to 5",
         "bastion prioritize train --priority=1"),
        (["prioritize", "train", "high"], "--priority is missing",
         "bastion prioritize trainer --priority=1"),
        (["update", "train", "8h"], "nothing to change: give --priority or --max_runtime",
         "bastion update train --max_runtime=8h"),
        (["launch", "--on=9", "--", "x"], "unknown flag --on", "bastion launch --help"),
        (["launch", "--user_name=a", "--", "x"], "unknown flag --user_name",
         "bastion launch --help"),
        (["launch", "--no-code", "--", "x"], "unknown flag --no_code", "bastion launch --help"),
        (["list", "--all-users"], "unknown flag --all_users",
         "omit it: the list has the jobs of all users"),
        (["quota", "diff", "a", "--detailed-exitcode"], "unknown flag --detailed_exitcode",
         "use --exit_code"),
        (["history", "extra"], "unknown argument extra", "for one job: bastion events extra"),
        (["status", "extra"], "unknown argument extra", "for one job: bastion show extra"),
        (["machines", "extra"], "unknown argument extra", "bastion machines --help"),
        (["why"], "JOB is missing", "bastion list --all shows the jobs; bastion why --help"),
        (["launch", "--priority=high", "--", "x"],
         "--priority: 'high' is not a whole number", "bastion launch --help"),
        (["list", "--output=jsn"], "--output: 'jsn' is unknown, allowed are json, name, table,"
         " wide, nearest is json", "bastion list --help"),
        (["--root=gs://b/r", "list"], "--root must follow the verb", "bastion VERB --root ..."),
        (["launch"], "nothing to run: give a command after --, a launch file (.toml), a script"
         " that submits launches itself (.py)", "bastion launch --help"),
        (["launch", "python3", "train.txt"],
         "'python3 train.txt' is not a .toml file, a .py or .sbatch script",
         "give a command after --: bastion launch -- python3 train.txt"),
        (["launch", "spec.toml", "--", "train", "--lr=0.1"],
         "spec.toml has its own commands, and takes no words after it, but train --lr=0.1 was",
         "change the command in the file, or omit the file: bastion launch -- train --lr=0.1"),
        (["run", "spec.toml", "extra"],
         "spec.toml has its own commands, and takes no words after it, but extra was",
         "change the command in the file, or omit the file: bastion run -- extra"),
        (["exec", "train", "ls -la"], "unknown argument ls -la",
         "give a command after --: bastion exec JOB -- ls -la"),
        (["launch", "spec.toml", "--replicas=2", "--pool=a"],
         "--replicas, --pool: spec.toml sets this", "change the file instead"),
        (["launch", "python3 train.py"],
         "no file 'python3 train.py'",
         "give a command after --: bastion launch -- python3 train.py"),
        (["launch", "--priority=1", __file__],
         f"--priority: {__file__} submits its launches itself",
         f"to run it as a job: bastion launch --code=. -- python3 {__file__}"),
        (["launch", "--", "python3 train.py"],
         "there is no program named 'python3 train.py'",
         "omit the quotes, or add --shell to run a shell line"),
        (["launch", "--", "LR=0.1", "python3", "a.py"], "there is no program named 'LR=0.1'",
         "to set a variable: --env=LR=0.1"),
        (["launch", "--", "cd", "src"], "there is no program named 'cd'",
         "to run a shell line: --shell -- 'cd ... && ...'"),
        (["launch", "--resources=h100", "--", "x"],
         "--resources: 'h100' is not TYPE=N, as in h100=2,cpu=4", ""),
        (["launch", "--sweep=lr=", "--", "x"], "sweep.grid.lr: has no values", ""),
        (["list", "--state=runing"], "--state: 'runing' is unknown", "bastion list --help"),
        (["launch", "--env=A", "--", "x"], "--env: 'A' is not NAME=TEXT", ""),
        (["logs", "a", "--attempt=first"], "--attempt: 'first' is not an attempt", ""),
        (["quota", "diff"], "quota diff: no file given", "bastion quota diff new.toml"),
        (["launch", "--gpus"], "--gpus needs a value", "bastion launch --help"),
        (["agent"], "agent: no flags given; they follow --",
         "pools start it automatically; for its flags: bastion agent -- --help"),
        (["agent", "--", "edn", "--home=x"],
         "agent: 'edn' is unknown; must be end, or a flag of the agent",
         "to end a machine: bastion agent -- end --home=FOLDER;"
         " for flags: bastion agent -- --help"),
        (["notebook", "--port=x"],
         "--port: 'x' is not a port; must be a number such as 8888", ""),
        (["notebook", "--port=8888:9999"],
         "--port: '8888:9999' is not a port; must be a number such as 8888", ""),
        (["notebook", "--array=0-2", "--replicas=2", "--shell"],
         "notebook does not take --array, --replicas, --shell: it runs one Jupyter", ""),
        (["run", "train.py", "8"], "run: train.py: no such file",
         "a command follows --: bastion run -- COMMAND"),
        (["run", PLAIN, "8"], f"run: {PLAIN} is not a job file",
         f"bastion run --code=. -- python3 {PLAIN} 8"),
        (["run"], "nothing to run: give a command after --", "bastion run --help"),
        (["launch", "a.yaml", "--force"], "unknown flag --force",
         "omit it: jobs can have the same name; to end one: bastion cancel JOB"),
        (["launch", "--flagfile=/no/such"], "--flagfile: /no/such: No such file or directory",
         "give a file with one flag per line"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_one_line_and_a_hint(
    words: list[str], error: str, hint: str, run: Run, bucket: object
) -> None:
    """Exit 2, nothing on stdout, what is wrong, and what to do."""
    ran = run(*words)
    if words[0] == "logs":
        ran = run("logs", "train", *words[2:])
    lines = ran.err.splitlines()
    assert ran.code == 2, ran.err
    assert ran.out == ""
    assert lines[0].startswith(f"error: {error}")
    assert not hint or lines[1] == f"hint: {hint}"
    assert len(lines) <= 2


def test_dashes_and_underscores_are_one_in_flags_only() -> None:
    """Flag names are normalized; values, arguments and the command stay as they are."""
    assert normal(["--instance-type=tpu-v4-32", "a-b", "-p", "x"]) == [
        "--instance_type=tpu-v4-32",
        "a-b",
        "-p",
        "x",
    ]


@pytest.mark.parametrize(
    ("words", "ours", "theirs"),
    [
        (["launch", "--", "a", "--", "-x"], ["launch"], ["a", "--", "-x"]),
        (["launch", "a.py", "--size=1", "--", "x"], ["launch", "a.py"], ["--size=1", "--", "x"]),
        (["launch", "--name", "a.py", "--", "x"], ["launch", "--name", "a.py"], ["x"]),
        (["run", "a.py"], ["run", "a.py"], None),
        (["launch", "--", "python3", "a.py"], ["launch"], ["python3", "a.py"]),
        (["list"], ["list"], None),
        (["launch", "--"], ["launch"], []),
    ],
)
def test_the_users_own_words_pass_untouched(
    words: list[str], ours: list[str], theirs: list[str] | None
) -> None:
    """Everything after `--`, or after the script, belongs to the user."""
    assert split_command(words) == (ours, theirs)


@pytest.mark.parametrize(
    ("words", "dest", "values"),
    [
        (["list", "--state=PD,r", "--state=held"], "state", ["queued", "running", "held"]),
        (["history", "--state=F, CD"], "state", ["failed", "succeeded"]),
        (["cancel", "--mine", "--state=PD,R"], "state", ["queued", "running"]),
        (["launch", "--hostname=a,b", "--hostname=c"], "hostname", ["a", "b", "c"]),
        (["launch", "--after=a,b:any"], "after", ["a", "b:any"]),
        (
            ["launch", "--after=a", "-d", "afterok:b:c,afterany:d"],
            "after",
            ["a", "b", "c", "d:any"],
        ),
        (["launch", "--notify_on=ended,failed"], "notify_on", ["ended", "failed"]),
        (["launch", "--env=A=1,B=2"], "env", ["A=1,B=2"]),
        (["launch"], "hostname", []),
    ],
)
def test_a_comma_stands_between_two_values_where_none_can_have_one(
    words: list[str], dest: str, values: list[str]
) -> None:
    """It is like the flag given twice; a variable's value may contain commas."""
    parser, _ = build()
    assert getattr(parser.parse_args(words), dest) == values


def test_flags_may_lie_in_a_file(run: Run, tmp_path: Path) -> None:
    """`--flagfile` is absl's: one flag per line, with comments."""
    flags = tmp_path / "flags"
    flags.write_text("# mine\n--state=failed\n--output=json\n")
    assert '"jobs": []' in run("list", f"--flagfile={flags}").out


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["python3", "train.py", "--lr=1"], "train"),
        (["/usr/bin/python3.11", "-u", "-m", "my.module"], "my"),
        (["torchrun", "--nnodes=2", "train.py"], "train"),
        (["bash", "-c", "echo hi"], "echo"),
        (["sh", "-c", "python3 train.py --lr 1"], "train"),
        (["sh", "-c", "python3 -m"], "python3"),
        (["./run me.sh"], "run"),
        (["python3"], "job"),
        ([" "], "job"),
        (["é"], "job"),
    ],
)
def test_a_job_is_called_after_its_program(command: list[str], name: str) -> None:
    """Without --name, the first informative word of the command names the job."""
    assert name_from(command) == name


def test_quotes_within_quotes_are_noticed() -> None:
    """Other launchers need them; here they would reach the program."""
    assert [word for word in ("python3", "'import jax'", "'", '"a"') if is_quoted(word)] == [
        "'import jax'",
        '"a"',
    ]


def test_inner_quotes_behind_c_are_taken_off(run: Run, bucket: Bucket) -> None:
    """The command in axlearn's documentation runs the program that its author meant."""
    with bucket.bastion() as bastion:
        ran = run("launch", "-q", "--", "python3", "-c", "'import jax; print(jax.devices())'")
    body = bastion.taken[0][1]
    assert isinstance(body, LaunchRequest)
    (made,) = body.launch.jobs
    assert made.processes[0].command[-1] == "import jax; print(jax.devices())"
    assert "is sent without its inner quotes" in ran.err


def test_a_file_that_stays_behind_is_said_before_it_is_missed(
    run: Run, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An argument of the command is a local file, and no code is sent."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print('hi')")
    said = "note: train.py is a local file, but no code is sent; to send it: --code=.\n"
    with bucket.bastion():
        assert run("launch", "-q", "--", "python3", "train.py").err == said
        assert run("launch", "-q", "--code=.", "--", "python3", "train.py").err == ""


def test_a_script_that_the_code_does_not_hold_is_said_before_it_is_missed(
    run: Run, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This covers a mistyped name, and a local path if another folder is sent."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("print('hi')")
    src = tmp_path / "src"
    with bucket.bastion():
        for folder, script, missing in (
            (".", "tran.py", tmp_path),
            ("src", "src/train.py", f"{src}; did you mean train.py?"),
            ("src", "tran.py", f"{src}; did you mean train.py?"),
            ("src", "train.py", None),
        ):
            ran = run("launch", "-q", f"--code={folder}", "--", "python3", script)
            said = f"note: {script} is not in the code to send, {missing}\n"
            assert ran.err == (said if missing else "")
        assert run("launch", "-q", "--code=.", "--", "ls", "-l", "made.sh").err == ""


def test_a_script_that_submits_nothing_is_an_error(
    run: Run, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A training script was meant as the job; the hint has the intended command."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print('hi')")
    ran = run("launch", "train.py", "--lr=1")
    meant = "to run it as a job: bastion launch --code=. -- python3 train.py --lr=1"
    assert (ran.code, ran.out) == (1, "hi\n")
    assert ran.err.splitlines() == [
        f"note: train.py now runs on this machine; {meant}",
        "error: train.py ran on this machine and submitted nothing",
        f"hint: {meant}",
    ]
    (tmp_path / "go.py").write_text(
        "from bastion import Client, Job, Launch, Process\n"
        "Client().launch(Launch(name='a', jobs=[Job(name='b', processes=[Process(['true'])])]))\n"
    )
    with bucket.bastion():
        ran = run("launch", "go.py")
    assert (ran.code, ran.err) == (0, "")


def test_a_dry_run_prints_what_launch_takes_back(run: Run, bucket: Bucket, tmp_path: Path) -> None:
    """The file contains what the flags said."""
    flags = ("--resources=h100=2", "--replicas=2", "--env=A=1", "--retries=3", "--pool=p")
    file = tmp_path / "spec.toml"
    file.write_text(run("launch", "--dry_run", *flags, "--", "echo", "$x").out)
    one = run("launch", "--dry_run", "--json", *flags, "--", "echo", "$x")
    two = run("launch", "--dry_run", "--json", str(file))
    assert one.code == two.code == 0, two.err
    assert json.loads(one.out)["launch"] == json.loads(two.out)["launch"]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("srun -N 2 python3 train.py", "bastion run -N 2 --code=. -- python3 train.py"),
        ("sky launch --gpus H100:1 -- python3 train.py",
         "bastion launch --gpus H100:1 --code=. -- python3 train.py"),
        ("sky launch --workdir . -- python3 train.py",
         "bastion launch --workdir . -- python3 train.py"),
        ("sky exec dev python3 train.py", "bastion exec dev -- python3 train.py"),
        ("srun python3 other.py", "bastion run -- python3 other.py"),
    ],
)  # fmt: skip
def test_a_script_that_lies_here_is_sent(
    words: str, hint: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pasted command that answers one of another system works."""
    (tmp_path / "train.py").touch()
    monkeypatch.chdir(tmp_path)
    assert run(*words.split()).err.splitlines()[1] == f"hint: {hint}"
