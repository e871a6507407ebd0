"""
Why a job waits for an edit of the quota file: its project or its user is not in it.

Part of `bastion.scheduler.reasons.reason`, which collects all reasons; import from there.
"""

from __future__ import annotations

from typing import Literal

from bastion.value import value


@value
class NotMember:
    """Its user is not a member of its project."""

    kind: Literal["NotMember"] = "NotMember"
    user: str
    project: str

    def words(self, _: float) -> str:
        """The sentence."""
        return (
            f"{self.user} is not a member of {self.project}; an admin adds members in the quota"
            " file under [project_membership]"
        )


@value
class UnknownProject:
    """Its project is not in the quota file."""

    kind: Literal["UnknownProject"] = "UnknownProject"
    project: str

    def words(self, _: float) -> str:
        """The sentence."""
        return f"the quota file has no project {self.project}; an admin adds it there"


@value
class QuotaFileInvalid:
    """The newest quota file is not in force, and the last valid one does not let it run."""

    kind: Literal["QuotaFileInvalid"] = "QuotaFileInvalid"
    problem: str
    otherwise: NotMember | UnknownProject

    def words(self, now: float) -> str:
        """The sentence."""
        return (
            f"waits for a valid quota file: by the last valid one, {self.otherwise.words(now)};"
            f" the newest is not in force: {self.problem}"
        )
