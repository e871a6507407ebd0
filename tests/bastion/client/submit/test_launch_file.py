"""A launch as a TOML file."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from bastion.client.submit.launch_file import _FROM_HERE, launch_text, parse_launch, read_launch
from bastion.errors import SpecError
from bastion.service.config.pool_config import parse_config
from bastion.spec import After, BundleRef, Job, Launch, Notify, Process, Resources, Where
from bundler.code import DockerBuild, GitRepo, Image, LocalDir
from launch.screen.visible import visible
from quota import QuotaError
from quota import parse as parse_quota

WHOLE = """\
name = "experiment"
project = "project1"
description = "as in the guide"
when_busy = "fail"
together = false
notify = ["team", { to = "ops", on = ["ended"] }]
after = ["prepare-0123456789", { job = "old-0123456789", when = "any" }]
[where]
cluster = "primary"
hostnames = ["a", "b"]
[[jobs]]
name = "trainer"
replicas = 3
on_failure = "stop_others"
max_runtime = "8h"
retries = 2
env = { SEED = "1" }
[[jobs.processes]]
command = ["python3", "train.py"]
resources = { h100 = 2, memory = "64GiB" }
[[jobs]]
name = "watcher"
after = ["trainer:failed"]
[[jobs.processes]]
command = "watch | tee log"
shell = true
"""
SMALL = 'name = "a"\n[[jobs]]\n[[jobs.processes]]\ncommand = ["true"]\n'


def test_a_file_says_what_the_python_values_say() -> None:
    """The names and meanings are the same."""
    assert parse_launch(WHOLE, source="spec.toml") == Launch(
        name="experiment",
        project="project1",
        description="as in the guide",
        when_busy="fail",
        together=False,
        after=(After("prepare-0123456789"), After("old-0123456789", when="any")),
        notify=(Notify("team"), Notify("ops", on=("ended",))),
        where=Where(cluster="primary", hostnames=("a", "b")),
        jobs=(
            Job(
                name="trainer",
                replicas=3,
                on_failure="stop_others",
                max_runtime="8h",
                retries=2,
                env={"SEED": "1"},
                processes=(
                    Process(["python3", "train.py"], resources=Resources(h100=2, memory="64GiB")),
                ),
            ),
            Job(
                name="watcher",
                after=("trainer:failed",),
                processes=(Process("watch | tee log", shell=True),),
            ),
        ),
    )


def test_every_problem_is_told_at_once_with_its_path() -> None:
    """One look is enough to correct the file."""
    text = """\
