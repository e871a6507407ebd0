"""What another quota file would change."""

from __future__ import annotations

from quota import Amounts, MemberChange, QuotaChange, ShareChange, compare, parse
from tests.quota.files import FIRST, LIMITS, OPTIONS, SMALLER

OLD = parse(FIRST)


def test_files_that_mean_the_same_change_nothing() -> None:
    """Comments, order and explicit defaults are no change."""
    same = FIRST.replace('["user1", "user2"]', '["user2", "user1"]') + "[scheduler]\ngrace_s = 30\n"
    assert compare(OLD, parse(same)) == QuotaChange()
    assert not compare(OLD, OLD)


def test_moved_shares_are_told_with_their_difference() -> None:
    """The output says which project gains or loses how many units."""
    new = parse(FIRST.replace("0.6", "0.5").replace("0.4", "0.5"))
    before, after = Amounts({"v4": 614}), Amounts({"v4": 512})
    change = compare(OLD, new)
    assert change.shares[0] == ShareChange(project="project1", before=before, after=after)
    assert [str(share) for share in change.shares] == [
        "project1: 614 v4 -> 512 v4",
        "project2: 410 v4 -> 512 v4",
    ]
    assert [share.difference["v4"] for share in change.shares] == [-102, 102]
    assert not change.members
    assert not change.options


def test_members_who_come_and_go_are_named() -> None:
    """All members of a new project are added, and all of a removed one are removed."""
    text = FIRST.replace('["user1", "user2"]', '["user2", "user4"]').replace("project2", "project3")
    change = compare(OLD, parse(text))
    assert change.members[0] == MemberChange(
        project="project1", added=("user4",), removed=("user1",)
    )
    assert [str(each) for each in change.members] == [
        "members of project1: +user4 -user1",
        "members of project2: -user1 -user3",
        "members of project3: +user1 +user3",
    ]
    assert [str(share) for share in change.shares] == [
        "project2: 410 v4 -> nothing",
        "project3: nothing -> 410 v4",
    ]


def test_options_that_differ_are_told_where_the_file_has_them() -> None:
    """Limits are in units, `all` without a limit, and every scheduler option is covered."""
    change = compare(OLD, parse(FIRST + OPTIONS))
    told = [str(option) for option in change.options]
    assert told[:4] == [
        "project_options.project1.ceiling: all -> 921 v4",
        "project_options.project1.lend: all -> 307 v4",
        "project_options.project1.order: fair -> fifo",
        "project_options.project1.admins: none -> lead-.*, user2",
    ]
    assert "scheduler.order: fair -> las" in told
    assert len(told) == 4 + 12


def test_tiers_and_types_that_differ_are_told() -> None:
    """A tier that shrinks is shown, and a new type under quota, even with a total of zero."""
    new = parse(FIRST.replace("v4 = 1024", "v4 = 1000\nh100 = 0"))
    assert [str(option) for option in compare(OLD, new).options] == [
        "total_resources: 1024 v4 -> 0 h100 + 1000 v4",
    ]


def test_limits_groups_and_windows_that_differ_are_told() -> None:
    """Every new key is shown with its effect, but none that stayed."""
    old, new = parse(SMALLER), parse(SMALLER + LIMITS)
    path = "project_options.project2"
    told = [str(option) for option in compare(old, new).options]
    assert told == [
        f"{path}.borrow: true -> false",
        f"{path}.weight: 1 -> 2.5",
        f"{path}.budget: absent -> 5000 v4 hours a week",
        f"{path}.default_max_runtime: absent -> 28800 s",
        f"{path}.max_max_runtime: absent -> 259200 s",
        f"{path}.max_units_per_user.v4: absent -> 128",
        f"{path}.max_running_per_user: absent -> 16",
        f"{path}.users: absent -> user3, intern-.*",
        f"{path}.users.intern-.*.default_max_runtime: absent -> 28800 s",
        f"{path}.users.intern-.*.max_max_runtime: absent -> 32400 s",
        f"{path}.users.intern-.*.max_units.v4: absent -> 128",
        f"{path}.users.intern-.*.max_running: absent -> 2",
        f"{path}.users.user3.default_max_runtime: absent -> 28800 s",
        f"{path}.users.user3.max_max_runtime: absent -> 259200 s",
        f"{path}.users.user3.max_units.v4: absent -> 256",
        f"{path}.users.user3.max_running: absent -> 16",
        "project_groups.lab.members: absent -> project2, team",
        "project_groups.lab.share: absent -> 614 v4",
        "project_groups.lab.ceiling: absent -> 819 v4",
        "project_groups.lab.lend: absent -> 307 v4",
        "project_groups.lab.weight: absent -> 3",
        "project_groups.lab.budget: absent -> 9000 v4 hours a month",
        "project_groups.team.members: absent -> project1",
        "project_groups.team.share: absent -> 256 v4",
        "project_groups.team.ceiling: absent -> all",
        "project_groups.team.lend: absent -> all",
        "project_groups.team.weight: absent -> 1",
        "maintenance[2026-12-05T07:00+00:00]: absent -> "
        "pod from 2026-12-05 07:00 to 2026-12-05 17:00 UTC: new cooling",
        "maintenance[2026-12-06T07:00+00:00]: absent -> "
        "host-3 from 2026-12-06 07:00 to 2026-12-06 18:00 UTC",
    ]
    assert not compare(new, new)


def test_a_project_that_is_new_is_told_with_its_options() -> None:
    """Only options that its admin has written are shown; a removed one only shows its share."""
    new = "[project_membership]\nteam = ['ann']"
    added = FIRST.replace("[project_membership]", new) + "[project_options.team]\nborrow = false\n"
    path = "project_options.team"
    assert [str(each) for each in compare(OLD, parse(added)).options] == [
        f"{path}.borrow: true -> false"
    ]
    assert not compare(parse(added), OLD).options
    assert [str(each) for each in compare(parse(added), OLD).members] == ["members of team: -ann"]


def test_the_order_of_patterns_of_users_is_a_change() -> None:
    """The first pattern that matches counts, and an entry without keys exempts its users."""
    users = "[project_options.project1.users."
    few, many = f"{users}'u.*']\nmax_running = 1\n", f"{users}'us.*']\nmax_running = 2\n"
    old = parse(FIRST + few + many)
    path = "project_options.project1.users"
    assert [str(each) for each in compare(old, parse(FIRST + many + few)).options] == [
        f"{path}: u.*, us.* -> us.*, u.*"
    ]
    exempt = parse(FIRST + few + many + f"{users}user1]\n")
    assert [str(each) for each in compare(old, exempt).options] == [
        f"{path}: u.*, us.* -> user1, u.*, us.*"
    ]
    named = [f"{users}{name}]\nmax_running = 3\n" for name in ("user1", "user2")]
    same = parse(FIRST + "".join(named)), parse(FIRST + "".join(reversed(named)))
    assert not compare(*same), "names match one user each: their order means nothing"


def test_numbers_are_shown_with_every_digit() -> None:
    """Two weeks and a second are more than two weeks."""
    options = "[project_options.project1]\nmax_max_runtime = {}\nweight = {}\n"
    old, new = (
        parse(FIRST + options.format(*each)) for each in ((1209600, 2), (1209601, 2.0000001))
    )
    path = "project_options.project1"
    assert [str(each) for each in compare(old, new).options] == [
        f"{path}.weight: 2 -> 2.0000001",
        f"{path}.max_max_runtime: 1209600 s -> 1209601 s",
    ]
