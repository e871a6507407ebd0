"""The root of the repository contains only what a reader or a tool expects there."""

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
    """A temporary file that was committed by mistake is detected."""
    listed = subprocess.run(
        ["git", "ls-files", "--", ":(glob)*"],
        cwd=rules.REPOSITORY,
        check=True,
        capture_output=True,
        text=True,
    )
    assert set(listed.stdout.split()) == FILES