name = "a b"
colour = "red"
notify = [{ to = "https://h/x", kind = "teams" }, { to = "ops", on = ["end"] }]
[code]
type = "local"
rot = "."
[[jobs]]
replicas = 0
priorty = 2
after = [{ job = "a-1", wen = "ok" }, { job = "b-1", when = "often" }, "c-1:never"]
[[jobs.processes]]
command = ["true"]
resources = { h100 = 0 }
"""
    with pytest.raises(SpecError) as caught:
        parse_launch(text, source="spec.toml")
    told = "\n".join(caught.value.problems)
    assert "spec.toml: line 6: code.rot: unknown field, nearest is root" in told
    assert "spec.toml: line 9: jobs.0.priorty: unknown field, nearest is priority" in told
    assert "spec.toml: line 10: jobs.0.after.0.wen: unknown field, nearest is when" in told
    assert "jobs.0.after.1.when: input should be 'ok', 'any' or 'failed' (found 'often')" in told
    assert "notify.0.kind: input should be '', 'json' or 'slack' (found 'teams')" in told
    assert "notify.1.on.0: input should be 'started'" in told
    assert "spec.toml: line 2: colour: unknown field" in told
    assert "resources.h100: 0 is not above zero" in told


def test_one_table_in_place_of_a_list_is_told_with_its_brackets() -> None:
    """It is reported beside every other problem of that table."""
    with pytest.raises(SpecError) as caught:
        parse_launch('name = "a"\n[jobs]\nreplicas = 0\n[jobs.processes]\n', source="a.toml")
    told = "\n".join(caught.value.problems)
    assert (
        "a.toml: line 2: jobs: is a single table, must be a list of tables; write [[jobs]" in told
    )
    assert "jobs.0.processes: is a single table, must be a list of tables; write [[jobs.pro" in told
    assert "jobs.0.processes.0.command: missing" in told
    assert "jobs.0.replicas: 0 is not" in told


@pytest.mark.parametrize(
    ("written", "made"),
    [
        ('type = "local"\nroot = "src"\nexclude = ["data/"]', LocalDir("src", exclude=["data/"])),
        ('root = "src"', LocalDir("src")),
        (
            'type = "git"\nurl = "https://example.com/a.git"\nbranch = "main"',
            GitRepo("https://example.com/a.git", branch="main"),
        ),
        ('type = "image"\nref = "registry.example/a:1"', Image("registry.example/a:1")),
        ('type = "docker"\nimage = "registry.example/a"', DockerBuild(image="registry.example/a")),
        (f'type = "bundle"\ndigest = "{"0" * 64}"', BundleRef(digest="0" * 64)),
    ],
)
def test_code_of_every_type_may_be_written(written: str, made: object) -> None:
    """The `[code]` table makes the value of its type."""
    assert parse_launch(f"{SMALL}[code]\n{written}\n", source="s").code == made


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        (
            "[code]\ntype = 'zip'",
            "s: line 6: code.type: 'zip' is not known; allowed: local, git, image, do",
        ),
        ("[code]\ntype = 'git'", "s: line 5: code.url: missing"),
        ("[code]\ntype = 'git'\nurl = 'x'", "s: line 7: code.url: "),
        ("[[code]]", "s: line 5: code: [{}] is not a table; allowed: [code] with a type"),
        ("= 3", "s: not TOML, "),
    ],
)
def test_wrong_code_is_told_with_what_is_allowed(written: str, problem: str) -> None:
    """Errors of the table name the field."""
    with pytest.raises(SpecError) as caught:
        parse_launch(f"{SMALL}{written}\n", source="s")
    assert str(caught.value).startswith(problem)


def test_the_file_that_was_meant_is_named(tmp_path: Path) -> None:
    """A file with a similar stem is named, one that only shares the suffix is not."""
    (tmp_path / "train.toml").touch()
    (tmp_path / "d.toml").touch()
    for written, hint in (("trian", f"did you mean {tmp_path}/train.toml?"), ("nope", _FROM_HERE)):
        with pytest.raises(SpecError) as caught:
            read_launch(tmp_path / f"{written}.toml")
        assert caught.value.hint == hint


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    """Missing, binary or a folder: one line each."""
    with pytest.raises(SpecError, match="no file"):
        read_launch(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(SpecError, match="cannot be read as text"):
        read_launch(tmp_path / "bad.toml")
    with pytest.raises(SpecError, match="cannot be read: Is a directory"):
        read_launch(tmp_path)


@pytest.mark.parametrize(
    ("top", "job", "problem"),
    [
        (
            "replicas = 2",
            "",
            "replicas: unknown here; replicas is a field of a job, under [[jobs]]",
        ),
        (
            "replica = 2",
            "",
            "replica: unknown field, nearest is replicas; replicas is a field of a job, under"
            " [[jobs]]",
        ),
        (
            "",
            'where = { cluster = "north" }',
            "jobs.0.where: unknown here; where is a field of the launch, above the first [[jobs]]",
        ),
        ("", "replica = 2", "jobs.0.replica: unknown field, nearest is replicas"),
    ],
)
def test_a_field_that_stands_elsewhere_is_told_where(top: str, job: str, problem: str) -> None:
    """The error names the level of the file where the field is known."""
    text = f'name = "a"\n{top}\n[[jobs]]\n{job}\nprocesses = [{{ command = ["true"] }}]\n'
    with pytest.raises(SpecError) as caught:
        parse_launch(text, source="spec.toml")
    (told,) = caught.value.problems
    assert re.fullmatch(r"spec\.toml: line [24]: ", told.removesuffix(problem))


@pytest.mark.parametrize(
    ("where", "line", "told"),
    [
        ("job", "max_runtime = true", "jobs.0.max_runtime: True is not a number or text"),
        ("job", "grace = false", "jobs.0.grace: False is not a number or text"),
        ("job", "replicas = true", "jobs.0.replicas: True is not a whole number or text"),
        ("job", "replicas = 2.0", "jobs.0.replicas: 2.0 is not a whole number or text"),
        ("job", 'retries = "3"', "jobs.0.retries: '3' is not a whole number"),
        ("job", "priority = true", "jobs.0.priority: True is not a whole number"),
        ("job", 'hold = "yes"', "jobs.0.hold: 'yes' is not true or false"),
        ("job", "borrow = 0", "jobs.0.borrow: 0 is not true or false"),
        ("job", "env = { A = 1 }", "jobs.0.env.A: 1 is not text"),
        ("process", 'shell = "true"', "jobs.0.processes.0.shell: 'true' is not true or false"),
        ("launch", "where = { exclusive = 1 }", "where.exclusive: 1 is not true or false"),
        ("launch", 'together = "no"', "together: 'no' is not true or false"),
        ("launch", "sweep = { at_once = true }", "sweep.at_once: True is not a whole number"),
        (
            "launch",
            "sweep.sample = { count = 2, seed = 1,"
            ' draw.a = { kind = "uniform", low = "1", high = 2 } }',
            "sweep.sample.draw.a.low: '1' is not a number",
        ),
        (
            "launch",
            'code = { type = "git", url = "https://a/b", lfs = "yes" }',
            "code.lfs: 'yes' is not true or false",
        ),
    ],
)
def test_no_value_of_a_wrong_type_is_converted(where: str, line: str, told: str) -> None:
    """Text is no number and true is not 1, as in Python."""
    lines = {"launch": "", "job": "", "process": ""} | {where: line}
    text = (
        f'name = "x"\n{lines["launch"]}\n[[jobs]]\n{lines["job"]}\n[[jobs.processes]]\n'
        f'command = ["true"]\n{lines["process"]}\n'
    )
    with pytest.raises(SpecError) as wrong:
        parse_launch(text, source="f")
    mine = [each for each in wrong.value.problems if told in each]
    assert len(mine) == 1, wrong.value.problems
    assert mine[0].endswith(told)


def test_control_characters_are_written_as_toml_reads_them() -> None:
    """A screen's own escapes are not valid TOML."""
    launch = Launch(name="x", jobs=[Job(processes=[Process(["a\x85b"], env={"A": "\x9f"})])])
    text = launch_text(launch)
    assert r"a\u0085b" in text
    assert visible(text) == text
    assert parse_launch(text, source="f") == launch


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (86400, '"1d"'),
        (86310, '"23h58m30s"'),
        (90, '"1m30s"'),
        (0.5, "0.5"),
        (90.25, "90.25"),
    ],
)
def test_durations_and_sizes_are_written_with_units(seconds: float, text: str) -> None:
    """As a person would write them, and so that nothing is lost: what no unit fits is a number."""
    for memory, written in (
        (64 << 30, '"64GiB"'),
        (1536 << 20, '"1536MiB"'),
        (5_000_001, "5000001"),
    ):
        process = Process(["true"], resources=Resources(memory=memory))
        launch = Launch(name="x", jobs=[Job(processes=[process], max_runtime=seconds)])
        lines = launch_text(launch).splitlines()
        assert f"max_runtime = {text}" in lines
        assert f"memory = {written}" in lines
        assert parse_launch(launch_text(launch), source="f") == launch


