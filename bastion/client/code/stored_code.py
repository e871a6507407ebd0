"""Code that ran: the stored spec of a launch, its origin, and the code itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bastion.client.look.find_job import find_all
from bastion.client.look.published import Published
from bastion.errors import BastionError, NotFoundError, SpecError
from bastion.records.requests.launch_request import SpecRecord
from bastion.spec import BundleRef, CodeRef, GitRef, ImageRef
from bastion.store.port import ObjectStore
from bastion.value import value
from bundler.errors import BundleError

if TYPE_CHECKING:
    from bastion.records.requests.origin import Origin


@value
class CodeView:
    """The code that a launch runs, and its origin."""

    launch: str
    project: str
    user: str
    code: CodeRef | None = None
    """The exact code; None if none was sent."""
    again_of: str = ""
    """The launch that it repeats."""
    origin: Origin | None = None
    """None if its submitter stored none."""


def named_spec(
    published: Published, name: str, *, project: str = "", exact: bool = False
) -> SpecRecord:
    """
    Return the stored spec of the launch called `name`, or of the launch of the job `name`.

    Raises:
        NotFoundError: There is no such job or launch, or its spec was deleted.
        SpecError: The name is ambiguous.
        StoreError: The bucket is unreachable.
    """
    try:
        job, *_ = find_all(published, name, project=project, newest=True, exact=exact)
    except NotFoundError:
        places = (project,) if project else published.projects()
        ended = next(filter(None, (published.spec(place, name) for place in places)), None)
        if ended is None:
            raise
        return ended
    found = published.spec(job.project, job.launch)
    if found is None:
        raise NotFoundError(f"the spec of {job.launch} is no longer in the bucket")
    return found


def code_view(store: ObjectStore, spec: SpecRecord) -> CodeView:
    """
    Return the code that `spec` runs, and its origin.

    Raises:
        RecordError: Its origin cannot be decoded.
        StoreError: The bucket is unreachable.
    """
    from bastion.records.requests.origin import read_origin

    origin = None
    if spec.origin:
        try:
            origin = read_origin(store, spec.origin)
        except NotFoundError:
            origin = None  # deleted, as bundles may be; the reference still names the code
    code = spec.launch.code
    return CodeView(
        launch=spec.id,
        project=spec.project,
        user=spec.user,
        code=code if isinstance(code, CodeRef) else None,
        again_of=spec.again_of,
        origin=origin,
    )


def check_out(store: ObjectStore, spec: SpecRecord, directory: Path) -> None:
    """
    Write a copy of the exact code of `spec` into `directory`, which must be absent or empty.

    Raises:
        SpecError: It has no code that can be written into a folder.
        BastionError: The code cannot be fetched, or something else is in the way.
        StoreError: The bucket is unreachable.
    """
    from tempfile import TemporaryDirectory

    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".bastion-code-", dir=directory.parent) as cache:
            _check_out(store, spec, directory, Path(cache))
    except BundleError as error:
        raise BastionError(f"code: {error.message}", hint=error.hint) from None
    except OSError as error:
        raise BastionError(f"{directory}: {error.strerror}") from None


def _check_out(store: ObjectStore, spec: SpecRecord, directory: Path, cache: Path) -> None:
    from bastion.records.code.bundles import Bundles
    from bundler.bundle.fetch import fetch
    from bundler.copies.checkout import checkout
    from bundler.repository.access import Access
    from bundler.repository.clone import fetch_commit

    match spec.launch.code:
        case BundleRef(digest=digest):
            checkout(fetch(digest, Bundles(store), cache), directory)
        case GitRef() as ref:
            checkout(fetch_commit(ref, cache, access=Access.here()), directory)
        case ImageRef(ref=image):
            raise SpecError(
                f"{spec.id} runs the image {image}, which is not a folder",
                hint=f"docker create {image}, then docker cp",
            )
        case _:
            raise SpecError(f"{spec.id} was submitted without code")
