"""Every recipe of docs/contributing/ works if it is followed exactly."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import page_runs, pages

RECIPES = [page for page in pages.PAGES if pages.is_recipe(page.read_text())]
PACKAGES = ("quota", "bundler", "bastion", "launch")
COPIED = (*PACKAGES, "docs", "examples", "benchmarks", "tests", "pyproject.toml")


def copy_of_the_tree(folder: Path) -> Path:
    """Copy the tree, compiled files too: compiling would take most of the time."""
    for name in COPIED:
        source = pages.REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, folder / name)
        else:
            shutil.copy2(source, folder / name)
    return folder


@pytest.mark.parametrize("page", RECIPES, ids=pages.name)
def test_a_recipe_works(page: Path, tmp_path: Path) -> None:
    """Its edits apply, its commands print what the page says, and style and layers are kept."""
    tree = copy_of_the_tree(tmp_path / "tree")
    page_runs.run(pages.recipe(page.read_text()), tree, env={"PYTHONPATH": str(tree)})
    for check in (["ruff", "check", "--quiet", *PACKAGES], ["lint-imports", "--no-cache"]):
        program = Path(sys.executable).with_name(check[0])
        ran = subprocess.run(
            [program, *check[1:]],
            cwd=tree,
            env={"PYTHONPATH": str(tree), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr


def test_there_is_a_recipe_for_each_part_that_is_meant_to_grow() -> None:
    """There is one for verbs, reasons, providers and policies."""
    assert {page.stem for page in RECIPES} == {
        f"add-a-{part}" for part in ("verb", "reason", "provider", "policy")
    }
