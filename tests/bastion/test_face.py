"""`import bastion`: the public names, and their cost."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import bastion

ROOT = Path(bastion.__file__).parents[1]


def python(code: str, *, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a user's program in `cwd`, with its folder first in the path as python puts it."""
    (cwd / "user_program.py").write_text(code)
    return subprocess.run(
        [sys.executable, "user_program.py"],
        cwd=cwd,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_public_name_is_there() -> None:
    """The export list is correct, sorted, and shown by `dir`."""
    assert bastion.__all__ == sorted(bastion.__all__)
    assert dir(bastion) == bastion.__all__
    for name in bastion.__all__:
        assert getattr(bastion, name) is not None


def test_a_type_checker_knows_every_public_name() -> None:
    """Lazily loaded names are imported for a type checker, and no others."""
    (block,) = [
        each
        for each in ast.parse(Path(bastion.__file__).read_text()).body
        if isinstance(each, ast.If) and ast.unparse(each.test) == "TYPE_CHECKING"
    ]
    imports = [each for each in block.body if isinstance(each, ast.ImportFrom)]
    assert sorted(name.name for each in imports for name in each.names) == bastion.__all__


@pytest.mark.parametrize(
    "make",
    [
        lambda: bastion.GitRepo("http://x/y"),
        lambda: bastion.GitRepo("https://x/y", commit="xyz"),
        lambda: bastion.LocalDir(5),  # type: ignore[arg-type]
        lambda: bastion.LocalDir(max_size="2GiBB"),
        lambda: bastion.LocalDir(exclud=[]),  # type: ignore[call-arg]
        lambda: bastion.Image(""),
        lambda: bastion.DockerBuild(),  # type: ignore[call-arg]
    ],
)
def test_code_that_is_wrong_raises_what_the_guide_says(make: Callable[[], object]) -> None:
    """It is a BastionError with a public name, and has problems like a SpecError."""
    with pytest.raises(bastion.InvalidCodeError) as caught:
        make()
    assert caught.value.problems
    assert isinstance(caught.value, bastion.BastionError)
    assert isinstance(caught.value, ValueError)


def test_another_name_is_no_attribute() -> None:
    """A typo gives the same error as in every module."""
    with pytest.raises(AttributeError, match="module 'bastion' has no attribute 'Clint'"):
        _ = bastion.Clint  # type: ignore[attr-defined]


def test_importing_loads_nothing_else(tmp_path: Path) -> None:
    """No module, SDK or validator is loaded until a name is used; the client only reads."""
    ran = python(
        "import sys, bastion\n"
        "heavy = ('pydantic', 'rich', 'google', 'boto3', 'docker', 'fsspec', 'numpy', 'absl')\n"
        "print([m for m in sys.modules if m.startswith('bastion.') or m in heavy])\n"
        "bastion.Client, bastion.Launch\n"
        "ours = [m for m in sys.modules if m.startswith(('bundler.', 'launch'))]\n"
        "values = {'bundler.code', 'bundler.errors', 'bundler.size', 'bundler.url'}\n"
        "decides = {'bastion.lifecycle', 'bastion.machine', 'bastion.scheduler.reasons.reason'}\n"
        "heavy = {*heavy, *decides, 'quota.tree'}\n"
        "print([m for m in sys.modules if m in heavy] + sorted(set(ours) - values))\n",
        cwd=tmp_path,
    )
    assert ran.stdout.splitlines() == ["[]", "[]"], ran.stderr


def test_marks_load_the_standard_library_alone(tmp_path: Path) -> None:
    """A training program that marks checkpoints imports nothing else."""
    ran = python(
        "import sys, bastion\n"
        "bastion.checkpointed()\n"
        "ours = ('bastion', 'quota', 'bundler')\n"
        "print(sorted(m for m in sys.modules if m.split('.')[0] in ours))\n",
        cwd=tmp_path,
    )
    assert ran.stdout == "['bastion', 'bastion.marks']\n", ran.stderr


@pytest.mark.parametrize("room", ["quota", "bundler"])
def test_a_users_own_file_of_our_name_is_named(tmp_path: Path, room: str) -> None:
    """A `quota.py` beside the user's script is an error with its path and a hint."""
    (tmp_path / f"{room}.py").write_text("mine = 1\n")
    ran = python("from bastion import Client\n", cwd=tmp_path)
    told = ran.stderr.splitlines()[-1]
    assert told == (
        f"ImportError: {tmp_path}/{room}.py hides bastion's own package '{room}': rename your "
        "file, or start your script from another folder"
    )


def test_a_users_own_launch_py_is_no_problem(tmp_path: Path) -> None:
    """Users call their script launch.py; nothing that it imports needs our module."""
    (tmp_path / "launch.py").write_text("raise SystemExit('shadowed')\n")
    ran = python("from bastion import *\nfrom bastion import Client\nprint(Client)\n", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
