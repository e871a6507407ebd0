"""The README of a bucket."""

from __future__ import annotations

import re

from bastion.records.keys import layout
from bastion.service.publish.bucket_readme import TEXT, write_readme
from bastion.store.memory import MemoryStore
from tests.rigs.scripted_bastion import Clock


def test_a_bucket_explains_itself_once() -> None:
    """It is written if there is none; an admin's changes stay."""
    store = MemoryStore(Clock().wall)
    write_readme(store)
    first = store.read(layout.README)
    assert first is not None
    assert first.data == TEXT.encode()
    store.swap(layout.README, b"ours", if_version=first.version)
    write_readme(store)
    kept = store.read(layout.README)
    assert kept is not None
    assert kept.data == b"ours"


def test_it_names_every_folder_of_the_layout() -> None:
    """It names the top level of `layout.py`, except what only Bastion's own parts read."""
    drawn = re.findall(r"^      ([a-z-]+)/", layout.__doc__ or "", flags=re.MULTILINE)
    named = set(re.findall(r"([a-z-]+)/", TEXT))
    assert set(drawn) - {"wheels"} <= named
