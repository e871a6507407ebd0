"""
The surroundings of a `uv.lock`: packages in the tree of the launch, and the version of Python.

Such packages are never installed: an environment is shared by all jobs with the same lock file, and
their code differs from job to job. Python finds them in the job's own tree.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from bastion.agent.machine.job_files import read_start
from bastion.value import value
from quota.pattern import pattern

_VERSION = pattern(r"3\.[0-9]{1,2}(?:\.[0-9]{1,3})?")


@value
class LocalPackages:
    """The packages that a lock file names by folder."""

    folders: Mapping[str, str] = field(default_factory=dict)
    """By name; paths relative to the lock file. Projects that are not packages are left out."""
    is_workspace: bool = False
    """Whether the lock file is for several projects."""

    def python_path(self, beside: Path) -> tuple[str, ...]:
        """Return where Python finds them, for a lock file in the folder `beside`."""
        tops = sorted((beside / folder).resolve() for folder in self.folders.values())
        return tuple(str(top / "src" if (top / "src").is_dir() else top) for top in tops)


def pinned_python(folder: Path) -> str:
    """Return the version in the `.python-version` of a project; empty if it names none."""
    try:
        lines = read_start(f"{folder}/.python-version", 64).decode().split()
    except (OSError, ValueError):
        return ""
    return lines[0] if lines and _VERSION.fullmatch(lines[0]) else ""


def local_packages(lock: bytes) -> LocalPackages:
    """Return the local packages of a lock file; none if uv will refuse the file."""
    try:
        read = tomllib.loads(lock.decode())
        sources = {package["name"]: package["source"] for package in read.get("package", ())}
        return LocalPackages(
            folders={
                str(name): str(source.get("editable", source.get("directory")))
                for name, source in sources.items()
                if "editable" in source or "directory" in source
            },
            is_workspace=bool(read.get("manifest", {}).get("members")),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return LocalPackages()
