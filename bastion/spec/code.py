"""Which code runs: a reference that means the same bytes for ever."""

from __future__ import annotations

import re
from typing import Literal

from bastion.errors import SpecError
from bastion.value import value

_DIGEST = re.compile(r"[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@value
class BundleRef:
    """A bundle in the bucket, by its digest."""

    kind: Literal["bundle"] = "bundle"
    digest: str

    def __post_init__(self) -> None:
        if not _DIGEST.fullmatch(self.digest):
            raise SpecError(f"code.digest: {self.digest!r} is not 64 hexadecimal digits")


@value
class GitRef:
    """A commit of a repository; always the full one, so that a queued launch never drifts."""

    kind: Literal["git"] = "git"
    url: str
    commit: str
    branch: str = ""
    submodules: bool = False
    lfs: bool = False

    def __post_init__(self) -> None:
        if not _COMMIT.fullmatch(self.commit):
            raise SpecError(f"code.commit: {self.commit!r} is not a full commit (40 hex digits)")


@value
class ImageRef:
    """A container image."""

    kind: Literal["image"] = "image"
    ref: str

    def __post_init__(self) -> None:
        if not self.ref or self.ref.strip() != self.ref:
            raise SpecError(f"code.ref: {self.ref!r} is not an image reference")


Code = BundleRef | GitRef | ImageRef
