"""The lines of keys and values in a TOML text."""

from __future__ import annotations

import string
import tomllib

import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from quota.lines import Lines, Path, line_of, shown

TEXT = '''\
# a = "no key"
top = """
[not.a.table]
x = 1 \\""" """""
[a."b.c"]   # [nor.this]
d.e = [
  1979-05-27 07:32:00, 'its' , # ] in a comment
  [ "]", 2.5 ],
]
f = { g = { h = 1 }, 'i j' = "}" }
[[list]]
k = 1
[[list]]
[list.sub]
k = '\\'
'''


def test_every_key_and_element_has_its_line() -> None:
    """Tables, dotted and quoted keys, multi-line lists, inline tables, tables in lists."""
    assert dict(Lines(TEXT)) == {
        ("top",): 2,
        ("a",): 5,
        ("a", "b.c"): 5,
        ("a", "b.c", "d"): 6,
        ("a", "b.c", "d", "e"): 6,
        ("a", "b.c", "d", "e", 0): 7,
        ("a", "b.c", "d", "e", 1): 7,
        ("a", "b.c", "d", "e", 2): 8,
        ("a", "b.c", "d", "e", 2, 0): 8,
        ("a", "b.c", "d", "e", 2, 1): 8,
        ("a", "b.c", "f"): 10,
        ("a", "b.c", "f", "g"): 10,
        ("a", "b.c", "f", "g", "h"): 10,
        ("a", "b.c", "f", "i j"): 10,
        ("list",): 11,
        ("list", 0): 11,
        ("list", 0, "k"): 12,
        ("list", 1): 13,
        ("list", 1, "sub"): 14,
        ("list", 1, "sub", "k"): 15,
    }


def test_the_text_of_this_test_is_toml() -> None:
    """The scan gets valid input: text that the parser accepts."""
    assert tomllib.loads(TEXT)["list"] == [{"k": 1}, {"sub": {"k": "\\"}}]


def test_no_key_ends_the_scan() -> None:
    """Whatever a key is called, the keys below it have their lines too."""
    assert dict(Lines("end = 1\nnewline = 2\n[word]\ntext = 3\n")) == {
        ("end",): 1,
        ("newline",): 2,
        ("word",): 3,
        ("word", "text"): 4,
    }


def test_an_unknown_path_has_the_line_of_its_nearest_ancestor() -> None:
    """A missing key is reported at the table without it, else at line 1."""
    lines = Lines(TEXT)
    assert line_of(lines, ("list", 1, "sub", "missing", 3)) == 14
    assert line_of(lines, ("missing",)) == 1
    assert line_of({}, ()) == 1


def test_paths_are_shown_as_people_write_them() -> None:
    """Keys are joined by dots, indices are in brackets, odd keys are quoted."""
    assert shown(("total_resources", 1, "v4")) == "total_resources[1].v4"
    assert shown(("a", "b.c")) == "a.'b.c'"
    assert shown(()) == ""


keys = st.text(string.ascii_letters + " .'\"#[]=", min_size=1, max_size=5)
leaves = st.one_of(st.integers(), st.booleans(), st.text(max_size=8), st.floats(allow_nan=False))
values = st.recursive(
    leaves,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3)),
    max_leaves=12,
)


def paths(value: object, path: Path = ()) -> set[Path]:
    """Return every path into a parsed file."""
    parts: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        parts = list(value.items())
    elif isinstance(value, list):
        parts = list(enumerate(value))
    found = {(*path, key) for key, _ in parts}
    return found.union(*(paths(inner, (*path, key)) for key, inner in parts))


@given(st.dictionaries(keys, values, max_size=4))
def test_whatever_the_parser_finds_is_located(file: dict[str, object]) -> None:
    """Every path of a parsed file has a line of the text, and no other path has one."""
    text = tomlkit.dumps(file)
    lines = Lines(text)
    assert set(lines) == paths(tomllib.loads(text))
    assert set(lines.values()) <= set(range(1, text.count("\n") + 2))


def test_what_is_nested_too_deep_has_no_lines() -> None:
    """A text that TOML's own parser accepts may be too deep for the scan: it has no lines."""
    assert line_of(Lines("a = 1\nb = " + "[" * 9999 + "]" * 9999), ("b",)) == 1
