"""The grammar of the command line, and words for what does not fit it."""

from __future__ import annotations

from pathlib import Path

import pytest

from launch.grammar.parser import normal, split_command
from launch.grammar.vocabulary import ALIASES, FAMILIES, FOREIGN_VERBS, SEVERAL_VERBS
from launch.submission.flags import name_from, quoted_twice
from launch.verbs import build
from tests.launch.command_line import Run

VERBS = [verb for family in FAMILIES.values() for verb in family]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example(verb: str, run: Run) -> None:
    """`--help` says what it does and shows a line that can be copied."""
    ran = run(verb, "--help")
    assert ran.code == 0
    assert f"usage: bastion {verb}" in ran.out
    assert f"example:\n  {'bastion' if verb != 'completion' else 'eval'} " in ran.out.replace(
        '"$(', ""
    )


def test_the_first_page_names_every_verb(run: Run) -> None:
    """Nothing is hidden, and families keep it readable."""
    ran = run("--help")
    assert ran.code == 0
    assert all(f"\n  {verb} " in ran.out or f"\n    {verb} " in ran.out for verb in VERBS)
    _, verbs = build()
    assert set(verbs.parsers) == set(VERBS)
    assert set(ALIASES.values()) <= set(VERBS)


def test_no_words_at_all_print_help_and_are_a_mistake(run: Run) -> None:
    """`bastion` alone helps, and exits as usage errors do."""
    ran = run()
    assert ran.code == 2
    assert "usage: bastion VERB" in ran.out


def test_the_version_is_one_line(run: Run) -> None:
    """For reports."""
    ran = run("--version")
    assert (ran.code, ran.out.split(" ")[0]) == (0, "bastion")


def test_what_others_call_a_verb_is_none_of_ours_and_means_one() -> None:
    """Or it would be refused where it is right, or answered with what is no verb either."""
    assert set(FOREIGN_VERBS.values()) <= set(SEVERAL_VERBS)
    assert set(FOREIGN_VERBS).isdisjoint(SEVERAL_VERBS)


@pytest.mark.parametrize(
    ("words", "error", "hint"),
    [
        (["lst"], "unknown verb 'lst'", "did you mean list?"),
        (["squeue"], "unknown verb 'squeue'", "did you mean list?"),
        (["submti"], "unknown verb 'submti'", "did you mean launch?"),
        (["xyzzy"], "unknown verb 'xyzzy'", "bastion --help"),
        (["list", "--stat=x"], "unknown flag --stat", "did you mean --state?"),
        (["launch", "--instance-typ=a", "--", "x"], "unknown flag --instance_typ",
         "did you mean --instance_type?"),
        (["status", "extra"], "unknown argument extra", "of one job: bastion show extra"),
        (["pool", "extra"], "unknown argument extra", "bastion pool --help"),
        (["why"], "the following arguments are required: JOB", "bastion why --help"),
        (["launch", "--priority=high", "--", "x"],
         "--priority: 'high' is not a whole number", "bastion launch --help"),
        (["list", "--output=jsn"], "-o/--output: 'jsn' is unknown, allowed are json, name, table,"
         " wide, nearest is json", "bastion list --help"),
        (["--root=gs://b/r", "list"], "--root stands before the verb", "bastion VERB --root ..."),
        (["launch"], "nothing to run: give a command after --, a launch in a .toml file, a .py"
         " script that submits one itself", "bastion launch --help"),
        (["launch", "python3", "train.txt"],
         "'python3 train.txt' is no .toml file, no .py or .sbatch script",
         "a command stands after --: bastion launch -- python3 train.txt"),
        (["launch", "spec.toml", "--replicas=2", "--pool=a"],
         "--replicas, --pool: spec.toml says that", "change the file"),
        (["launch", "python3 train.py"],
         "no file 'python3 train.py'",
         "a command stands after --: bastion launch -- python3 train.py"),
        (["launch", "--priority=1", __file__], f"--priority: {__file__} submits for itself",
         f"change the script; as a job it runs with bastion launch -- python3 {__file__}"),
        (["launch", "--", "python3 train.py"],
         "'python3 train.py' is one word, and no program is called so",
         "leave out the quotes, or give --shell for a line of a shell"),
        (["launch", "--resources=h100", "--", "x"],
         "--resources: 'h100' is not TYPE=N, as in h100=2,cpu=4", ""),
        (["launch", "--sweep=lr=", "--", "x"], "sweep.grid.lr: has no values", ""),
        (["list", "--state=runing"], "--state: 'runing' is unknown", "bastion list --help"),
        (["launch", "--env=A", "--", "x"], "--env: 'A' is not NAME=TEXT", ""),
        (["logs", "a", "--attempt=first"], "--attempt: 'first' is none; a number, or all", ""),
        (["quota", "diff"], "quota diff: which file?", "quota diff new.toml"),
        (["run", "script.py"], "run: a script submits for itself", "bastion launch SCRIPT"),
        (["launch", "--flagfile=/no/such"], "--flagfile: ERROR:: Unable to open flagfile", ""),
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
    """Names of flags are made one; values, words and the command stay as they are."""
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
    """After `--`, or after the script, nothing is ours to read."""
    assert split_command(words) == (ours, theirs)


def test_flags_may_lie_in_a_file(run: Run, tmp_path: Path) -> None:
    """`--flagfile` is absl's: one flag a line, comments allowed."""
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
        (["./run me.sh"], "run"),
        (["python3"], "job"),
        ([" "], "job"),
        (["é"], "job"),
    ],
)
def test_a_job_is_called_after_its_program(command: list[str], name: str) -> None:
    """Without --name, the first word that says what runs names the job."""
    assert name_from(command) == name


def test_quotes_within_quotes_are_noticed() -> None:
    """Other launchers need them; here they would reach the program."""
    assert quoted_twice(["python3", "-c", "'import jax'", "'"]) == ["'import jax'"]
