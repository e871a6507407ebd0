"""The tables of the architecture page are those of the code."""

from __future__ import annotations

import re
import tomllib

from tests.docs.pages import REPOSITORY

PAGE = (REPOSITORY / "docs" / "explanation" / "architecture.md").read_text()
CONTRACTS = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"][
    "contracts"
]
BIG = ("service", "agent", "client", "web")


def first_column(heading: str) -> list[list[str]]:
    """Return the names in the first column of the table below `heading`, row by row."""
    table = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    cells = re.findall(r"^\| (`.+?) \|", table, re.MULTILINE)
    return [re.findall(r"`([^`]+)`", cell) for cell in cells]


def test_the_layers_are_those_that_the_linter_checks() -> None:
    """Each layer has a row, in order, with the names that `pyproject.toml` gives it."""
    (layers,) = (each["layers"] for each in CONTRACTS if each.get("containers") == ["bastion"])
    rows = [set(row) for row in first_column("The layers of `bastion`")]
    assert rows == [set(layer.split(" | ")) for layer in layers]


def test_every_folder_of_a_big_package_has_a_row() -> None:
    """No folder of a big package is missing, and none is invented."""
    bastion = REPOSITORY / "bastion"
    folders = {
        f"{big}/{path.name}/"
        for big in BIG
        for path in (bastion / big).iterdir()
        if (path / "__init__.py").exists()
    }
    rows = {name for row in first_column("The folders of the big packages") for name in row}
    assert {name for name in rows if name.endswith("/")} == folders
    assert all((bastion / name).exists() for name in rows)
