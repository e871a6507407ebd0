"""
The errors of the bundler.

    BundleError             a BastionError, as every error that users meet
    ├── InvalidCodeError    a user's value is wrong: every problem, each with its field
    ├── ChangedError        a file changed during bundling: select again
    ├── BuildError          a Dockerfile failed: show its last lines
    ├── UnreachableError    a repository, registry or daemon did not answer: try again later
    └── DamagedError        stored bytes do not match their digest: fetch them elsewhere

A class exists only if a caller would handle it differently.
"""

from __future__ import annotations

from quota.bastion_error import BastionError, shortened


class BundleError(BastionError):
    """The base class of all errors of the bundler."""


class InvalidCodeError(BundleError, ValueError):
    """
    A user's value about code is wrong (a ValueError too, so that pydantic collects several).

    Args:
        problems: Every problem found, each beginning with the name of its field. Problems longer
            than 1,000 characters are shortened in the middle.
    """

    def __init__(self, *problems: str, hint: str = "") -> None:
        self.problems = tuple(map(shortened, problems))
        super().__init__("; ".join(self.problems), hint=hint)


class ChangedError(BundleError):
    """
    A file changed while it was bundled.

    Args:
        path: The file, relative to the root of its tree.
    """

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} changed while it was being bundled",
            hint="stop what writes to it, or leave it out by a line in .bastionignore",
        )
        self.path = path


class BuildError(BundleError):
    """A Dockerfile could not be built; `output` has the last lines of the build."""


class UnreachableError(BundleError):
    """A repository, a registry or a daemon did not answer; the same call may work later."""


class DamagedError(BundleError):
    """Stored bytes are missing, malformed, or do not match their digest."""
