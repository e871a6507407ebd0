"""
What users write about code, and what is stored once it is resolved.

`LocalDir`, `GitRepo`, `Image` and `DockerBuild` are checked when made, all problems at once, and
touch no disk and no network. `BundleRef`, `GitRef` and `ImageRef` are what a stored spec holds:
each names one exact tree or image, so that a queued launch never drifts. Their `kind` tells them
apart in JSON, and an undeclared field is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

from bundler.errors import InvalidCodeError
from bundler.size import parse_size
from bundler.url import url_problems

_STRICT = {"extra": "forbid"}
_COMMIT = re.compile(r"[0-9a-f]{7,64}\Z")
"""Seven digits at least, the shortest git itself writes; 40 for SHA-1, 64 for SHA-256."""
_FULL_COMMIT = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
MAX_REFERENCE_CHARACTERS = 1024
"""Of an image, and of a branch: registries and git hosts take less."""
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
_IMAGE = re.compile(
    r"(?:(?:[a-zA-Z0-9][a-zA-Z0-9.-]*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?/)?"
    r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*"
    r"(?::[\w][\w.-]{0,127})?(?:@sha256:[0-9a-f]{64})?\Z",
    re.ASCII,
)
"""Source: the grammar in distribution/reference (`reference.go`)."""
_BRANCH_FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|\Z)|\.\Z|/\Z")
"""Source: git-check-ref-format(1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalDir:
    """
    The working tree on this machine, bundled when it is submitted.

    Raises:
        InvalidCodeError: A field is wrong.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = _STRICT
    root: str = field(default="", kw_only=False)
    """The tree's top; empty: found upward from where the submission is made."""
    exclude: Sequence[str] = ()
    """More patterns to leave out, in `.gitignore` syntax; they outrank every file."""
    max_size: int | str = "1GiB"
    """The most the files may weigh together, in bytes or as `500MiB`."""

    def __post_init__(self) -> None:
        """Check every field; patterns become a tuple."""
        if not isinstance(self.exclude, str):
            object.__setattr__(self, "exclude", tuple(self.exclude))
        _refuse(self._problems())

    @property
    def max_size_bytes(self) -> int:
        """The limit as a number."""
        return parse_size(self.max_size)

    def _problems(self) -> Iterator[str]:
        if not isinstance(self.root, str) or "\0" in self.root:
            yield f"root: {self.root!r} is not the path of a folder, as text"
        if isinstance(self.exclude, str):
            yield f"exclude: {self.exclude!r} is not a list of patterns, as in ['data/', '*.ckpt']"
        elif wrong := [p for p in self.exclude if not isinstance(p, str) or not p.strip()]:
            yield f"exclude: {wrong[0]!r} is not a pattern; patterns are non-empty text"
        try:
            parse_size(self.max_size)
        except ValueError as error:
            yield f"max_size: {error}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GitRepo:
    """
    A commit of a repository, by branch or by commit; the default branch when neither is given.

    Raises:
        InvalidCodeError: A field is wrong.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = _STRICT
    url: str = field(kw_only=False)
    """`https://host/path`, `git@host:path`, `ssh://host/path` or `file:///path`."""
    branch: str = ""
    commit: str = ""
    """Full, or its first digits (seven or more)."""
    submodules: bool = False
    lfs: bool = False

    def __post_init__(self) -> None:
        """Check every field."""
        _refuse(self._problems())

    def _problems(self) -> Iterator[str]:
        yield from (f"url: {problem}" for problem in url_problems(self.url))
        if self.branch and (self.branch.startswith("-") or _BRANCH_FORBIDDEN.search(self.branch)):
            yield f"branch: {self.branch!r} is no name git allows for a branch"
        if self.commit and not _COMMIT.match(self.commit):
            yield f"commit: {self.commit!r} is not 7 to 40 (or 64) lowercase hexadecimal digits"


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """
    A container image that exists already, the code inside it.

    Raises:
        InvalidCodeError: The reference is not one a registry would understand.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = _STRICT
    ref: str = field(kw_only=False)
    """`[registry/]name[:tag][@sha256:digest]`."""

    def __post_init__(self) -> None:
        """Check the reference."""
        _refuse(image_problems("ref", self.ref))


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerBuild:
    """
    An image built from a Dockerfile at submission, and pushed.

    Raises:
        InvalidCodeError: A field is wrong.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = _STRICT
    image: str
    """The name it is pushed under, with its registry."""
    file: str = "Dockerfile"
    """Relative to `context`."""
    context: str = ""
    """The folder sent to the builder; empty: found as `LocalDir` finds its root."""
    target: str = ""
    """The stage to build; empty: the last."""
    build_args: Mapping[str, str] | tuple[tuple[str, str], ...] = ()
    """Names and values, kept as pairs by name. Not for secrets: they stay in the image."""

    def __post_init__(self) -> None:
        """Check every field; arguments become pairs."""
        object.__setattr__(self, "build_args", tuple(sorted(dict(self.build_args).items())))
        _refuse(self._problems())

    def _problems(self) -> Iterator[str]:
        yield from image_problems("image", self.image)
        if "@" in self.image:
            yield f"image: {self.image!r} has a digest, which only exists once it is built"
        if not self.file:
            yield "file: is empty; name the Dockerfile, as in 'docker/train.Dockerfile'"
        for name in dict(self.build_args):
            if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
                yield f"build_args: {name!r} is no name for an argument"


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleRef:
    """
    One exact tree, by the digest of its manifest.

    Raises:
        InvalidCodeError: The digest is not a sha256 in hexadecimal.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = _STRICT
    kind: Literal["bundle"] = "bundle"
    digest: str

    def __post_init__(self) -> None:
        """Check the digest: it becomes part of keys and paths."""
        _refuse([] if _DIGEST.match(self.digest) else [_not_hex("digest", self.digest)])


@dataclass(frozen=True, slots=True, kw_only=True)
class GitRef:
    """
    One exact commit of a repository.

    Raises:
        InvalidCodeError: The commit is not full, or the url is none.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = _STRICT
    kind: Literal["git"] = "git"
    url: str
    commit: str
    """Full: 40 or 64 hexadecimal digits."""
    branch: str = ""
    """What it was resolved from; for the record, and a hint where to look for it."""
    submodules: bool = False
    lfs: bool = False

    def __post_init__(self) -> None:
        """Check what `GitRepo` checks, and that the commit is full."""
        problems = [f"url: {problem}" for problem in url_problems(self.url)]
        if len(self.branch) > MAX_REFERENCE_CHARACTERS:
            length = len(self.branch)
            problems.append(f"branch: {length} characters; at most {MAX_REFERENCE_CHARACTERS}")
        if not _FULL_COMMIT.match(self.commit):
            problems.append(f"commit: {self.commit[:80]!r} is not a full commit")
        _refuse(problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRef:
    """
    One image, by digest where it was built or resolved here.

    Raises:
        InvalidCodeError: The reference is not one a registry would understand.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = _STRICT
    kind: Literal["image"] = "image"
    ref: str

    def __post_init__(self) -> None:
        """Check the reference."""
        _refuse(image_problems("ref", self.ref))


Code: TypeAlias = LocalDir | GitRepo | Image | DockerBuild
"""What a user may write."""
CodeRef: TypeAlias = BundleRef | GitRef | ImageRef
"""What a stored spec may hold."""


def image_problems(name: str, ref: str) -> list[str]:
    """What is wrong with the image reference in the field `name`."""
    if isinstance(ref, str) and len(ref) > MAX_REFERENCE_CHARACTERS:
        return [f"{name}: {len(ref)} characters; at most {MAX_REFERENCE_CHARACTERS}"]
    if isinstance(ref, str) and _IMAGE.match(ref):
        return []
    return [f"{name}: {ref!r} is no image, which looks like 'registry.example/team/train:1.0'"]


def _not_hex(name: str, text: str) -> str:
    return f"{name}: {text!r} is not 64 lowercase hexadecimal digits"


def _refuse(problems: Iterator[str] | list[str]) -> None:
    found = tuple(problems)
    if found:
        raise InvalidCodeError(*found)
