"""The meaning of the tables about users, groups and maintenance, and errors in them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quota import Amounts, Limits, QuotaError, Window, parse
from tests.quota.files import LIMITS, OPTIONS, SMALLER

QUOTA = parse(SMALLER + LIMITS)
BODY = (
    '[toml-schema]\nversion = "1"\n[total_resources]\nv4 = 8\n'
    "[project_membership]\np = ['u']\nq = ['v']\n"
)
DURATION = "is not allowed, write a duration above 0, such as 90m, 8h or 3d"


def test_limits_of_users_are_read() -> None:
    """Limits of all users are replaced by specific ones: a name comes before a pattern."""
    project = QUOTA.project("project2")
    everyone = Limits(
        default_max_runtime_s=8 * 3600.0,
        max_max_runtime_s=3 * 86400.0,
        max_units={"v4": 128},
        max_running=16,
    )
    assert project.limits_of("user1") == everyone
    assert project.limits_of("user3").max_units == {"v4": 256}
    assert project.limits_of("user3").max_running == 16
    intern = project.limits_of("intern-7")
    assert (intern.default_max_runtime_s, intern.max_max_runtime_s) == (8 * 3600.0, 9 * 3600.0)
    assert (intern.max_units, intern.max_running) == ({"v4": 128}, 2)
    assert (project.borrow, project.weight) == (False, 2.5)


def test_a_project_without_limits_has_none() -> None:
    """By default it borrows, has a weight of one, and limits no user."""
    project = QUOTA.project("project1")
    assert (project.borrow, project.weight, project.limits_of("user1")) == (True, 1.0, Limits())


def test_groups_are_read() -> None:
    """Share, ceiling and lending are in whole units; without a share, the members' sum counts."""
    lab, team = QUOTA.groups["lab"], QUOTA.groups["team"]
    assert lab.members == ("project2", "team")
    assert lab.nominal == Amounts({"v4": 614})
    assert lab.ceiling == Amounts({"v4": 819})
    assert lab.lending_limit == Amounts({"v4": 307})
    assert lab.weight == 3
    assert team.nominal == QUOTA.project("project1").nominal == Amounts({"v4": 256})
    assert team.ceiling == QUOTA.totals
    assert [group.name for group in QUOTA.groups_of("project1")] == ["team", "lab"]
    assert QUOTA.unassigned == Amounts({"v4": 410})


def test_windows_are_read_in_the_order_of_time() -> None:
    """Times are epoch seconds, whatever UTC offset they are written with."""
    first, second = QUOTA.maintenance
    assert first == Window(
        starts_at=1796454000.0, ends_at=1796490000.0, pools=("pod",), reason="new cooling"
    )
    assert second.machines == ("host-3",)
    assert second.ends_at == 1796580000.0


def test_a_place_is_told_with_its_line() -> None:
    """It is the line that an admin would change, or the table above a missing key."""
    assert (
        QUOTA.place("project_groups", "lab", "lend", "v4") == "project_groups.lab.lend.v4, line 34"
    )
    assert QUOTA.place("project_options", "project2", "admins") == (
        "project_options.project2.admins, line 16"
    )


def test_shares_inside_a_group_are_parts_of_its_units() -> None:
    """Each level is divided by largest remainder, and what no member claims is the group's."""
    text = BODY + "[project_resources]\np.v4 = 0.25\nq.v4 = 0.25\n"
    text += "[project_groups.g]\nmembers = ['p', 'q']\nshare = { v4 = 0.7 }\n"
    quota = parse(text.replace("v4 = 8", "v4 = 7"))
    assert quota.groups["g"].nominal == Amounts({"v4": 5})
    assert [quota.project(name).nominal["v4"] for name in "pq"] == [2, 2]


def test_idle_capacity_goes_by_share_and_weight() -> None:
    """A weight multiplies the share; no share counts less than any share."""
    text = BODY + "g = ['w']\n[project_resources]\np.v4 = 0.75\nq.v4 = 0.125\n"
    quota = parse(text + "[project_options.q]\nweight = 4\n")
    assert (quota.weight("p"), quota.weight("q")) == (0.75, 0.5)
    assert 0 < quota.weight("g") == quota.weight("gone") < 0.125


