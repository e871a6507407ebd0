"""What a project can never hold, and what an admin would change for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quota import Amounts, Quota, ledger, parse
from quota.reach import beyond_reach
from tests.quota import trees
from tests.quota.trees import PROJECTS, TYPES, amounts, quotas

BODY = """\
[toml-schema]
version = "1"
[total_resources]
h100 = 16
[project_membership]
p = ["u"]
q = ["v"]
[project_resources]
p.h100 = 0.25
q.h100 = 0.5
"""
ENDS = "ask for less, or an admin changes"


@given(quotas(), st.sampled_from(PROJECTS), amounts)
def test_what_is_out_of_reach_is_what_no_end_of_others_would_give(
    quota: Quota, project: str, asked: Amounts
) -> None:
    """For every type, it is exactly what could not be held while all others hold nothing."""
    found = {each.resource: each for each in beyond_reach(quota, project, asked)}
    for resource in TYPES:
        could = trees.may_hold(quota, {}, project, resource, asked[resource])
        assert (resource in found) == (bool(asked[resource]) and not could)
        if not could and asked[resource]:
            assert found[resource].most == ledger.reach(quota, project)[resource]
            assert found[resource].walls


@pytest.mark.parametrize(
    ("more", "asked", "text"),
    [
        (
            "[project_options.q]\nlend = { h100 = 0 }\n",
            9,
            "asks for 9 h100, and p can never hold more than 8: q keeps 8 h100 that it does not "
            f"lend; {ENDS} project_options.q.lend.h100, line 12",
        ),
        (
            "[project_options.p]\nceiling = { h100 = 0.5 }\n",
            9,
            "asks for 9 h100, and p can never hold more than 8: the ceiling of p is 8 h100; "
            f"{ENDS} project_options.p.ceiling.h100, line 12",
        ),
        (
            "[project_options.p]\nborrow = false\n",
            17,
            "asks for 17 h100, and p can never hold more than 4: with borrow = false it has only"
            f" its share of 4 h100; the totals are 16 h100; {ENDS} project_options.p.borrow, "
            "line 12 and total_resources.h100, line 4",
        ),
        (
            "[project_groups.g]\nmembers = ['p', 'q']\nceiling = { h100 = 0.75 }\n"
            "[project_options.q]\nlend = { h100 = 0.5 }\n",
            13,
            "asks for 13 h100, and p can never hold more than 8: the ceiling of g is 12 h100; "
            f"q keeps 4 h100 that it does not lend; {ENDS} project_groups.g.ceiling.h100, line 13 "
            "and project_options.q.lend.h100, line 15",
        ),
        (
            "[project_groups.g]\nmembers = ['q']\nlend = { h100 = 0.25 }\n",
            12,
            "asks for 12 h100, and p can never hold more than 10: g keeps 6 h100 that it does not "
            f"lend; {ENDS} project_groups.g.lend.h100, line 13",
        ),
    ],
)
def test_every_wall_is_named_with_its_line(more: str, asked: int, text: str) -> None:
    """The error has the number that holds, why, and what an admin would change."""
    (found,) = beyond_reach(parse(BODY + more), "p", Amounts({"h100": asked, "cpu": 99}))
    assert str(found) == text


def test_what_members_keep_is_told_of_them() -> None:
    """If a group keeps less than its members do, their lines are those to change."""
    text = BODY + "[project_groups.g]\nmembers = ['q']\n[project_options.q]\nlend.h100 = 0\n"
    (found,) = beyond_reach(parse(text), "p", Amounts({"h100": 9}))
    assert [wall.place for wall in found.walls] == ["project_options.q.lend.h100, line 14"]
