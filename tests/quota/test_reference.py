"""The reference page of the quota file is correct."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path

import pytest

from quota import DEFAULTS, Amounts, QuotaError, parse
from quota.file.groups import KEYS as GROUP_KEYS
from quota.file.limits import OF_ONE
from quota.file.maintenance import KEYS as WINDOW_KEYS
from quota.file.projects import OPTIONS
from quota.options import ADMISSIONS, ORDERS, PLACEMENTS, PREEMPTIONS, PROJECT_ORDERS

PAGE = (Path(__file__).parents[2] / "docs/reference/quota-file.md").read_text()
SMALLEST, FULL = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


def test_the_examples_are_quotas() -> None:
    """Both files on the page parse, and the full one has the units in its comments."""
    assert parse(SMALLEST).totals == Amounts({"v4": 1024})
    quota = parse(FULL)
    assert [tier.name for tier in quota.tiers] == ["reserved", "spot"]
    vision = quota.project("vision")
    assert vision.nominal == Amounts({"h100": 32, "v4": 922})
    assert vision.ceiling == Amounts({"h100": 64, "v4": 1382})
    assert vision.kept == Amounts({"h100": 8})
    assert quota.project("guests").ceiling == Amounts({"v4": 384})
    assert vision.limits_of("ann").max_units == {"h100": 16}
    assert vision.limits_of("intern-3").max_units == {"h100": 2, "v4": 32}
    assert quota.groups["research"].nominal == Amounts({"h100": 64, "v4": 1536})
    assert [window.pools for window in quota.maintenance] == [("h100-pod",)]


def test_the_full_example_shows_the_defaults_of_the_scheduler() -> None:
    """Every option is in the example and in the table, with the actual default."""
    assert parse(FULL).scheduler == DEFAULTS
    rows = dict(re.findall(r"^\| `(\w+)` \|.*\| (\S+) \|$", PAGE.split("`[scheduler]`")[1], re.M))
    for key, default in asdict(DEFAULTS).items():
        shown = f'`"{default}"`' if isinstance(default, str) else rows[key]
        assert rows[key] == shown
        assert isinstance(default, str) or float(shown) == default


@pytest.mark.parametrize("words", [ORDERS, ADMISSIONS, PLACEMENTS, PREEMPTIONS, PROJECT_ORDERS])
def test_every_policy_stands_on_the_page(words: tuple[str, ...]) -> None:
    """The page names all policies."""
    assert all(f'`"{word}"`' in PAGE for word in words)


@pytest.mark.parametrize("keys", [OPTIONS, OF_ONE, GROUP_KEYS, WINDOW_KEYS])
def test_every_key_of_a_table_stands_on_the_page(keys: tuple[str, ...]) -> None:
    """The page has all options of projects, users, groups and windows."""
    assert all(f"`{key}`" in PAGE for key in keys)


def test_the_problems_shown_are_what_is_told() -> None:
    """The two messages on the page are exactly those of the smallest file with two errors."""
    (shown,) = re.findall(r"```\n(line.*?)\n```", PAGE, re.DOTALL)
    text = SMALLEST.replace("v4 = 0.6", "v4 = 1.6").replace("s.project2", "s.projct2")
    with pytest.raises(QuotaError) as caught:
        parse(text)
    assert [str(problem) for problem in caught.value.problems] == shown.split("\n")