TABLE = [
    (
        "[project_options.p]\nborrow = 'no'\nweight = 0\n",
        [
            'line 9: project_options.p.borrow: "no" is not allowed, write true or false',
            "line 10: project_options.p.weight: 0 is not allowed, "
            "write a number above 0 and at most 1000",
        ],
    ),
    (
        "[project_options.p]\ndefault_max_runtime = '8 hours'\nmax_max_runtime = 0\n",
        [
            f'line 9: project_options.p.default_max_runtime: "8 hours" {DURATION}',
            f"line 10: project_options.p.max_max_runtime: 0 {DURATION}",
        ],
    ),
    (
        "[project_options.p]\ndefault_max_runtime = '3d'\nmax_max_runtime = '2d'\n",
        [
            "line 9: project_options.p.default_max_runtime: default_max_runtime 259200 s is above "
            "max_max_runtime 172800 s, write a default of at most that"
        ],
    ),
    (
        "[project_groups]\nmembers = ['p']\n",
        ["line 9: project_groups.members: a list is not a table"],
    ),
    (
        "[project_options.p]\ndefault_max_runtime = '14d'\nmax_max_runtime = 1209599\n",
        [
            "line 9: project_options.p.default_max_runtime: default_max_runtime 1209600 s is above "
            "max_max_runtime 1209599 s, write a default of at most that"
        ],
    ),
    (
        "[project_options.p]\ndefault_max_runtime = '3d'\n[project_options.p.users.u]\n"
        "max_max_runtime = '2d'\n",
        [
            "line 11: project_options.p.users.u.max_max_runtime: default_max_runtime 259200 s is "
            "above max_max_runtime 172800 s, write a default of at most that"
        ],
    ),
    (
        "[project_options.p]\nmax_units_per_user = { v5 = 1, v4 = -1 }\n"
        "max_running_per_user = 1.5\n",
        [
            "line 9: project_options.p.max_units_per_user.v5: a type without total_resources, "
            "allowed is v4",
            "line 9: project_options.p.max_units_per_user.v4: -1 is not allowed, "
            "write a whole number from 0 to 1000000000",
            "line 10: project_options.p.max_running_per_user: 1.5 is not allowed, "
            "write a whole number from 0 to 1000000000",
        ],
    ),
    (
        "[project_options.p]\nbudget = { v5 = 1, v4 = 0 }\nbudget_period = 'fortnight'\n",
        [
            "line 9: project_options.p.budget.v5: a type without total_resources, allowed is v4",
            "line 9: project_options.p.budget.v4: 0 is not allowed, "
            "write a whole number from 1 to 1000000000000",
            'line 10: project_options.p.budget_period: "fortnight" is unknown, allowed are day, '
            "month, quarter, week, year",
        ],
    ),
    (
        "[project_groups.g]\nmembers = ['p']\nbudget_period = 'week'\n",
        [
            "line 10: project_groups.g.budget_period: a period without a budget, "
            "write budget = { TYPE = HOURS } too",
        ],
    ),
    (
        "[project_options.p.users.'(']\nmax_run = 3\n",
        [
            "line 8: project_options.p.users.'(': \"(\" is not a regular expression "
            "(missing ), unterminated subpattern at position 0), "
            "write a name or a pattern that matches a whole name",
            "line 9: project_options.p.users.'('.max_run: unknown key, allowed are "
            "default_max_runtime, max_max_runtime, max_running, max_units, nearest is max_running",
        ],
    ),
    (
        "[project_groups.p]\nmembers = ['q']\n[project_groups.'a b']\nmembers = []\n",
        [
            "line 8: project_groups.p: a project has this name, give the group another",
            "line 10: project_groups.'a b': not a name of a group, write letters, digits, dots, "
            "dashes and underscores",
            "line 11: project_groups.'a b'.members: a group without members, "
            "name at least one project or group",
        ],
    ),
    (
        "[project_groups.g]\nmember = ['q']\n",
        [
            "line 8: project_groups.g.members: a group without members, "
            "name at least one project or group",
            "line 9: project_groups.g.member: unknown key, allowed are budget, budget_period, "
            "ceiling, lend, members, share, weight, nearest is members",
        ],
    ),
    (
        "[project_groups.g]\nmembers = 'q'\n[project_groups.h]\nmembers = ['pp', 3]\n",
        [
            'line 9: project_groups.g.members: "q" is not a list, '
            "write a list of projects and groups",
            "line 11: project_groups.h.members[1]: 3 is not allowed, write projects and groups",
            "line 11: project_groups.h.members[0]: no project and no group, "
            "allowed are g, p, q, nearest is p",
        ],
    ),
    (
        "[project_groups.g]\nmembers = ['p', 'q', 'p']\n[project_groups.h]\nmembers = ['q']\n",
        [
            "line 9: project_groups.g.members[2]: p is in g already, list it once",
            "line 11: project_groups.h.members[0]: q is in g already, list it once",
        ],
    ),
    (
        "[project_groups.g]\nmembers = ['h']\n[project_groups.h]\nmembers = ['p', 'g']\n",
        [
            "line 9: project_groups.g.members: g is inside itself (g in h in g), "
            "take one of them out"
        ],
    ),
    (
        "[project_groups.g]\nmembers = ['p', 'q']\nshare = { v4 = 0.4 }\nceiling = { v4 = 0.3 }\n"
        "[project_resources]\np.v4 = 0.3\nq.v4 = 0.2\n",
        [
            "line 10: project_groups.g.share.v4: 0.4 is below what its members have together, "
            "write at least 0.5",
            "line 11: project_groups.g.ceiling.v4: 0.3 is below the group's share, "
            "write at least 0.4",
        ],
    ),
    (
        "[project_groups.g]\nmembers = ['p']\nshare = { v4 = 0.9 }\n"
        "[project_resources]\np.v4 = 0.3\nq.v4 = 0.2\n",
        [
            "line 10: project_groups.g.share.v4: the fractions of v4 add up to 1.1 "
            "(q 0.2, g 0.9), allowed is at most 1"
        ],
    ),
    (
        "[project_groups.g]\nmembers = ['pp']\nshare = { v4 = 0.7 }\n"
        "[project_groups.h]\nmembers = ['g']\nshare = { v4 = 0.8 }\n"
        "[project_resources]\np.v4 = 0.7\n",
        [
            "line 9: project_groups.g.members[0]: no project and no group, "
            "allowed are h, p, q, nearest is p"
        ],
    ),
    (
        "[project_groups.g]\nmembers = ['p', 'q']\n[project_resources]\np.v4 = 0.7\nq.v4 = 0.5\n",
        [
            "line 12: project_resources.q.v4: the fractions of v4 add up to 1.2 (p 0.7, q 0.5), "
            "allowed is at most 1"
        ],
    ),
    (
        "[maintenance]\n",
        ["line 8: maintenance: not a list of windows, write [[maintenance]] above each of them"],
    ),
    (
        "[[maintenance]]\nfrom = 2026-12-05T08:00:00\nuntil = '18:00'\npool = 'x'\n",
        [
            "line 9: maintenance[0].from: 2026-12-05 08:00:00 has no time zone, "
            "write its offset, as 2026-12-05T08:00:00+01:00, or Z for UTC",
            'line 10: maintenance[0].until: "18:00" is not a time, '
            "write one as 2026-12-05T08:00:00+01:00",
            "line 11: maintenance[0].pool: unknown key, allowed are from, machines, pools, "
            "reason, until, nearest is pools",
        ],
    ),
    (
        "[[maintenance]]\nfrom = 2026-12-05T08:00:00Z\nuntil = 2026-12-05T08:00:00Z\npools = []\n",
        [
            "line 10: maintenance[0].until: not after from, write a later time",
            "line 11: maintenance[0].pools: no pools, name some, or leave it out for everything",
        ],
    ),
    (
        "[[maintenance]]\nuntil = 0001-01-01T00:00:00+14:00\nreason = \"a\\nb\"\nmachines = ['']\n",
        [
            "line 8: maintenance[0].from: missing, write a time as 2026-12-05T08:00:00+01:00",
            "line 9: maintenance[0].until: 0001-01-01 00:00:00+14:00 is not allowed, "
            "write a year from 2000 to 2999",
            'line 10: maintenance[0].reason: "a\\nb" is not allowed, '
            "write a line of at most 200 characters",
            'line 11: maintenance[0].machines[0]: "" is not allowed, write names of machines',
        ],
    ),
]


