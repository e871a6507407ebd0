"""
Code as users write it, and code as it is stored after resolution.

`LocalDir`, `GitRepo`, `Image` and `DockerBuild` are checked when they are made, all problems at
once, without disk or network. A stored spec holds a `BundleRef`, `GitRef` or `ImageRef`, which
names one exact tree or image, so that a queued launch never drifts. Their `kind` distinguishes them
in JSON, and an undeclared field is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from bundler.errors import InvalidCodeError
from bundler.size import parse_size
from bundler.url import url_problems
from quota.pattern import pattern
from quota.value import field, fields, value

if TYPE_CHECKING:
    from quota.value import Misfit

_STRICT = {"extra": "forbid"}
_COMMIT = pattern(r"[0-9a-f]{7,64}\Z")
"""At least seven digits, the shortest that git writes; 40 for SHA-1, 64 for SHA-256."""
_FULL_COMMIT = pattern(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
MAX_REFERENCE_CHARACTERS = 1024
"""Per image or branch name: registries and git hosts allow less."""
_DIGEST = pattern(r"[0-9a-f]{64}\Z")
_IMAGE = pattern(
    r"(?:(?:[a-zA-Z0-9][a-zA-Z0-9.-]*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?/)?"
    r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*"
    r"(?::[\w][\w.-]{0,127})?(?:@sha256:[0-9a-f]{64})?\Z",
    re.ASCII,
)
"""Source: the grammar in distribution/reference (`reference.go`)."""
_BRANCH_FORBIDDEN = pattern(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|\Z)|\.\Z|/\Z")
"""Source: git-check-ref-format(1)."""


def _misfit_error(misfit: Misfit) -> Exception:
    from bundler.misuse import misfit_error  # which a call that fits needs for nothing

    return misfit_error(misfit)


@value
class LocalDir:
    """
    The working tree on this machine, bundled at submission.

    Raises:
        InvalidCodeError: A field is wrong.
    """

    __misfit__ = _misfit_error
    __pydantic_config__: ClassVar[dict[str, str]] = _STRICT
    root: str = field(default="", kw_only=False)
    """The top of the tree; empty: searched upward from the folder of the submission."""
    exclude: Sequence[str] = ()
    """Further patterns to leave out, in `.gitignore` syntax; they override every file."""
    max_size: int | str = "1GiB"
    """Maximum size of all files, in bytes or as `500MiB`."""

    def __post_init__(self) -> None:
        """Check every field; convert patterns to a tuple."""
        if isinstance(self.exclude, Iterable) and not isinstance(self.exclude, str):
            object.__setattr__(self, "exclude", tuple(self.exclude))
        _refuse(self._problems())

    @property
    def max_size_bytes(self) -> int:
        """The limit in bytes."""
        return parse_size(self.max_size)

    def _problems(self) -> Iterator[str]:
        if not isinstance(self.root, str) or "\0" in self.root:
            yield f"root: {self.root!r} is not the path of a folder, as text"
        if not isinstance(self.exclude, tuple):
            yield f"exclude: {self.exclude!r} is not a list of patterns, as in ['data/', '*.ckpt']"
        elif wrong := [p for p in self.exclude if not isinstance(p, str) or not p.strip()]:
            yield f"exclude: {wrong[0]!r} is not a pattern; patterns are non-empty text"
        try:
            parse_size(self.max_size)
        except ValueError as error:
            yield f"max_size: {error}"


@value
class GitRepo:
    """
    A commit of a repository, by branch or by commit; by default the tip of the default branch.

    Raises:
        InvalidCodeError: A field is wrong.
    """

    __misfit__ = _misfit_error
    __pydantic_config__: ClassVar[dict[str, str]] = _STRICT
    url: str = field(kw_only=False)
    """`https://host/path`, `git@host:path`, `ssh://host/path` or `file:///path`."""
    branch: str = ""
    commit: str = ""
    """The full hash, or its first digits (seven or more)."""
    submodules: bool = False
    lfs: bool = False

    def __post_init__(self) -> None:
        """Check every field."""
        _refuse(_type_problems(self) or self._problems())

    def _problems(self) -> Iterator[str]:
        yield from (f"url: {problem}" for problem in url_problems(self.url))
        if self.branch and (self.branch.startswith("-") or _BRANCH_FORBIDDEN.search(self.branch)):
            yield f"branch: {self.branch!r} is not a name git allows for a branch"
        if self.commit and not _COMMIT.match(self.commit):
            yield f"commit: {self.commit!r} is not 7 to 40 (or 64) lowercase hexadecimal digits"


@value
class Image:
    """
    An existing container image, which contains the code.

    Raises:
        InvalidCodeError: The reference is malformed.
    """

    __misfit__ = _misfit_error
    __pydantic_config__: ClassVar[dict[str, str]] = _STRICT
    ref: str = field(kw_only=False)
    """`[registry/]name[:tag][@sha256:digest]`."""

    def __post_init__(self) -> None:
        """Check the reference."""
        _refuse(image_problems("ref", self.ref))


@value
class DockerBuild:
    """
    An image built from a Dockerfile at submission, and pushed.

    Raises:
        InvalidCodeError: A field is wrong.
    """

    __misfit__ = _misfit_error
    __pydantic_config__: ClassVar[dict[str, str]] = _STRICT
    image: str
    """The name to push it under, with its registry."""
    file: str = "Dockerfile"
    """Relative to `context`."""
    context: str = ""
    """The folder sent to the builder; empty: found like the root of `LocalDir`."""
    target: str = ""
    """The stage to build; empty: the last."""
    build_args: Mapping[str, str] | tuple[tuple[str, str], ...] = ()
    """Names and values, stored as pairs by name. Not for secrets: they stay in the image."""
    network: str = ""
    """The network of its RUN steps, as `host`; empty: the daemon's."""

    def __post_init__(self) -> None:
        """Check every field; convert arguments to pairs."""
        try:
            pairs = tuple(sorted(dict(self.build_args).items()))
        except (TypeError, ValueError):
            _refuse([f"build_args: {self.build_args!r} is not a table, such as {{'VERSION': '1'}}"])
        object.__setattr__(self, "build_args", pairs)
        _refuse(_type_problems(self) or self._problems())

    def _problems(self) -> Iterator[str]:
        yield from image_problems("image", self.image)
        if "@" in self.image:
            yield f"image: {self.image!r} has a digest, which only exists once it is built"
        if not self.file:
            yield "file: is empty; name the Dockerfile, as in 'docker/train.Dockerfile'"
        pairs: Any = self.build_args  # of any types, since Python accepts them
        for name, text in pairs:
            if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
                yield f"build_args: {name!r} is not a name for an argument"
            elif not isinstance(text, str):
                yield f"build_args: {name}: {text!r} is not text"


