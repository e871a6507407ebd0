"""
The parts of an image reference, parsed like docker.

Source: github.com/distribution/reference, `normalize.go`.
"""

from __future__ import annotations

from dataclasses import dataclass

HUB = "docker.io"
"""The registry of images whose reference names none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """An image: its registry, repository, tag and digest."""

    registry: str
    """Host and port; `docker.io` if none is written."""
    repository: str
    tag: str
    """Empty if there is a digest, which overrides it; else `latest` if none is written."""
    digest: str
    """`sha256:...`, or empty."""
    name: str
    """Registry and repository, as written."""

    @property
    def exact(self) -> str:
        """The reference by digest, else by tag."""
        return f"{self.name}@{self.digest}" if self.digest else f"{self.name}:{self.tag}"


def split_reference(ref: str) -> Reference:
    """Parse `ref`, which an `Image` has checked."""
    rest, _, digest = ref.partition("@")
    head, colon, tag = rest.rpartition(":")
    if not colon or "/" in tag:
        # A colon before the last slash belongs to a port.
        head, tag = rest, ""
    first, slash, repository = head.partition("/")
    if not slash or not ("." in first or ":" in first or first == "localhost"):
        first, repository = HUB, head if slash else f"library/{head}"
    return Reference(
        registry=first,
        repository=repository,
        tag="" if digest else tag or "latest",
        digest=digest,
        name=head,
    )
