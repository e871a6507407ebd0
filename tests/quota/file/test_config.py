"""The meaning of a quota file, and every error message about one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quota import NOTHING, Amounts, QuotaError, SchedulerOptions, Tier, parse
from tests.quota.files import FIRST, OPTIONS

HEAD = '[toml-schema]\nversion = "1"\n'


def problems(text: str) -> list[str]:
    """Return the problems that `parse` finds in `text`."""
    with pytest.raises(QuotaError) as caught:
        parse(text)
    return [str(problem) for problem in caught.value.problems]


def test_the_first_three_tables_alone_are_a_quota() -> None:
    """A file of existing users works unchanged, and everything else has its default."""
    quota = parse(FIRST)
    assert quota.tiers == (Tier(name="0", units=Amounts({"v4": 1024})),)
    assert quota.totals == Amounts({"v4": 1024})
    assert quota.types == {"v4"}
    assert quota.unassigned == NOTHING
    assert quota.scheduler == SchedulerOptions()
    project = quota.project("project1")
    assert project.nominal == Amounts({"v4": 614})
    assert quota.project("project2").nominal == Amounts({"v4": 410})
    assert project.ceiling == quota.totals
    assert project.lending_limit == project.nominal
    assert project.order == "fair"


def test_every_option_is_read() -> None:
    """Each option of a project and of the scheduler is read as written."""
    quota = parse(FIRST + OPTIONS)
    project = quota.project("project1")
    assert project.ceiling == Amounts({"v4": 921})
    assert project.lending_limit == Amounts({"v4": 307})
    assert project.kept == Amounts({"v4": 307})
    assert project.order == "fifo"
    assert project.has_admin("lead-7")
    assert not project.has_admin("user1")
    assert quota.scheduler == SchedulerOptions(
        min_runtime_s=60.0,
        grace_s=10.5,
        max_grace_s=100.0,
        plan_after_s=0.0,
        borrow_slice_s=10_000.0,
        usage_half_life_s=3600.0,
        order="las",
        admission="load-limit",
        placement="spread",
        preemption="order",
        max_queued_per_user=7,
        load_limit=1.5,
    )


def test_tiers_are_added_before_they_are_divided() -> None:
    """Shares are fractions of the sum of all tiers, best first, named or numbered."""
    tiers = (
        "[[total_resources]]\nname = 'reserved'\nv4 = 100\n[[total_resources]]\nv4 = 25\nh100 = 0\n"
    )
    quota = parse(
        FIRST.replace(
            "[total_resources]            # whole units by resource type\nv4 = 1024\n", tiers
        )
    )
    assert quota.tiers == (
        Tier(name="reserved", units=Amounts({"v4": 100})),
        Tier(name="1", units=Amounts({"v4": 25})),
    )
    assert quota.types == {"v4", "h100"}
    assert quota.project("project1").nominal == Amounts({"v4": 75})
    assert quota.project("project2").nominal == Amounts({"v4": 50})


def test_a_total_of_zero_is_under_quota() -> None:
    """A type with a total of zero is one that no project may hold, not one that all may."""
    quota = parse(FIRST.replace("v4 = 1024", "v4 = 1024\nh100 = 0"))
    assert "h100" in quota.types
    assert quota.project("project1").ceiling == Amounts({"v4": 1024})


def test_a_project_without_a_fraction_may_only_borrow() -> None:
    """It has members and no share, and may hold as much as any other."""
    project = parse(FIRST.replace("[project_membership]", "[project_membership]\nextra = ['x']"))
    assert project.project("extra").nominal == NOTHING
    assert project.project("extra").ceiling == Amounts({"v4": 1024})


def test_a_ceiling_never_cuts_the_share() -> None:
    """If rounding gives a project the odd unit, its ceiling of the same fraction has it too."""
    text = FIRST.replace("1024", "5").replace("0.6", "0.5").replace("0.4", "0.5")
    project = parse(text + "[project_options.project1]\nceiling = {v4 = 0.5}\n").project("project1")
    assert project.nominal == project.ceiling == Amounts({"v4": 3})


def test_fractions_add_up_as_the_decimals_they_are() -> None:
    """Ten times 0.1 is 1, regardless of binary floats."""
    names = [f"p{i}" for i in range(10)]
    text = HEAD + "[total_resources]\nv4 = 7\n[project_membership]\n"
    text += "".join(f"{name} = ['u']\n" for name in names)
    text += "".join(f"[project_resources.{name}]\nv4 = 0.1\n" for name in names)
    quota = parse(text)
    assert Amounts.sum(quota.project(name).nominal for name in names) == Amounts({"v4": 7})


BODY = HEAD + "[total_resources]\nv4 = 8\n[project_membership]\np = ['u']\nq = ['v']\n"
UNKNOWN_TABLES = (
    "maintenance, project_groups, project_membership, project_options, project_resources, "
    "scheduler, toml-schema, total_resources"
)
UNKNOWN_OPTIONS = (
    "admission, borrow_slice_s, grace_s, load_limit, max_grace_s, max_queued_per_user, "
    "min_runtime_s, order, placement, plan_after_s, preemption, usage_half_life_s"
)
FRACTION = "is not allowed, write a fraction from 0 to 1"
TABLE = [
    # text that is not TOML
    ("a = \n", ["line 1: not TOML, Invalid value at column 5"]),
    ("a = 1\na = 2\n", ["line 2: not TOML, Cannot overwrite a value at column 6"]),
    ('\n\na = """\n', ["line 4: not TOML, Unterminated string"]),
    ("a = " + "[" * 100_000, ["line 1: not TOML, lists or tables are nested too deep"]),
    # what the whole file needs
    (
        "",
        [
            'line 1: toml-schema.version: missing, allowed is "1"',
            "line 1: total_resources: missing, give the whole units of every resource type",
            "line 1: project_membership: missing, list the users of every project",
        ],
    ),
    (
        BODY.replace('"1"', "1"),
        ['line 2: toml-schema.version: 1 is not supported, allowed is "1"'],
    ),
    (
        BODY.replace('"1"', '"2"\nkind = 3'),
        [
            'line 2: toml-schema.version: "2" is not supported, allowed is "1"',
            "line 3: toml-schema.kind: unknown key, allowed is version",
        ],
    ),
    (
        BODY + "[project_resource.p]\nv4 = 1\n",
        [
            f"line 8: project_resource: unknown key, allowed are {UNKNOWN_TABLES}, "
            "nearest is project_resources"
        ],
    ),
    ("scheduler = 1\n" + BODY, ["line 1: scheduler: 1 is not a table"]),
    # totals
    (
        BODY.replace("8", "-8"),
        [
            "line 4: total_resources.v4: -8 is not allowed, "
            "write a whole number from 0 to 1000000000"
        ],
    ),
    (
        BODY.replace("8", "8.5"),
        [
            "line 4: total_resources.v4: 8.5 is not allowed, "
            "write a whole number from 0 to 1000000000"
        ],
    ),
    (
        BODY.replace(
            "[total_resources]\nv4 = 8",
            "[[total_resources]]\nname='a'\nv4 = true\n"
            "[[total_resources]]\nname = 'a'\n[[total_resources]]\nname = 3",
        ),
        [
            "line 5: total_resources[0].v4: true is not allowed, "
            "write a whole number from 0 to 1000000000",
            'line 7: total_resources[1].name: "a" is not allowed, '
            "write a name that no other tier has",
            "line 9: total_resources[2].name: 3 is not allowed, "
            "write a name that no other tier has",
        ],
    ),
    (
        "total_resources = 'v4'\n"
        + BODY.replace("[total_resources]\nv4 = 8\n", "")
        + "[project_resources.p]\nv4 = 0.5\n",
        ['line 1: total_resources: "v4" is not a table'],
    ),
    # members
    (
        BODY.replace("['v']", "[]"),
        ["line 7: project_membership.q: a project without members, name at least one user"],
    ),
    (
        BODY.replace("['v']", "'v'"),
        ['line 7: project_membership.q: "v" is not a list of users, write ["user1", "user2"]'],
    ),
    (
        BODY.replace("['v']", "[\n  'v',\n  '(',\n  3,\n]"),
        [
            'line 9: project_membership.q[1]: "(" is not a regular expression '
            "(missing ), unterminated subpattern at position 0), "
            "write a name or a pattern that matches a whole name",
            "line 10: project_membership.q[2]: 3 is not a user, write a name or a pattern",
        ],
    ),
    (
        BODY.replace("['v']", "['*', '*@lab.org', 'a*(']"),
        [
            'line 7: project_membership.q[0]: "*" is not a regular expression '
            '(nothing to repeat at position 0), write ".*"',
            'line 7: project_membership.q[1]: "*@lab.org" is not a regular expression '
            '(nothing to repeat at position 0), write ".*@lab.org"',
            'line 7: project_membership.q[2]: "a*(" is not a regular expression '
            "(missing ), unterminated subpattern at position 2), "
            "write a name or a pattern that matches a whole name",
        ],
    ),
    (
        BODY.replace("q =", "'q/r' ="),
        [
            "line 7: project_membership.'q/r': not a project name, write up to 63 letters, "
            "digits, dots, dashes and underscores, a letter or digit first"
        ],
    ),
    (
        BODY.replace("q =", "q-bastion ="),
        [
            "line 7: project_membership.q-bastion: "
            "names that end in -bastion are those of bastions",
        ],
    ),
    # fractions
    (
        BODY + "[project_resources.p]\nv4 = 1.2\n",
        [f"line 9: project_resources.p.v4: 1.2 {FRACTION}"],
    ),
    (
        BODY + "[project_resources.p]\nv4 = -0.1\n",
        [f"line 9: project_resources.p.v4: -0.1 {FRACTION}"],
    ),
    (
        BODY + "[project_resources.p]\nv4 = true\n",
        [f"line 9: project_resources.p.v4: true {FRACTION}"],
    ),
    (
        BODY + "[project_resources.p]\nv4 = nan\n",
        [f"line 9: project_resources.p.v4: NaN {FRACTION}"],
    ),
    (
        BODY + "[project_resources.p]\nv4 = 1e-999999999\n",
        [f"line 9: project_resources.p.v4: 1E-999999999 {FRACTION}"],
    ),
    (
        BODY + "[project_resources.p]\nv4 = 0e999999999\n",
        [f"line 9: project_resources.p.v4: 0E+999999999 {FRACTION}"],
    ),
    (
        BODY + "[project_resources.p]\nv4 = 1e-9999999999999999999999\n",
        [f"line 9: project_resources.p.v4: NaN {FRACTION}"],
    ),
    (
        BODY + "[project_resources.p]\nv44 = 0.5\nh100 = 0.5\n",
        [
            "line 9: project_resources.p.v44: a type without total_resources, allowed is v4, "
            "nearest is v4",
            "line 10: project_resources.p.h100: a type without total_resources, allowed is v4",
        ],
    ),
    (
        BODY + "[project_resources.p]\nv4 = 0.6\n[project_resources.q]\nv4 = 0.50\n",
        [
            "line 11: project_resources.q.v4: the fractions of v4 add up to 1.1 (p 0.6, q 0.50), "
            "allowed is at most 1"
        ],
    ),
    (
        BODY + "[project_resources.p]\nv4 = 1\n[project_resources.q]\nv4 = 1e-50\n",
        [
            "line 11: project_resources.q.v4: the fractions of v4 add up to "
            "1.00000000000000000000000000000000000000000000000001 (p 1, q 1E-50), "
            "allowed is at most 1"
        ],
    ),
    (
        BODY + "[project_resources.pp]\nv4 = 0.5\n",
        [
            "line 8: project_resources.pp: not a project of project_membership, "
            "allowed are p, q, nearest is p"
        ],
    ),
    # options of projects
    (
        BODY + "[project_options.p]\nceilin = {}\norder = 'fif'\nadmins = 'u'\n",
        [
            "line 9: project_options.p.ceilin: unknown key, allowed are admins, borrow, budget, "
            "budget_period, ceiling, default_max_runtime, lend, max_max_runtime, "
            "max_running_per_user, max_units_per_user, order, users and 1 more, nearest is ceiling",
            'line 10: project_options.p.order: "fif" is unknown, allowed are fair, fifo, '
            "nearest is fifo",
            'line 11: project_options.p.admins: "u" is not a list of users, '
            'write ["user1", "user2"]',
        ],
    ),
    (
        BODY + "[project_options.p]\nceiling = { v4 = 2 }\nlend = { v5 = 0.5 }\n",
        [
            f"line 9: project_options.p.ceiling.v4: 2 {FRACTION}",
            "line 10: project_options.p.lend.v5: a type without total_resources, allowed is v4",
        ],
    ),
    (
        BODY + "[project_options.p]\nceiling.v4 = 0.4\n[project_resources.p]\nv4 = 0.5\n",
        [
            "line 9: project_options.p.ceiling.v4: 0.4 is below the project's own fraction, "
            "write at least 0.5"
        ],
    ),
    (
        BODY + "[project_options.r]\norder = 'fifo'\n",
        ["line 8: project_options.r: not a project of project_membership, allowed are p, q"],
    ),
    # the scheduler
    (
        BODY + "[scheduler]\ngrace = 3\n",
        [
            f"line 9: scheduler.grace: unknown key, allowed are {UNKNOWN_OPTIONS}, "
            "nearest is grace_s"
        ],
    ),
    (
        BODY + "[scheduler]\nmin_runtime_s = -1\nplan_after_s = '2h'\nusage_half_life_s = 0\n",
        [
            "line 9: scheduler.min_runtime_s: -1 is not allowed, "
            "write a number from 0 to 1000000000",
            'line 10: scheduler.plan_after_s: "2h" is not allowed, '
            "write a number from 0 to 1000000000",
            "line 11: scheduler.usage_half_life_s: 0 is not allowed, "
            "write a number above 0 and at most 1000000000",
        ],
    ),
    (
        BODY + "[scheduler]\norder = 'fiar'\nadmission = 'none'\nplacement = 1\npreemption = ''\n",
        [
            'line 9: scheduler.order: "fiar" is unknown, '
            "allowed are fair, fifo, las, max-min, optimus, priority, srtf, tiresias, "
            "nearest is fair",
            'line 10: scheduler.admission: "none" is unknown, allowed are all, load-limit',
            "line 11: scheduler.placement: 1 is unknown, "
            "allowed are best-fit, consolidated, first-fit, spread",
            'line 12: scheduler.preemption: "" is unknown, allowed are none, order, reclaim',
        ],
    ),
    (
        BODY + "[scheduler]\nmax_queued_per_user = 0\nload_limit = inf\n",
        [
            "line 9: scheduler.max_queued_per_user: 0 is not allowed, "
            "write a whole number from 1 to 1000000",
            "line 10: scheduler.load_limit: Infinity is not allowed, "
            "write a number above 0 and at most 1000",
        ],
    ),
    (
        BODY + "[scheduler]\ngrace_s = 400\n",
        [
            "line 9: scheduler.grace_s: grace_s 400 is above max_grace_s 300, "
            "write a grace_s of at most 300"
        ],
    ),
    (
        BODY + "[scheduler]\ngrace_s = 2000001\nmax_grace_s = 2000000\n",
        [
            "line 9: scheduler.grace_s: grace_s 2000001 is above max_grace_s 2000000, "
            "write a grace_s of at most 2000000"
        ],
    ),
    (
        BODY + "[scheduler]\nmax_grace_s = 5\n",
        [
            "line 9: scheduler.max_grace_s: grace_s 30, its default, is above max_grace_s 5, "
            "write a grace_s of at most 5"
        ],
    ),
]