@value
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


@value
class GitRef:
    """
    One exact commit of a repository.

    Raises:
        InvalidCodeError: The commit is not a full hash, or the url is malformed.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = _STRICT
    kind: Literal["git"] = "git"
    url: str
    commit: str
    """The full hash: 40 or 64 hexadecimal digits."""
    branch: str = ""
    """The branch that it was resolved from; a record, and a hint for fetching."""
    submodules: bool = False
    lfs: bool = False

    def __post_init__(self) -> None:
        """Check the same as `GitRepo`, and that the hash is full."""
        problems = [f"url: {problem}" for problem in url_problems(self.url)]
        if len(self.branch) > MAX_REFERENCE_CHARACTERS:
            length = len(self.branch)
            problems.append(f"branch: {length} characters; at most {MAX_REFERENCE_CHARACTERS}")
        if not _FULL_COMMIT.match(self.commit):
            problems.append(f"commit: {self.commit[:80]!r} is not a full commit")
        _refuse(problems)


@value
class ImageRef:
    """
    One image; by digest if it was built or resolved here.

    Raises:
        InvalidCodeError: The reference is malformed.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = _STRICT
    kind: Literal["image"] = "image"
    ref: str

    def __post_init__(self) -> None:
        """Check the reference."""
        _refuse(image_problems("ref", self.ref))


Code: TypeAlias = LocalDir | GitRepo | Image | DockerBuild
"""The code that a user may write."""
CodeRef: TypeAlias = BundleRef | GitRef | ImageRef
"""The code that a stored spec may have."""


_KINDS: Mapping[str, tuple[type, str]] = {"str": (str, "text"), "bool": (bool, "True or False")}
"""The types of fields, as they are annotated, and their description for errors."""


def _type_problems(made: GitRepo | DockerBuild) -> list[str]:
    """Return a problem for each field with a value of another type, such as `lfs="no"`."""
    checked = [(each.name, *_KINDS[each.type]) for each in fields(made) if each.type in _KINDS]
    return [
        f"{name}: {written!r} is not {told}"
        for name, kind, told in checked
        if not isinstance(written := getattr(made, name), kind)
    ]


def image_problems(name: str, ref: str) -> list[str]:
    """Return the problems of the image reference in the field `name`."""
    if isinstance(ref, str) and len(ref) > MAX_REFERENCE_CHARACTERS:
        return [f"{name}: {len(ref)} characters; at most {MAX_REFERENCE_CHARACTERS}"]
    if isinstance(ref, str) and _IMAGE.match(ref):
        return []
    return [f"{name}: {ref!r} is not an image, which looks like 'registry.example/team/train:1.0'"]


def _not_hex(name: str, text: str) -> str:
    return f"{name}: {text!r} is not 64 lowercase hexadecimal digits"


def _refuse(problems: Iterator[str] | list[str]) -> None:
    found = tuple(problems)
    if found:
        raise InvalidCodeError(*found)
