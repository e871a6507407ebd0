"""One department of two teams beside a separate project: the states that must be right."""

from __future__ import annotations

import pytest

from quota import NOTHING, Amounts, ledger, parse

FILE = """\
[toml-schema]
version = "1"
[total_resources]
h100 = 16
[project_membership]
vision = ["ann"]
speech = ["bob"]
sales = ["cid"]
[project_resources]
vision.h100 = 0.25
speech.h100 = 0.25
sales.h100 = 0.375
[project_groups.research]
members = ["vision", "speech"]
share = { h100 = 0.625 }
"""
"""vision has 4, speech 4, research 2 more, sales 6."""

QUOTA = parse(FILE)


def h100(units: int) -> Amounts:
    """Return that many units of the single type of these states."""
    return Amounts({"h100": units})


def test_a_group_may_have_more_than_its_members() -> None:
    """The group's share is cut from the total; its members' shares are parts of it."""
    assert QUOTA.groups["research"].nominal == h100(10)
    shares = {name: project.nominal for name, project in QUOTA.projects.items()}
    assert shares == {"sales": h100(6), "speech": h100(4), "vision": h100(4)}
    assert QUOTA.unassigned == NOTHING


@pytest.mark.parametrize(
    ("asked", "share"), [(4, "vision"), (5, "research"), (10, "research"), (11, "")]
)
def test_the_nearest_share_that_holds_a_request_covers_it(asked: int, share: str) -> None:
    """First comes its own share, then its group's; beyond both, it borrows."""
    assert ledger.covering(QUOTA, {}, "vision", h100(asked)) == share


def test_what_a_sibling_uses_or_keeps_is_not_covered_by_the_group() -> None:
    """What a sibling uses or keeps counts against the group's share."""
    assert ledger.covering(QUOTA, {"speech": h100(4)}, "vision", h100(7)) == ""
    kept = parse(FILE + "[project_options.speech]\nlend = { h100 = 0 }\n")
    assert ledger.covering(kept, {}, "vision", h100(7)) == ""
    assert ledger.covering(kept, {}, "vision", h100(6)) == "research"


def test_members_lend_inside_first() -> None:
    """The group's own units are used first, then the sibling lends, and outside nothing does."""
    usage = {"vision": h100(8)}
    assert ledger.borrowed(QUOTA, usage, "vision") == h100(4)
    assert ledger.borrowed(QUOTA, usage, "research") == NOTHING
    assert ledger.lent(QUOTA, usage)["speech"] == h100(2)
    assert ledger.lent(QUOTA, usage)["sales"] == NOTHING


def test_a_group_that_borrows_has_its_members_lend_the_rest() -> None:
    """Of 8 that vision borrows, 2 are the group's, 4 its sibling's and 2 from outside."""
    usage = {"vision": h100(12)}
    assert ledger.lent(QUOTA, usage)["speech"] == h100(4)
    assert ledger.lent(QUOTA, usage)["sales"] == h100(2)


def test_what_a_group_lends_comes_from_its_members() -> None:
    """The group lends 4 outside: its own 2 first, then one of each member."""
    usage = {"sales": h100(10)}
    assert ledger.lent(QUOTA, usage)["research"] == h100(4)
    assert ledger.lent(QUOTA, usage)["vision"] == ledger.lent(QUOTA, usage)["speech"] == h100(1)


def test_a_job_on_its_groups_share_is_borrowed_for_its_sibling_alone() -> None:
    """It yields to a sibling within its own share, but to no project outside the group."""
    claims = [("vision", h100(4)), ("vision", h100(6)), ("vision", h100(2))]
    assert ledger.covers(QUOTA, claims) == ["vision", "research", ""]
    assert [
        ledger.is_open_to(QUOTA, on, "vision", "speech") for on in ("vision", "research", "")
    ] == [
        False,
        True,
        True,
    ]
    assert [
        ledger.is_open_to(QUOTA, on, "vision", "sales") for on in ("vision", "research", "")
    ] == [
        False,
        False,
        True,
    ]


def test_jobs_on_a_members_share_count_before_those_on_the_groups() -> None:
    """A later job within its project's share leaves less of the group's to an earlier one."""
    claims = [("vision", h100(4)), ("vision", h100(6)), ("speech", h100(4))]
    assert ledger.covers(QUOTA, claims) == ["vision", "", "speech"]


@pytest.mark.parametrize(("asked", "may"), [(10, True), (11, False)])
def test_a_member_reclaims_outside_within_its_groups_share(asked: int, may: bool) -> None:
    """It may do so up to the share of the group, even far above its own."""
    usage = {"sales": h100(16)}
    assert ledger.may_reclaim(QUOTA, usage, "vision", h100(asked), of="sales") == may


def test_a_member_reclaims_inside_within_its_own_share_alone() -> None:
    """A sibling's use beyond its share yields to a share, not to the group's."""
    usage = {"vision": h100(10)}
    assert ledger.may_reclaim(QUOTA, usage, "speech", h100(4), of="vision")
    assert not ledger.may_reclaim(QUOTA, usage, "speech", h100(5), of="vision")
    assert not ledger.may_reclaim(QUOTA, usage, "vision", h100(1), of="vision")


def test_a_ceiling_of_a_group_holds_for_its_members_together() -> None:
    """What one of them holds or keeps leaves less to the other."""
    capped = parse(FILE + "ceiling = { h100 = 0.75 }\n")
    assert ledger.available(capped, {"speech": h100(3)}, "vision") == h100(9)
    kept = parse(FILE + "ceiling = { h100 = 0.75 }\n[project_options.speech]\nlend.h100 = 0\n")
    assert ledger.available(kept, {"speech": h100(3)}, "vision") == h100(8)
    assert ledger.available(kept, {"vision": h100(8)}, "speech") == h100(4)


def test_what_a_group_keeps_its_members_may_have() -> None:
    """It is closed to outside, and open inside."""
    kept = parse(FILE + "lend = { h100 = 0 }\n")
    assert ledger.available(kept, {}, "sales") == h100(6)
    assert ledger.available(kept, {}, "vision") == h100(16)