SCRIPT = '#!/bin/bash\nif true; then\n\techo "a\\tb" $1\nfi\n'


def test_a_script_is_written_line_by_line() -> None:
    """A person reads and edits the file that `import` and `--dry_run` print."""
    launch = Launch(name="x", jobs=[Job(processes=[Process(["bash", "-c", SCRIPT])])])
    text = launch_text(launch)
    assert SCRIPT in text
    assert parse_launch(text, source="f") == launch


@pytest.mark.parametrize(
    "odd",
    ["\na\n", "a\n'''", "a\n'", "a\n\x85b", "a\r\nb", "a\n\u2028b", "\n", "a\n\x07", 'a\n"""\\'],
)
def test_every_text_of_several_lines_comes_back(odd: str) -> None:
    """If TOML's plain lines cannot contain it, it is escaped, in commands and variables."""
    launch = Launch(
        name="x",
        description=odd,
        jobs=[Job(processes=[Process(["sh", odd, "b"], env={"A": odd})], on_end=["sh", odd])],
    )
    assert parse_launch(launch_text(launch), source="f") == launch


_HUGE = f"0x{'f' * 6000}"


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (partial(parse_launch, source="f"), f'name = "x"\n[[jobs]]\npriority = {_HUGE}\n'),
        (parse_quota, f'[toml-schema]\nversion = "1"\n[total_resources]\nv4 = {_HUGE}\n'),
        (parse_config, f"[pools.a]\ncount = {_HUGE}\n"),
    ],
)
def test_a_number_of_thousands_of_digits_is_told(parse: Callable[[str], object], text: str) -> None:
    """It is an error in any file of a user, not a bug of ours."""
    with pytest.raises((SpecError, QuotaError), match=r"not TOML.* the limit"):
        parse(text)
