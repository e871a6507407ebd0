"""Regular expressions that are compiled on first use."""

from __future__ import annotations

import re

import pytest

from quota.pattern import pattern


def test_a_pattern_does_what_its_expression_does() -> None:
    """It matches, substitutes and shows its text, with its flags, any number of times."""
    word = pattern(r"([a-z]+)-(\d)", re.IGNORECASE)
    for _ in range(2):
        found = word.fullmatch("Ab-1")
        assert found is not None
        assert found.groups() == ("Ab", "1")
        assert word.search("nothing") is None
    assert word.sub(r"\2", "x-3 y-4") == "3 4"
    assert word.pattern == r"([a-z]+)-(\d)"


def test_a_wrong_expression_is_told_when_it_is_used() -> None:
    """Nothing is compiled before."""
    wrong = pattern("(")
    with pytest.raises(re.error, match="unterminated"):
        wrong.fullmatch("x")
