"""
Build an image and push it, with the docker daemon of this machine.

The result names the image by the registry's digest, so a queued launch runs that build even if its
tag moves. The docker SDK is slow to import and may be missing, so it is imported when used.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from bundler.code import DockerBuild, ImageRef
from bundler.errors import BuildError, BundleError, UnreachableError
from bundler.progress import Progress, Report, unreported
from bundler.root import find_root

if TYPE_CHECKING:
    import docker

_LAST_LINES = 20
_SILENT_S = 600
"""A build step may print nothing for minutes; a daemon silent for longer counts as dead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """The source folder of a build."""

    context: Path
    file: Path


def build(
    code: DockerBuild, *, start: Path, report: Report = unreported, daemon: str = ""
) -> ImageRef:
    """
    Build `code` and push it; return the image by digest.

    `start` is the folder of the submission: a relative context is relative to it. `daemon` is the
    url of a daemon; empty: from docker's own settings.

    Raises:
        BundleError: No Dockerfile; a file that cannot be read; an image that names no registry; no
            docker SDK; a push refused.
        BuildError: The build failed.
        UnreachableError: The daemon does not answer.
    """
    place = _place(code, start)
    repository, tag = _split(code.image)
    if "/" not in repository:
        raise BundleError(
            f"image {code.image!r} names no registry to push to",
            hint="give image=REGISTRY/NAME, or repo=REGISTRY on the command line",
        )
    with closing(_connect(daemon)) as client:
        return _build_and_push(client, code, place, repository, tag, report)


def _build_and_push(
    client: docker.APIClient,
    code: DockerBuild,
    place: _Place,
    repository: str,
    tag: str,
    report: Report,
) -> ImageRef:
    from docker.errors import APIError, DockerException
    from requests.exceptions import RequestException

    try:
        _follow_build(
            client.build(
                path=str(place.context),
                dockerfile=str(place.file),
                tag=f"{repository}:{tag}",
                target=code.target or None,
                network_mode=code.network or None,
                buildargs=dict(code.build_args),
                rm=True,
                decode=True,
            ),
            place,
            report,
        )
        pushed = client.push(repository, tag=tag, stream=True, decode=True)
        return ImageRef(ref=f"{repository}@{_follow_push(pushed, code.image, report)}")
    except APIError as error:
        raise BuildError(
            f"docker refused to build {place.file}: {error.explanation}", hint="", output=()
        ) from None
    except (DockerException, RequestException) as error:
        raise _silenced(error) from None
    except OSError as error:
        raise _unread(error.__cause__ or error) from None  # the SDK names its cause there


def _unread(error: BaseException) -> BundleError:
    """Return the error for a failed system call, on a file or on the daemon's socket."""
    if not (isinstance(error, OSError) and error.filename):
        return _silenced(error)
    return BundleError(
        f"{error.filename} cannot be read: {error.strerror}",
        hint="fix it, or leave it out by a line in .dockerignore",
    )


def _silenced(error: BaseException) -> UnreachableError:
    return UnreachableError(f"the docker daemon stopped answering: {error}")


def _place(code: DockerBuild, start: Path) -> _Place:
    named = os.path.expanduser(code.context)  # noqa: PTH111  (as for the root of a folder)
    context = (start / named).resolve() if named else find_root(start)
    file = context / code.file
    if not file.is_file():
        raise BundleError(
            f"no Dockerfile at {file}", hint="name it relative to the context, or write one"
        )
    return _Place(context=context, file=file)


def _split(image: str) -> tuple[str, str]:
    """Return repository and tag; a colon before the last slash belongs to a port."""
    head, colon, tag = image.rpartition(":")
    return (head, tag) if colon and "/" not in tag else (image, "latest")


def _connect(daemon: str) -> docker.APIClient:
    try:
        import docker
        from docker.errors import DockerException
    except ImportError:
        raise BundleError(
            "building images needs the docker SDK, which is not installed",
            hint="pip install 'bastion-orchestrator[docker]'",
        ) from None
    try:
        if daemon:
            return docker.APIClient(base_url=daemon, version="auto", timeout=_SILENT_S)
        return docker.from_env(version="auto", timeout=_SILENT_S).api
    except DockerException as error:
        raise UnreachableError(
            f"the docker daemon cannot be reached{f' at {daemon}' if daemon else ''}: {error}",
            hint="start docker, join the group 'docker', or set DOCKER_HOST",
        ) from None


def _follow_build(lines: Iterable[Mapping[str, object]], place: _Place, report: Report) -> None:
    """Read the output of a build to its end; raise if a line is an error."""
    last: deque[str] = deque(maxlen=_LAST_LINES)
    for done, line in enumerate(lines, start=1):
        if "error" in line:
            raise BuildError(
                f"the build of {place.file} failed: {_first_line(line['error'])}",
                hint="its last lines say why; builds here are made without BuildKit",
                output=tuple(last),
            )
        last.extend(text for text in str(line.get("stream", "")).splitlines() if text.strip())
        report(Progress(step="build", done=done, total=0))


def _follow_push(lines: Iterable[Mapping[str, object]], image: str, report: Report) -> str:
    digest = ""
    for done, line in enumerate(lines, start=1):
        if "error" in line:
            raise BundleError(
                f"the push of {image} was refused: {_first_line(line['error'])}",
                hint="docker login to its registry, and check that you may write there",
            )
        aux = line.get("aux")
        if isinstance(aux, dict) and "Digest" in aux:
            digest = str(cast("object", aux["Digest"]))
        report(Progress(step="push", done=done, total=0))
    if not digest:
        raise BundleError(f"the push of {image} gave no digest", hint="try again")
    return digest


def _first_line(text: object) -> str:
    return (str(text).strip().splitlines() or ["no reason given"])[0]
