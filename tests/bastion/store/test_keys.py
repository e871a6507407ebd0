"""Valid keys, and their files."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bastion.store.keys import (
    KEY_BYTES,
    PART_BYTES,
    checked_prefix,
    file_name,
    is_key,
    is_part,
    part_of,
)

PARTS = st.text(min_size=1, max_size=20).filter(is_part)


def test_lengths_are_bytes() -> None:
    """The length of a part and a key is measured in UTF-8 bytes, exactly up to the limit."""
    assert is_key("p" * PART_BYTES)
    assert not is_key("p" * (PART_BYTES + 1))
    assert is_key("é" * (PART_BYTES // 2))
    assert not is_key("é" * (PART_BYTES // 2 + 1))
    whole = "/".join(["p" * 99] * 9)
    assert len(whole) == KEY_BYTES - 1
    assert is_key(whole + "p")
    assert not is_key(whole + "pp")


@given(PARTS)
def test_files_stand_for_parts_one_to_one(part: str) -> None:
    """A file name leads back to its part, and is not reserved for the store itself."""
    name = file_name(part)
    assert part_of(name) == part
    assert name != ".tmp"
    assert "/" not in name


@given(st.text(min_size=1, max_size=8))
def test_a_file_stands_for_one_part_or_none(name: str) -> None:
    """No two files stand for one part."""
    part = part_of(name)
    assert part is None or file_name(part) == name


@given(st.lists(PARTS, min_size=1, max_size=4).map("/".join), st.integers(0, 60))
def test_every_beginning_of_a_key_is_a_prefix(key: str, end: int) -> None:
    """A list accepts any beginning of a key."""
    assert checked_prefix(key[:end]) == key[:end]
