"""
Code on the command line: `--bundler_type` and `--bundler_spec=key=value`.

A flag may be repeated, and each may have several pairs separated by blanks (quotes keep a blank
inside a value). Unknown keys are refused, so that a typo is never ignored.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from bundler.code import Code, DockerBuild, GitRepo, Image, LocalDir
from bundler.errors import InvalidCodeError

_Pairs: TypeAlias = Mapping[str, tuple[str, ...]]

_TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_DOCKER_KEYS = ("image", "repo", "tag", "dockerfile", "context", "target", "build_arg", "network")
_KEYS: Mapping[str, tuple[str, ...]] = {
    "local": ("root", "exclude", "max_size"),
    "git": ("url", "branch", "commit", "submodules", "lfs"),
    "docker": _DOCKER_KEYS,
    "artifactregistry": _DOCKER_KEYS,
    "image": ("ref",),
}
TYPES = tuple(_KEYS)
"""The values of `--bundler_type`."""
_REPEATED = ("exclude", "build_arg")
"""Keys that may be repeated."""


def parse_options(bundler_type: str, bundler_spec: Sequence[str], *, repo: str = "") -> Code:
    """
    Return the code for the two flags.

    `repo` is the repository of images if no `repo=` is given, from the caller's settings.

    Raises:
        InvalidCodeError: An unknown type or key (with the nearest known one), text that is not a
            pair, a repeated key, or a value that the code itself refuses; all at once.
    """
    if bundler_type not in _KEYS:
        raise InvalidCodeError(
            f"bundler_type: {bundler_type!r} is unknown{_nearest(bundler_type, TYPES)}; "
            f"use {', '.join(TYPES)}"
        )
    pairs, problems = _pairs(bundler_spec, known=_KEYS[bundler_type], bundler_type=bundler_type)
    made: Code | None = None
    try:
        made = _MAKERS[bundler_type](pairs, repo)
    except InvalidCodeError as error:
        problems += error.problems
    if problems or made is None:
        raise InvalidCodeError(*problems)
    return made


def _pairs(
    specs: Sequence[str], *, known: Sequence[str], bundler_type: str
) -> tuple[_Pairs, list[str]]:
    pairs: dict[str, tuple[str, ...]] = {}
    problems: list[str] = []
    for word in _words(specs, problems):
        key, equals, value = word.partition("=")
        if not equals:
            problems.append(f"bundler_spec: {word!r} is not a pair, which looks like 'key=value'")
        elif key not in known:
            problems.append(
                f"bundler_spec: {key!r} is unknown for the type {bundler_type!r}"
                f"{_nearest(key, known)}; use {', '.join(known)}"
            )
        elif key in pairs and key not in _REPEATED:
            problems.append(f"bundler_spec: {key!r} is given twice")
        else:
            pairs[key] = (*pairs.get(key, ()), value)
    return pairs, problems


def _words(specs: Sequence[str], problems: list[str]) -> list[str]:
    words: list[str] = []
    for spec in specs:
        try:
            words += shlex.split(spec)
        except ValueError:
            problems.append(f"bundler_spec: {spec!r} has a quote that is never closed")
    return words


def _local(pairs: _Pairs, repo: str) -> Code:  # noqa: ARG001
    exclude = [pattern for value in pairs.get("exclude", ()) for pattern in value.split(",")]
    return LocalDir(
        _one(pairs, "root"),
        exclude=[pattern for pattern in exclude if pattern],
        max_size=_one(pairs, "max_size", "1GiB"),
    )


def _git(pairs: _Pairs, repo: str) -> Code:  # noqa: ARG001
    wrong = [
        f"{key}: {_one(pairs, key)!r} is neither true nor false"
        for key in ("submodules", "lfs")
        if _one(pairs, key, "no").lower() not in _TRUTHS
    ]
    if wrong:
        raise InvalidCodeError(*wrong)
    return GitRepo(
        _one(pairs, "url"),
        branch=_one(pairs, "branch"),
        commit=_one(pairs, "commit"),
        submodules=_TRUTHS[_one(pairs, "submodules", "no").lower()],
        lfs=_TRUTHS[_one(pairs, "lfs", "no").lower()],
    )


def _docker(pairs: _Pairs, repo: str) -> Code:
    arguments = [text.partition("=") for text in pairs.get("build_arg", ())]
    if wrong := [name for name, equals, _ in arguments if not equals]:
        raise InvalidCodeError(f"build_arg: {wrong[0]!r} is not a pair; write build_arg=NAME=VALUE")
    repo = _one(pairs, "repo", repo)
    image = _one(pairs, "image")
    tag = _one(pairs, "tag")
    return DockerBuild(
        image=(f"{repo.rstrip('/')}/" if repo else "") + image + (f":{tag}" if tag else ""),
        file=_one(pairs, "dockerfile", "Dockerfile"),
        context=_one(pairs, "context"),
        target=_one(pairs, "target"),
        network=_one(pairs, "network"),
        build_args={name: value for name, _, value in arguments},
    )


def _image(pairs: _Pairs, repo: str) -> Code:  # noqa: ARG001
    return Image(_one(pairs, "ref"))


_MAKERS: Mapping[str, Callable[[_Pairs, str], Code]] = {
    "local": _local,
    "git": _git,
    "docker": _docker,
    "artifactregistry": _docker,
    "image": _image,
}


def _one(pairs: _Pairs, key: str, default: str = "") -> str:
    return pairs.get(key, (default,))[0]


def _nearest(word: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1)
    return f", did you mean {near[0]!r}?" if near else ""
