"""One word, one meaning: the glossary is consistent, and the code says no forbidden word."""

from __future__ import annotations

import ast
import re
from collections import Counter

from tests.docs.pages import HOUSE
from tests.house import rules

# Of the words not used here, those that mean nothing else in a class's name.
SYNONYMS = frozenset({"worker", "daemon", "master", "pod", "box", "backend", "experiment"})


def rows() -> list[tuple[str, str, str]]:
    """(term, meaning, words not used) of every line of the glossary's tables."""
    text = (HOUSE / "docs" / "glossary.md").read_text()
    return re.findall(r"^\| \*\*(.+?)\*\* \| (.+?) \| ?(.*?) ?\|$", text, re.MULTILINE)


def test_a_term_stands_once() -> None:
    """No term has two entries, and each has a meaning."""
    terms = Counter(term for term, _, _ in rows())
    assert len(terms) >= 50
    assert not [term for term, times in terms.items() if times > 1]
    assert all(meaning.strip() for _, meaning, _ in rows())


def test_every_row_is_read() -> None:
    """No line of a table is missed by this test for its form."""
    text = (HOUSE / "docs" / "glossary.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("| **")]
    assert len(lines) == len(rows())


def test_the_code_says_none_of_the_other_words() -> None:
    """No class is named by a word that the glossary gives up for another."""
    given_up = {word for _, _, other in rows() for word in other.split(", ")}
    assert given_up >= SYNONYMS
    found = [
        f"{name}:{node.lineno}: class {node.name}"
        for name, tree in rules.trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and rules.words(node.name) & SYNONYMS
    ]
    assert not found
