"""The root of the repository holds what a reader or a tool looks for there, and nothing else."""

from __future__ import annotations

import subprocess

from tests.house import rules

# fmt: off
FILES = {
    ".dockerignore", ".gitignore", "CHANGELOG.md", "Dockerfile", "LICENSE", "Makefile",
    "README.md", "SECURITY.md", "constraints.txt", "pyproject.toml",
}
# fmt: on


def test_no_file_was_left_in_the_root() -> None:
    """A file that a trial wrote there, and a commit took along, is found."""
    listed = subprocess.run(
        ["git", "ls-files", "--", ":(glob)*"],
        cwd=rules.REPOSITORY,
        check=True,
        capture_output=True,
        text=True,
    )
    assert set(listed.stdout.split()) == FILES
