"""Expressions for users that some names would keep busy are refused before they are in force."""

from __future__ import annotations

import pytest

from bastion.records.settings.slow_pattern import is_slow, refuse_slow_patterns
from quota import parse
from quota.file.errors import QuotaError

FILE = r"""
[toml-schema]
version = "1"
[total_resources]
gpu = 8
[project_membership]
vision = ["ada", '(\w+\.?)*@corp\.com', 'v-.*']
[project_resources.vision]
gpu = 1.0
[project_options.vision]
admins = ['(a|aa)+b']
[project_options.vision.users.'(a+)+']
max_units = { gpu = 4 }
[project_options.vision.users.lin]
max_units = { gpu = 2 }
"""


@pytest.mark.parametrize(
    "text",
    [r"(\w+\.?)*@corp\.com", r"(a+)+", r"(a|aa)+b", r"(.*a){12}", r"([0-9]+-?)*x", r"(x+x+)+y"],
)
def test_what_takes_twice_as_long_for_each_letter_is_slow(text: str) -> None:
    """A name of 40 letters would take hours."""
    assert is_slow(text)


@pytest.mark.parametrize(
    "text",
    [
        r".*@corp\.com",
        r"([a-z]+\.)*[a-z]+@corp\.com",
        r"\w+([.-]\w+)*@\w+([.-]\w+)*\.\w+",
        r"(alice|bob|carol)(-.*)?",
        r"[a-z]{2,8}\d*",
        r".*.*.*@x",
        "x" * 300 + ".*",
    ],
    ids=["domain", "dotted", "address", "choice", "count", "cubic", "long"],
)
def test_an_ordinary_expression_is_not(text: str) -> None:
    """Repetitions that a mark separates are quick."""
    assert not is_slow(text)


def test_every_slow_one_is_told_with_its_line() -> None:
    """Members, admins and the users of limits are expressions."""
    with pytest.raises(QuotaError) as caught:
        refuse_slow_patterns(parse(FILE))
    assert [(each.line, each.path) for each in caught.value.problems] == [
        (7, "project_membership.vision[1]"),
        (11, "project_options.vision.admins[0]"),
        (12, "project_options.vision.users.'(a+)+'"),
    ]
    assert caught.value.problems[1].text == (
        '"(a|aa)+b" takes minutes for some names that do not match, write it without a repetition'
        " inside a repetition"
    )
