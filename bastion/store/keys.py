"""
Valid keys, and their names in a bucket or a folder.

The rule is the same for all stores, so a key that one of them accepts is accepted by all. The
lengths leave room for a prefix in a bucket and for one file name per part in a folder. Objects in a
bucket whose names are not keys are ignored: lists omit them.
"""

from __future__ import annotations

from functools import lru_cache

from bastion.errors import SpecError
from quota.pattern import pattern

KEY_BYTES = 900
"""Longest key. GCS and S3 allow names of 1,024 bytes; the rest is for the prefix of the root."""

PREFIX_BYTES = 1024 - KEY_BYTES - 1
"""Longest prefix of a root in a bucket, without the `/` after it."""

PART_BYTES = 240
"""Longest part between two `/`. Linux takes file names of 255 bytes (NAME_MAX in limits.h)."""

_PART = pattern("[^\x00-\x1f\x7f/\ud800-\udfff]+")
_RESERVED = ".tmp"
"""The folder of a local store for files that are not objects."""


@lru_cache(maxsize=4096)
def is_key(text: str) -> bool:
    """Whether `text` is a key: relative, `/`-separated, each part plain, short enough."""
    return len(text.encode(errors="replace")) <= KEY_BYTES and all(map(is_part, text.split("/")))


def is_part(text: str) -> bool:
    """Whether `text` is valid between two `/` of a key."""
    if not _PART.fullmatch(text) or text in {".", ".."}:
        return False
    return len(text) * 4 <= PART_BYTES or len(text.encode()) <= PART_BYTES


def checked(key: str) -> str:
    """
    Return `key` if it is valid.

    Raises:
        SpecError: It is not.
    """
    if is_key(key):
        return key
    raise SpecError(
        f"key {key!r}: must be parts joined by '/', none of them empty, '.', '..' or with control "
        f"characters, at most {PART_BYTES} bytes each and {KEY_BYTES} in all"
    )


def checked_prefix(prefix: str) -> str:
    """
    Return `prefix` if keys may start with it: whole parts, then any beginning of a part.

    Raises:
        SpecError: No key can start with it.
    """
    folder, slash, part = prefix.rpartition("/")
    whole = is_key(folder) if slash else True
    if not whole or not (part in {"", ".", ".."} or is_part(part)):
        raise SpecError(f"prefix {prefix!r}: no key begins with it")
    return prefix


def file_name(part: str) -> str:
    """
    Return the name of the file or folder for `part`; the mapping is one to one.

    The name is the part, except that `%` becomes `%25`, and `.tmp`, the store's own folder, becomes
    `%2Etmp`.
    """
    return "%2Etmp" if part == _RESERVED else part.replace("%", "%25")


def part_of(name: str) -> str | None:
    """Return the part for a file `name`, the inverse of `file_name`; None if there is none."""
    if "%" not in name:
        # Plain names are checked first and without a regular expression: a list checks every
        # file.
        plain = name.isascii() and name.isprintable() and len(name) <= PART_BYTES
        return name if name != _RESERVED and (plain or is_part(name)) else None
    part = _RESERVED if name == "%2Etmp" else name.replace("%25", "%")
    return part if file_name(part) == name and is_part(part) else None
