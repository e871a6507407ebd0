"""
The parts of an image's reference, as docker reads them.

Source: github.com/distribution/reference, `normalize.go`.
"""

from __future__ import annotations

from dataclasses import dataclass

HUB = "docker.io"
"""Where an image lies whose reference names no registry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """An image: where it lies and what it is called there."""

    registry: str
    """Host and port; `docker.io` where none is written."""
    repository: str
    tag: str
    """Empty where there is a digest, which outranks it; else `latest` where none is written."""
    digest: str
    """`sha256:...`, or empty."""
    name: str
    """Registry and repository, as they are written."""

    @property
    def exact(self) -> str:
        """The reference with what counts of it alone: its digest, else its tag."""
        return f"{self.name}@{self.digest}" if self.digest else f"{self.name}:{self.tag}"


def split_reference(ref: str) -> Reference:
    """The parts of `ref`, which is well-formed: an `Image` has checked it."""
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
