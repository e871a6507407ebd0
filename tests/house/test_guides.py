"""Every folder describes its contents, and none is too large."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.house import rules

MOST_FILES = 12
LARGER = {"quota"}  # half a dozen of its files are what all packages share


def _name(folder: Path) -> str:
    return str(folder.relative_to(rules.REPOSITORY))


GROUPS = sorted(
    init.parent
    for package in rules.PACKAGES
    for init in (rules.REPOSITORY / package).rglob("__init__.py")
    if init.parent != rules.REPOSITORY / "bastion"  # its rooms: docs/explanation/architecture.md
)


@pytest.mark.parametrize(
    "folder", GROUPS, ids=lambda folder: str(folder.relative_to(rules.REPOSITORY))
)
def test_a_group_has_a_guide_that_names_its_files(folder: Path) -> None:
    """Its `__init__` describes it in a paragraph; everything it names in backticks exists."""
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    assert len(text.split("\n\n")) > 1, "one line is no guide"
    named = set(re.findall(r"`([a-z0-9_]+)(?:/|\.py|\.[a-z]+)?`", text))
    files = {path.stem for path in folder.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert named & files
    unnamed = {name for name in files if not name.startswith("__")} - named
    assert not unnamed, "files that the guide leaves out"


@pytest.mark.parametrize(
    "folder", GROUPS, ids=lambda folder: str(folder.relative_to(rules.REPOSITORY))
)
def test_a_group_is_small(folder: Path) -> None:
    """A folder with more than a dozen files beside its guide cannot be grasped at a glance."""
    files = [path for path in folder.glob("*.py") if path.stem != "__init__"]
    assert len(files) <= MOST_FILES or _name(folder) in LARGER
