"""
The bucket's own name, which keeps its machines apart from those of every other bucket.

The first commit gives a bucket a random name. So a bucket that is created again at the same URL
never meets the machines of its predecessor. A bucket that is older than such names keeps the name
that its URL gave its machines.
"""

from __future__ import annotations

import hashlib

_DRAWN_CHARACTERS = 10
"""40 random bits: the chance that two of a thousand buckets share a name is 1 in 2 million."""
_FROM_URL_CHARACTERS = 12


def drawn_bucket_name(nonce: str) -> str:
    """Return the name of a new bucket; `nonce` is hexadecimal and random."""
    return nonce[:_DRAWN_CHARACTERS]


def bucket_name_from_url(url: str) -> str:
    """Return the name that a bucket without its own name gave its machines."""
    return hashlib.sha256(url.encode()).hexdigest()[:_FROM_URL_CHARACTERS]


def is_from_url(name: str) -> bool:
    """Whether `name` was derived from a URL; a random name has another length."""
    return len(name) == _FROM_URL_CHARACTERS