@pytest.mark.parametrize(("text", "expected"), TABLE)
def test_every_problem_is_told_once_with_its_line(text: str, expected: list[str]) -> None:
    """The texts are exact, in the order of the file."""
    with pytest.raises(QuotaError) as caught:
        parse(BODY + text)
    assert [str(problem) for problem in caught.value.problems] == expected


def test_groups_nest_to_a_depth() -> None:
    """Eight levels around a project are allowed, nine are not."""
    groups = "".join(
        f"[project_groups.g{n}]\nmembers = ['{f'g{n - 1}' if n else 'p'}']\n" for n in range(9)
    )
    with pytest.raises(QuotaError) as caught:
        parse(BODY + groups)
    (problem,) = caught.value.problems
    assert str(problem) == (
        "line 8: project_groups.g0: more than 8 groups inside each other, take it out of one"
    )
    deepest = groups.replace("[project_groups.g8]\nmembers = ['g7']\n", "")
    assert len(parse(BODY + deepest).groups_of("p")) == 8


def test_deeply_nested_groups_are_checked_in_few_steps() -> None:
    """Even if many groups are nested or form a cycle, each is considered a few times."""
    for last in ("'p'", "'g4999'"):
        text = "".join(
            f"[project_groups.g{n}]\nmembers = [{f'{chr(39)}g{n - 1}{chr(39)}' if n else last}]\n"
            for n in range(5000)
        )
        with pytest.raises(QuotaError) as caught:
            parse(BODY + text)
        assert len(caught.value.problems) > 4900


def test_only_the_first_wrong_words_are_told_with_the_nearest() -> None:
    """A file of wrong names takes no minutes: after twenty, only the allowed names are shown."""
    text = "".join(f"[project_resources.vision{n}]\nv4 = 0\n" for n in range(30))
    with pytest.raises(QuotaError) as caught:
        parse(BODY.replace("p = ", "vision = ") + text)
    told = [each.text.endswith(", nearest is vision") for each in caught.value.problems]
    assert told == [True] * 20 + [False] * 10


@given(
    st.integers(0, len(SMALLER + OPTIONS + LIMITS) - 1),
    st.sampled_from([*"[]={}\"'.,#\n a1-", "g", "p", ":"]),
)
def test_any_slip_of_the_finger_is_survived(place: int, typed: str) -> None:
    """A file with one changed character is a quota or a list of problems."""
    text = SMALLER + OPTIONS + LIMITS
    try:
        parse(text[:place] + typed + text[place + 1 :])
    except QuotaError as error:
        assert error.problems