@pytest.mark.parametrize(("text", "expected"), TABLE)
def test_every_problem_is_told_with_line_value_and_what_is_allowed(
    text: str, expected: list[str]
) -> None:
    """The texts are exact, in the order of the file, and each error has only one."""
    assert problems(text) == expected


def test_an_error_is_one_line() -> None:
    """As text, the error has all problems on a single line, whatever the file's keys are."""
    with pytest.raises(QuotaError) as caught:
        parse(BODY.replace("v4", '"v\\n4"') + '[project_resources.p]\n"v\\n5" = "\\u001b"\n')
    assert str(caught.value) == (
        "line 9: project_resources.p.'v\\n5': a type without total_resources, "
        "allowed is v\\n4, nearest is v\\n4; "
        "line 9: project_resources.p.'v\\n5': \"\\u001b\" is not allowed, "
        "write a fraction from 0 to 1"
    )


def test_long_values_are_cut_in_messages() -> None:
    """A value of any length leaves the message readable."""
    (text,) = problems(BODY + f"[scheduler]\norder = '{'x' * 5000}'\n")
    assert len(text) < 200


@given(st.text(max_size=60) | st.text("[]={}\"'.,#\n ab1", max_size=60))
def test_any_text_is_a_quota_or_a_list_of_problems(text: str) -> None:
    """Only `QuotaError` is raised, and it names at least one problem."""
    assert problems(text)


@given(st.integers(0, len(FIRST + OPTIONS) - 1), st.sampled_from("[]={}\"'.,#\n a1"))
def test_any_slip_of_the_finger_is_survived(place: int, typed: str) -> None:
    """A file with one changed character is a quota or a list of problems."""
    text = FIRST + OPTIONS
    try:
        parse(text[:place] + typed + text[place + 1 :])
    except QuotaError as error:
        assert error.problems
