"""The packages follow the rules of this code base, and the rules catch violations."""

from __future__ import annotations

import ast

import pytest

from tests.house import rules


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.__name__)
def test_the_house_keeps(rule: rules.Rule) -> None:
    """No file of the packages breaks the rule."""
    findings = [str(each) for name, tree in rules.trees() for each in rule(name, tree)]
    assert not findings, "\n" + "\n".join(findings)


def test_no_file_is_too_long() -> None:
    """No file of the packages has more than 500 lines."""
    lines = {path: len(path.read_text().splitlines()) for path in rules.sources()}
    assert not {str(path): n for path, n in lines.items() if n > rules.MAX_FILE_LINES}


def test_the_rules_read_every_package() -> None:
    """Files of all packages are checked, so that a moved package is not skipped silently."""
    seen = {path.relative_to(rules.REPOSITORY).parts[0] for path in rules.sources()}
    assert seen == set(rules.PACKAGES)


LONG = "def f():\n" + "    x = 1\n" * rules.MAX_FUNCTION_LINES


@pytest.mark.parametrize(
    ("rule", "path", "bad"),
    [
        (rules.core_is_pure, "quota/tree.py", "import os"),
        (rules.core_is_pure, "bastion/job.py", "import os.path"),
        (rules.core_is_pure, "bastion/spec/launch.py", "from pathlib import Path"),
        (rules.core_is_pure, "bastion/monitor.py", "def f():\n    from threading import Lock"),
        (rules.core_is_pure, "bastion/scheduler/plan.py", "open('x')"),
        (rules.no_clock_no_chance, "bastion/job.py", "import time\ntime.time()"),
        (rules.no_clock_no_chance, "bastion/logs/follow.py", "from time import monotonic as m"),
        (rules.no_clock_no_chance, "bastion/logs/follow.py", "f = time.monotonic"),
        (rules.no_clock_no_chance, "bundler/bundle/pack.py", "datetime.datetime.now(UTC)"),
        (rules.no_clock_no_chance, "bundler/bundle/pack.py", "import random"),
        (rules.no_clock_no_chance, "launch/cli.py", "import secrets"),
        (rules.no_clock_no_chance, "bastion/records/root.py", "import uuid\nuuid.uuid4().hex"),
        (rules.names_say_what, "bastion/log_utils.py", ""),
        (rules.names_say_what, "bastion/job.py", "class JobManager: ..."),
        (rules.names_say_what, "bastion/job.py", "def f(log_helper): ..."),
        (rules.names_say_what, "bastion/job.py", "on_impl = 1"),
        (rules.fits_a_screen, "bastion/job.py", LONG),
        (rules.stdout_is_data, "bastion/job.py", "print('x')"),
        (rules.stdout_is_data, "bastion/job.py", "print('x', file=sys.stdout)"),
        (rules.keys_are_in_the_layout, "bastion/client.py", "key = 'inbox/x'"),
        (rules.keys_are_in_the_layout, "bastion/client.py", "key = f'run/{project}'"),
        (rules.own_programs_are_started_one_way, "launch/a.py", "[sys.executable, '-m', 'launch']"),
        (rules.own_programs_are_started_one_way, "launch/a.py", "(*(sys.executable, '-P'), '-m')"),
        (rules.job_files_are_opened_with_care, "bastion/agent/home.py", "open(path)"),
        (rules.job_files_are_opened_with_care, "bastion/agent/home.py", "Path(a, b).read_bytes()"),
        (
            rules.job_files_are_opened_with_care,
            "bastion/agent/keeper/attempt/attempt.py",
            "os.open(x, 0)",
        ),
        (
            rules.job_files_are_opened_with_care,
            "bastion/agent/kept_output.py",
            "os.walk(directory)",
        ),
    ],
)
def test_a_rule_catches(rule: rules.Rule, path: str, bad: str) -> None:
    """A bad sample is found, with its line."""
    (finding, *_) = rule(path, ast.parse(bad))
    assert finding.path == path
    assert finding.line >= 1


@pytest.mark.parametrize(
    ("rule", "path", "good"),
    [
        (rules.core_is_pure, "bastion/logs/follow.py", "import os"),
        (rules.core_is_pure, "quota/tree.py", "from pathlib import PurePosixPath\nimport datetime"),
        (rules.no_clock_no_chance, "bastion/clock.py", "import time\ntime.time()"),
        (rules.no_clock_no_chance, "bastion/job.py", "started.time()\njob.now\nclock.sleep(1)"),
        (rules.names_say_what, "bastion/job.py", "futility = important = 1"),
        (rules.names_say_what, "bastion/job.py", "logging.StreamHandler()"),
        (rules.fits_a_screen, "bastion/job.py", LONG.removesuffix("    x = 1\n")),
        (rules.stdout_is_data, "launch/screen/render.py", "print('x')"),
        (rules.stdout_is_data, "bastion/job.py", "print('x', file=sys.stderr)"),
        (rules.keys_are_in_the_layout, rules.LAYOUT, "key = 'inbox/x'"),
        (rules.keys_are_in_the_layout, "bastion/client.py", "'''inbox/ is explained here.'''"),
        (rules.job_files_are_opened_with_care, rules.JOB_FILES, "os.open(path, 0)"),
        (rules.job_files_are_opened_with_care, "bastion/agent/home.py", "read_start(path, 9)"),
        (rules.keys_are_in_the_layout, "bastion/client.py", "url = '/var/run/x'"),
    ],
)
def test_a_rule_lets_pass(rule: rules.Rule, path: str, good: str) -> None:
    """An allowed sample is not found."""
    assert not list(rule(path, ast.parse(good)))
