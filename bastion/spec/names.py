"""Names that users choose, and the ones made from them: what a key or a path may be made of."""

from __future__ import annotations

import re

NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._@+-]{0,61}[A-Za-z0-9])?")
"""What a name may be: it becomes part of keys, file names and labels of machines as it is."""

SUFFIX_CHARACTERS = 10
"""
How much of a request's ULID goes into a job's id: 50 random bits.

A million jobs of one name then share a suffix with a probability of 0.0004, and a collision is
refused by the create-only `spec.json`, never merged.
"""


def check_name(field: str, name: str) -> list[str]:
    """The problems of `name`, each beginning with `field`; none when it is well formed."""
    if NAME.fullmatch(name):
        return []
    allowed = "1 to 63 of A-Z a-z 0-9 . _ @ + -, beginning and ending with a letter or digit"
    return [f"{field}: {name!r} is not a name; allowed: {allowed}"]


def job_id(name: str, ulid: str) -> str:
    """The id of the job called `name` that the request `ulid` asked for: unique for ever."""
    return f"{name}-{ulid[-SUFFIX_CHARACTERS:].lower()}"
