"""Names of blobs sort as their keys do, and belong to one key each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bastion.store.azure.names import key_of, misfit, name_of

TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12)


@given(TEXTS, TEXTS)
def test_names_are_ascii_and_in_the_order_of_keys(one: str, other: str) -> None:
    """However a server sorts characters that are not ASCII."""
    assert name_of(one).isascii()
    assert (name_of(one) < name_of(other)) == (one.encode() < other.encode())


@given(TEXTS, TEXTS)
def test_the_name_of_a_beginning_is_the_beginning_of_the_name(one: str, other: str) -> None:
    """So a list of a prefix is one of keys that begin with it."""
    assert name_of(one + other) == name_of(one) + name_of(other)


@given(TEXTS)
def test_a_name_belongs_to_one_key(text: str) -> None:
    """It is read back."""
    assert key_of(name_of(text)) == text


def test_what_no_key_has_is_no_name() -> None:
    """Others may write into a container, too."""
    for name in ("a~", "~4", "~41", "~e3~81~82", "~FF", "ü"):
        assert key_of(name) is None, name


def test_what_azure_would_change_is_refused() -> None:
    """A backslash, a dot at the end of a part, and more than 1,024 characters."""
    assert misfit("a/b.c", "root/") == ""
    assert misfit("a\\b", "") == "has a backslash"
    assert misfit("a./b", "") == misfit("a.", "") == "has a part that ends in a dot"
    assert misfit("ü" * 170, "r/") == ""
    assert misfit("ü" * 171, "r/") == "is too long"
