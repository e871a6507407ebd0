"""The request that submits a launch, and the record of what was submitted."""

from __future__ import annotations

from typing import Literal

from bastion.errors import SpecError
from bastion.spec.launch import Launch
from bastion.spec.values.typed import check_types
from bastion.value import value
from quota.pattern import pattern

MAX_ID = 200
"""Maximum characters of a launch's id: a name, a dash and a suffix are well below."""
_DIGEST = pattern(r"[0-9a-f]{64}")


@value
class LaunchRequest:
    """Submit this launch. The client has looked up its instance types."""

    schema: Literal[1] = 1
    launch: Launch
    idempotency_key: str = ""
    origin: str = ""
    """Digest of the `Origin` that the client stored; empty if there is none."""
    again_of: str = ""
    """The launch that this one repeats."""

    def __post_init__(self) -> None:
        check_types(self)
        problems = []
        if self.origin and not _DIGEST.fullmatch(self.origin):
            problems.append(f"origin: {self.origin!r} is not 64 lowercase hexadecimal digits")
        if len(self.idempotency_key) > MAX_ID:
            length = len(self.idempotency_key)
            problems.append(f"idempotency_key: {length} characters; at most {MAX_ID}")
        if len(self.again_of) > MAX_ID:
            problems.append(f"again_of: {len(self.again_of)} characters; at most {MAX_ID}")
        if problems:
            raise SpecError(*problems)


@value
class SpecRecord:
    """The contents of `spec.json`: a launch, checked and normalised; a function of its request."""

    schema: Literal[1] = 1
    id: str
    project: str
    user: str
    ulid: str
    launch: Launch
    origin: str = ""
    """Digest of the `Origin` that was stored with it; empty if there is none."""
    again_of: str = ""
    """The launch that this one repeats."""
