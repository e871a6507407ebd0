"""Which users are members of what, and which project a request is charged to."""

from __future__ import annotations

import pytest

from quota import NOTHING, Project, parse
from quota.refusal import AmbiguousProject, NoProject, NotMember, UnknownProject
from quota.tree import People
from quota.value import replace
from tests.quota.files import FIRST

QUOTA = parse(FIRST)


@pytest.mark.parametrize(
    ("written", "user", "member"),
    [
        ("ann", "ann", True),
        ("ann", "anna", False),
        ("jo.doe@x.org", "jo.doe@x.org", True),
        ("jo.doe", "joxdoe", False),
        ("team-.*", "team-7", True),
        ("team-.*", "my-team-7", False),
        ("team-.*", "team-7\n", False),
        ("ann|bob", "bob", True),
        ("jo+ml@x.org", "jo+ml@x.org", True),
        (".*", "anybody", True),
    ],
)
def test_members_are_names_or_patterns_of_whole_names(
    written: str, user: str, member: bool
) -> None:
    """A plain name means only itself, dots included; a pattern must match the whole name."""
    assert People(written=(written,)).has(user) == member
    assert Project(name="p", members=People(written=(written,))).has_member(user) == member


@pytest.mark.filterwarnings("error")
def test_an_expression_that_a_later_python_may_read_differently_warns_of_nothing() -> None:
    """A user of the command line would see a line of our code."""
    assert People(written=("[[a]b",)).has("[b")


def test_projects_of_a_user_are_sorted() -> None:
    """Every project that lists the user, by name."""
    assert QUOTA.projects_of("user1") == ("project1", "project2")
    assert QUOTA.projects_of("user3") == ("project2",)
    assert QUOTA.projects_of("nobody") == ()


@pytest.mark.parametrize(
    ("user", "project", "expected"),
    [
        ("user1", "project2", "project2"),
        ("user2", None, "project1"),
        ("user1", None, AmbiguousProject(user="user1", projects=("project1", "project2"))),
        ("nobody", None, NoProject(user="nobody")),
        ("user2", "project2", NotMember(user="user2", project="project2", projects=("project1",))),
        (
            "user3",
            "projct2",
            UnknownProject(project="projct2", nearest="project2", projects=("project2",)),
        ),
        ("nobody", "x", UnknownProject(project="x", nearest="", projects=())),
        ("user2", "", UnknownProject(project="", nearest="", projects=("project1",))),
    ],
)
def test_a_request_is_charged_to_one_project_or_refused(
    user: str, project: str | None, expected: object
) -> None:
    """It is the named project, else the only one; every refusal has one of four causes."""
    assert QUOTA.resolve_project(user, project) == expected


@pytest.mark.parametrize(
    ("user", "project", "text"),
    [
        ("user1", None, "user1 has several projects, name one of project1, project2"),
        ("nobody", None, "nobody is not a member of any project; ask an admin of the quota file"),
        ("user2", "project2", "user2 is not a member of project2, yours are project1"),
        ("nobody", "project2", "nobody is not a member of project2, you are a member of none"),
        (
            "user2",
            "projct2",
            "projct2 is not in the quota file, nearest is project2, yours are project1",
        ),
        ("user2", "x", "x is not in the quota file, yours are project1"),
    ],
)
def test_a_refusal_says_what_to_do(user: str, project: str | None, text: str) -> None:
    """The whole text of every refusal."""
    assert str(QUOTA.resolve_project(user, project)) == text


def test_a_project_that_is_not_in_the_file_has_nothing() -> None:
    """It has no members, no share and no headroom; asking for it is no error."""
    gone = QUOTA.project("gone")
    assert (gone.nominal, gone.ceiling, gone.lending_limit) == (NOTHING, NOTHING, NOTHING)
    assert not gone.has_member("user1")


def test_a_quota_is_one_line_at_a_prompt() -> None:
    """It shows its totals, and the share of each project; of many, the first ones."""
    assert repr(QUOTA).startswith(f"<{QUOTA.totals}: project1 {QUOTA.projects['project1'].nominal}")
    assert len(repr(QUOTA)) < 200
    assert repr(replace(QUOTA, projects={})) == f"<{QUOTA.totals}: no projects>"
    many = {f"p{n}": Project(name=f"p{n}", members=People(written=(".*",))) for n in range(20)}
    assert repr(replace(QUOTA, projects=many)).endswith("p7 nothing and 12 more>")
