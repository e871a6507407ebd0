"""
Everything the bundler raises on purpose.

    BundleError
    ├── InvalidCodeError    a value a user wrote is wrong: every problem, each with its field
    ├── ChangedError        a file was written to meanwhile: select again
    ├── BuildError          a Dockerfile failed: show its last lines
    ├── UnreachableError    something outside did not answer: trying again later may help
    └── DamagedError        stored bytes are not what their name promises: fetch them elsewhere

A new class exists only where a caller would do something different.
"""

from __future__ import annotations


class BundleError(Exception):
    """
    The root of the tree.

    Args:
        message: One line, no full stop: what is wrong, the value, what is allowed.
        hint: What to do about it, or empty.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        """The message alone: hints are shown apart."""
        return self.message


class InvalidCodeError(BundleError, ValueError):
    """
    What a user wrote about the code is wrong (a ValueError too, so that pydantic gathers several).

    Args:
        problems: Every problem found, each beginning with the name of its field.
    """

    def __init__(self, *problems: str, hint: str = "") -> None:
        super().__init__("; ".join(problems), hint=hint)
        self.problems = problems


class ChangedError(BundleError):
    """
    A file was written to while it was being bundled.

    Args:
        path: The file, from the root of its tree on.
    """

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} changed while it was being bundled",
            hint="stop what writes to it, or leave it out by a line in .bastionignore",
        )
        self.path = path


class BuildError(BundleError):
    """
    A Dockerfile could not be built.

    Args:
        message: As for every `BundleError`.
        output: The last lines of the build, oldest first; for the caller to show.
    """

    def __init__(self, message: str, *, hint: str, output: tuple[str, ...]) -> None:
        super().__init__(message, hint=hint)
        self.output = output


class UnreachableError(BundleError):
    """A repository, a registry or a daemon did not answer; the same call may work later."""


class DamagedError(BundleError):
    """Stored bytes are missing, malformed, or do not have the digest they are named by."""
