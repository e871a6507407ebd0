"""
Code on its way into the bucket: what the user specified becomes one exact reference.

A folder is bundled and uploaded, a branch is resolved to a commit, and an image is built and
pushed. An exact reference stays as it is.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import assert_never
from urllib.parse import unquote, urlsplit

from bastion.errors import BastionError, SpecError
from bastion.records.code.bundles import Bundles
from bastion.spec import PythonEnv
from bastion.spec.code import BundleRef, CodeRef, GitRef, ImageRef
from bastion.store.port import ObjectStore
from bastion.value import value
from bundler.bundle.select import Selection, root_of, select
from bundler.bundle.upload import Bundle, bundle
from bundler.code import DockerBuild, GitRepo, Image, LocalDir
from bundler.errors import BundleError, InvalidCodeError, UnreachableError
from bundler.progress import Report, unreported


def without_bucket(code: LocalDir, url: str, *, start: Path) -> LocalDir:
    """
    Return `code` without the bucket at `url`, if the bucket is a folder inside it.

    Such a bucket is a folder for a first trial, beside the code. Its bastion writes to it all the
    time, and a bundle of it would contain the earlier bundles.

    Raises:
        InvalidCodeError: The bucket is the top folder of the code itself.
    """
    parts = urlsplit(url)
    if parts.scheme != "file":
        return code
    top = root_of(code, start=start)
    bucket = Path(unquote(parts.path)).resolve()
    if top == bucket:
        raise InvalidCodeError(
            f"root: {str(top)!r} is also the bucket, so a bundle of it would contain earlier"
            " bundles",
            hint="give the bucket a folder of its own, which can be inside the code:"
            " bastion up --root=bucket",
        )
    if top not in bucket.parents:
        return code
    pattern = re.sub(r"([\\*?\[])", r"\\\1", bucket.relative_to(top).as_posix())
    return replace(code, exclude=(*code.exclude, f"/{pattern}/"))


@value
class ResolvedCode:
    """Code that is in the bucket, or has an exact name elsewhere."""

    ref: CodeRef
    size_bytes: int = 0
    """Size of its files; 0 when nothing was bundled."""
    sent_bytes: int = 0
    """Bytes that this call uploaded."""
    warnings: tuple[str, ...] = ()
    bundled: Bundle | None = None
    """The folder that was bundled, if any."""

    @property
    def name(self) -> str:
        """The unique name of this code: a digest, a full commit, or an exact image."""
        match self.ref:
            case BundleRef(digest=digest):
                return digest
            case GitRef(commit=commit):
                return commit
            case ImageRef(ref=ref):
                return ref
            case _:
                assert_never(self.ref)


def resolve_code(
    code: object,
    store: ObjectStore,
    *,
    url: str = "",
    start: Path,
    report: Report = unreported,
    python: PythonEnv | None = None,
) -> ResolvedCode:
    """
    Upload, resolve or build `code` as needed, and return the exact reference to it.

    Args:
        code: The code of a launch: `LocalDir`, `GitRepo`, `Image`, `DockerBuild`, or a reference.
        store: The bucket.
        url: Its location; a bucket that is a folder inside the code is not uploaded.
        start: The folder from which the search for a root starts.
        report: Called with the progress.
        python: The environment to build from it; a folder must contain its lock file.

    Raises:
        SpecError: The code is specified wrongly.
        BastionError: It could not be bundled, resolved or built.
        StoreError: The bucket is unreachable.
    """
    try:
        if isinstance(code, LocalDir):
            code = without_bucket(code, url, start=start)
        return _resolve_checked(code, store, start=start, report=report, python=python)
    except InvalidCodeError as error:
        raise SpecError(*(f"code.{each}" for each in error.problems), hint=error.hint) from None
    except BundleError as error:
        raise BastionError(f"code: {error.message}", hint=error.hint, output=error.output) from None
    except KeyboardInterrupt as interrupt:
        interrupt.add_note("nothing was submitted")
        raise


def _resolve_checked(
    code: object, store: ObjectStore, *, start: Path, report: Report, python: PythonEnv | None
) -> ResolvedCode:
    match code:
        case BundleRef() | GitRef() | ImageRef():
            return ResolvedCode(ref=code)
        case LocalDir():
            look = partial(_check_lock, python)
            made: Bundle = bundle(code, Bundles(store), start=start, report=report, look=look)
            return ResolvedCode(
                ref=made.ref,
                size_bytes=made.size_bytes,
                sent_bytes=made.sent_bytes,
                warnings=made.warnings,
                bundled=made,
            )
        case GitRepo():
            from bundler.repository.access import Access
            from bundler.repository.git import resolve

            return ResolvedCode(ref=resolve(code, access=Access.here()))
        case Image():
            return _resolve_image(code)
        case DockerBuild():
            from bundler.images.image import build

            return ResolvedCode(ref=build(code, start=start, report=report))
        case _:
            raise SpecError(
                f"code: {type(code).__name__} is not known; allowed: LocalDir, GitRepo, Image, "
                "DockerBuild"
            )


def problems_here(
    code: object, python: PythonEnv | None, *, url: str = "", start: Path
) -> list[str]:
    """Return why a folder could not be sent, from its names, sizes and lock file; sends nothing."""
    if not isinstance(code, LocalDir):
        return []
    try:
        _check_lock(python, select(without_bucket(code, url, start=start), start=start))
    except SpecError as error:
        return list(error.problems)
    except InvalidCodeError as error:
        return [f"code.{each}" for each in error.problems]
    except BundleError as error:
        return [f"code: {error.message}"]
    return []


def _check_lock(env: PythonEnv | None, selected: Selection) -> None:
    """
    Refuse a selection without the files that `env` is built from, before it is sent.

    Raises:
        SpecError: A file is missing or left out, or no environment can be built from it.
    """
    if env is None:
        return
    paths = {found.path for found in selected.found}
    missing = [name for name in (env.lock, env.project) if name and name not in paths]
    if missing:
        raise SpecError(
            *(f"python: {name} is {_absence(selected.root / name)}" for name in missing),
            hint=f"the code begins at {selected.root}; paths are relative to it",
        )
    try:
        data = (selected.root / env.lock).read_bytes()
    except OSError as error:
        raise SpecError(f"python: {env.lock} cannot be read: {error.strerror}") from None
    if wrong := env.problems_of(data):
        raise SpecError(*wrong)


def _absence(path: Path) -> str:
    if path.exists():
        return "left out of the code: .gitignore, .bastionignore or exclude names it"
    return "not in the code"


def _resolve_image(code: Image) -> ResolvedCode:
    """Return the image by digest; unchanged, with a warning, if its registry is unreachable."""
    from bundler.images.registry import resolve_image

    try:
        return ResolvedCode(ref=resolve_image(code.ref))
    except UnreachableError as error:
        warning = (
            f"the image stays {code.ref}, which can come to mean another image: {error};"
            " write name@sha256:... to pin it"
        )
        return ResolvedCode(ref=ImageRef(ref=code.ref), warnings=(warning,))
