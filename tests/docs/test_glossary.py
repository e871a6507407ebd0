"""One word, one meaning: the glossary is consistent, and no class has a forbidden name."""

from __future__ import annotations

import ast
import re
from collections import Counter

from tests.docs.pages import REPOSITORY
from tests.house import rules

# Of the glossary's unused words, those that have no other meaning in the name of a class.
SYNONYMS = frozenset({"worker", "daemon", "master", "pod", "box", "backend", "experiment"})


def rows() -> list[tuple[str, str, str]]:
    """Return (term, meaning, words not used) of every line of the glossary's tables."""
    text = (REPOSITORY / "docs" / "glossary.md").read_text()
    return re.findall(r"^\| \*\*(.+?)\*\* \| (.+?) \| ?(.*?) ?\|$", text, re.MULTILINE)


def test_a_term_has_one_entry() -> None:
    """No term has two entries, and each has a meaning."""
    terms = Counter(term for term, _, _ in rows())
    assert len(terms) >= 50
    assert not [term for term, times in terms.items() if times > 1]
    assert all(meaning.strip() for _, meaning, _ in rows())


def test_every_row_is_parsed() -> None:
    """This test reads every line of the tables."""
    text = (REPOSITORY / "docs" / "glossary.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("| **")]
    assert len(lines) == len(rows())


def test_every_term_is_in_use() -> None:
    """Each term occurs in the code or its tests: an unused term has no row."""
    files = [*rules.sources(), *(REPOSITORY / "tests").rglob("*.py")]
    source = "\n".join(path.read_text().lower() for path in files)
    unused = [term for term, _, _ in rows() if not re.search(spelled(term), source)]
    assert not unused


def spelled(term: str) -> str:
    """Return a pattern of a term as prose, names and plurals spell it."""
    return r"[\W_]*".join(re.findall(r"\w+", term.lower()))


def test_no_class_has_a_forbidden_name() -> None:
    """No class is named by a word that the glossary replaces by another."""
    given_up = {word for _, _, other in rows() for word in other.split(", ")}
    assert given_up >= SYNONYMS
    found = [
        f"{name}:{node.lineno}: class {node.name}"
        for name, tree in rules.trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and rules.words(node.name) & SYNONYMS
    ]
    assert not found
