"""The wheel for users contains exactly the complete packages; an index accepts it."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.house import rules


def test_the_wheel_holds_the_packages(tmp_path: Path) -> None:
    """A wheel built from this tree holds all source files, templates and the licence."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", tmp_path],
        cwd=rules.REPOSITORY,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
    source = {path.relative_to(rules.REPOSITORY).as_posix() for path in rules.sources()}
    assert source <= names
    web = rules.REPOSITORY / "bastion" / "web"
    files = [*(web / "templates").iterdir(), *(web / "static").iterdir()]
    assert {path.relative_to(rules.REPOSITORY).as_posix() for path in files} <= names
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == set(
        rules.PACKAGES
    )
    assert {"launch/pages/errors/InDoubtError.md", "launch/pages/reference/cli.md"} <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_an_index_would_accept_both_distributions(tmp_path: Path) -> None:
    """Metadata and README of the wheel and of the sdist pass the check that an index makes."""
    build = [sys.executable, "-m", "hatchling", "build", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=rules.REPOSITORY, check=True, capture_output=True)
    made = sorted(tmp_path.iterdir())
    assert [file.suffix for file in made] == [".whl", ".gz"]
    checked = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *made], capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout
    with tarfile.open(made[1]) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    wanted = {"Dockerfile", "constraints.txt", "docs/README.md", "examples/train.py"}
    assert wanted <= names


@pytest.mark.prove
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_each_extra_installs_and_runs(version: str, tmp_path: Path) -> None:
    """It is tested in a clean environment of every supported Python on this machine."""
    uv = str(Path(sys.executable).with_name("uv"))
    found = subprocess.run(
        [uv, "python", "find", "--no-python-downloads", version], capture_output=True, text=True
    )
    if found.returncode:
        pytest.skip(f"no Python {version} on this machine")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    subprocess.run(
        [*build, "--directory", str(tmp_path)],
        cwd=rules.REPOSITORY,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    project = tomllib.loads((rules.REPOSITORY / "pyproject.toml").read_text())["project"]
    for extra in ["", *project["optional-dependencies"]]:
        if extra == "dev":
            continue
        home = tmp_path / (extra or "plain")
        subprocess.run([uv, "venv", "-q", "--python", found.stdout.strip(), home], check=True)
        python = home / "bin" / "python"
        asked = f"{wheel}[{extra}]" if extra else str(wheel)
        subprocess.run([uv, "pip", "install", "-q", "--python", python, asked], check=True)
        for words in (["--version"], ["help", "InDoubtError"], ["completion", "bash"]):
            ran = subprocess.run([home / "bin" / "bastion", *words], capture_output=True, text=True)
            assert (ran.returncode, ran.stderr) == (0, ""), (extra, words)
            assert ran.stdout


def test_constraints_hold_names_and_versions_only() -> None:
    """`constraints.txt` holds `name==version` lines only: no host, no path, no hash."""
    lines = (rules.REPOSITORY / "constraints.txt").read_text().splitlines()
    assert len(lines) > 50
    assert [line for line in lines if not _is_a_pin(line)] == []
    assert len({line.partition("==")[0].lower() for line in lines}) == len(lines)


def _is_a_pin(line: str) -> bool:
    name, _, version = line.partition("==")
    return (
        name.replace("-", "").replace("_", "").replace(".", "").isalnum() and version[:1].isdigit()
    )


def test_every_direct_dependency_is_pinned() -> None:
    """Each requirement of pyproject.toml has its line in `constraints.txt`, above its bound."""
    from packaging.requirements import Requirement

    project = tomllib.loads((rules.REPOSITORY / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    asked = [Requirement(each) for group in (project["dependencies"], *extras) for each in group]
    lines = (rules.REPOSITORY / "constraints.txt").read_text().splitlines()
    pins = {line.partition("==")[0].lower(): line.partition("==")[2] for line in lines}
    for each in asked:
        if each.name != project["name"]:
            assert each.name.lower() in pins, each.name
            assert each.specifier.contains(pins[each.name.lower()]), each
