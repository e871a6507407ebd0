"""The wheel that users install holds the packages, whole, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from tests.house import rules


def test_the_wheel_holds_the_packages(tmp_path: Path) -> None:
    """A wheel built from this tree holds every source file of the packages and the licence."""
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
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == set(
        rules.PACKAGES
    )
    assert any(name.endswith("licenses/LICENSE") for name in names)


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
    import tomllib

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
