"""
The bucket's own name, which keeps its machines apart from those of every other bucket.

A bucket gets it with its first commit, at random. A bucket that is begun anew at the same URL
therefore never meets the machines of the one before. A bucket that is older than such names keeps
the one that its URL gave its machines.
"""

from __future__ import annotations

import hashlib

_DRAWN_CHARACTERS = 10
"""40 random bits: of a thousand buckets, two share a name with a chance of 1 in 2 million."""
_FROM_URL_CHARACTERS = 12


def drawn_bucket_name(nonce: str) -> str:
    """Return the name of a new bucket; `nonce` is hexadecimal and random."""
    return nonce[:_DRAWN_CHARACTERS]


def bucket_name_from_url(url: str) -> str:
    """Return the name that a bucket without a name of its own gave its machines."""
    return hashlib.sha256(url.encode()).hexdigest()[:_FROM_URL_CHARACTERS]


def is_from_url(name: str) -> bool:
    """Whether `name` was made of a URL; a drawn one has another length."""
    return len(name) == _FROM_URL_CHARACTERS
