"""Names that users choose and ids made from them: the characters that keys and paths allow."""

from __future__ import annotations

from quota.pattern import pattern

NAME = pattern(r"[A-Za-z0-9](?:[A-Za-z0-9._@+-]{0,61}[A-Za-z0-9])?")
"""A valid name: it becomes part of keys, file names and machine labels without changes."""

SUFFIX_CHARACTERS = 10
"""
Characters of a request's ULID in a job's id: 50 random bits.

Among a million jobs of one name, two share a suffix with a probability of 0.0004. The create-only
`spec.json` then refuses the second; jobs are never merged.
"""


def check_name(field: str, name: str) -> list[str]:
    """Return the problems of `name`, each starting with `field`; none if it is valid."""
    if NAME.fullmatch(name):
        return []
    allowed = "1 to 63 of A-Z a-z 0-9 . _ @ + -, beginning and ending with a letter or digit"
    return [f"{field}: {name!r} is not a name; allowed: {allowed}"]


def job_id(name: str, ulid: str) -> str:
    """Return the permanently unique id of the job `name` of the request `ulid`."""
    return f"{name}-{ulid[-SUFFIX_CHARACTERS:].lower()}"


def launch_uuid(launch: str) -> str:
    """Return the UUID of the launch with this id: always the same, and unique to the launch."""
    from hashlib import sha256  # loads OpenSSL, which reads do not need

    digest = bytearray(sha256(f"bastion:launch:{launch}".encode()).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x80  # version 8, derived from other data: RFC 9562, 5.8
    digest[8] = digest[8] & 0x3F | 0x80
    text = digest.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
