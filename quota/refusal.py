"""Why a request cannot be charged to a project: values, rendered only when they are shown."""

from __future__ import annotations

from quota.value import value


@value
class UnknownProject:
    """The request names a project that is not in the quota file."""

    project: str
    nearest: str
    """The most similar project of the file, or empty."""
    projects: tuple[str, ...]
    """The user's own projects, sorted."""

    def __str__(self) -> str:
        nearest = f", nearest is {self.nearest}" if self.nearest else ""
        return f"{self.project} is not in the quota file{nearest}, {_own(self.projects)}"


@value
class NotMember:
    """The request names a project of which the user is not a member."""

    user: str
    project: str
    projects: tuple[str, ...]
    """The user's own projects, sorted."""

    def __str__(self) -> str:
        return f"{self.user} is not a member of {self.project}, {_own(self.projects)}"


@value
class NoProject:
    """The request names no project and the user is a member of none."""

    user: str

    def __str__(self) -> str:
        return f"{self.user} is not a member of any project; ask an admin of the quota file"


@value
class AmbiguousProject:
    """The request names no project and the user has several."""

    user: str
    projects: tuple[str, ...]
    """The user's own projects, sorted; two or more."""

    def __str__(self) -> str:
        return f"{self.user} has several projects, name one of {', '.join(self.projects)}"


ProjectRefusal = UnknownProject | NotMember | NoProject | AmbiguousProject


def _own(projects: tuple[str, ...]) -> str:
    return f"yours are {', '.join(projects)}" if projects else "you are a member of none"
