"""
The code of a launch: what users specify, and the reference that a stored spec holds.

Both types are the bundler's. A reference always means the same bytes, so a queued launch never
drifts. The user's code becomes a reference when the launch is submitted.
"""

from bundler.code import (
    BundleRef,
    Code,
    CodeRef,
    DockerBuild,
    GitRef,
    GitRepo,
    Image,
    ImageRef,
    LocalDir,
)


def is_image(code: Code | CodeRef | None) -> bool:
    """Whether processes with this code run in containers."""
    return isinstance(code, Image | DockerBuild | ImageRef)


__all__ = [
    "BundleRef",
    "Code",
    "CodeRef",
    "DockerBuild",
    "GitRef",
    "GitRepo",
    "Image",
    "ImageRef",
    "LocalDir",
    "is_image",
]
