"""
The folders of a host, filled with its code and the output that earlier attempts of its job kept.

The bundler fetches the code, and is imported only if there is code to fetch.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from bastion.agent.home import Folders, Home
from bastion.agent.kept_output import restore
from bastion.agent.settings import AgentSettings
from bastion.clock import Clock, SystemClock
from bastion.errors import BastionError
from bastion.records.code.bundles import Bundles
from bastion.records.keys import layout
from bastion.records.reports.facts import HostFact
from bastion.spec.code import BundleRef, Code, CodeRef, GitRef, ImageRef
from bastion.store.port import ObjectStore

if TYPE_CHECKING:
    from bundler.progress import Progress


_PAUSES_S = (2.0, 8.0)
"""Pauses between tries of a repository that does not answer: retries cost no attempt."""

_FETCHES = 3
"""Tries to copy code that a cleaning of the cache deletes first."""

_CLOCK = SystemClock()
"""Pauses between real calls, which no simulation makes."""


class SetUpError(BastionError):
    """A job cannot be set up on this machine; the message is shown to its users."""


def set_up(
    home: Home,
    store: ObjectStore,
    key: str,
    of: HostFact,
    code: CodeRef | Code | None,
    settings: AgentSettings,
    *,
    say: Callable[[str], None],
    report: Callable[[str], None],
) -> Folders:
    """
    Create and fill the folders of a host that was never started.

    Args:
        home: The agent's folders.
        store: The bucket.
        key: The key of the host's attempt.
        of: The host.
        code: The code of its launch.
        settings: The agent's settings.
        say: Writes one line to the agent's log.
        report: Takes the current step, for the progress that users see.

    Raises:
        SetUpError: It failed, and a retry would not help.
        StoreError: The store is unreachable.
    """
    try:
        folders = home.folders(key)
        if isinstance(code, ImageRef):
            _bring_image(code, settings, say, report)
        elif code is not None:
            # An agent that died before the start may have filled the folder.
            shutil.rmtree(folders.code)
            bring(code, store, settings, home.cache, Path(folders.code), report)
        if of.attempt > 1:
            report("fetching what earlier attempts kept")
            restore(store, of, Path(folders.output))
    except OSError as error:
        raise SetUpError(f"its folders cannot be written: {error}") from error
    return folders


def bring(
    code: BundleRef | GitRef | Code,
    store: ObjectStore,
    settings: AgentSettings,
    cache: Path,
    directory: Path,
    report: Callable[[str], None],
) -> None:
    """
    Copy `code` to `directory`, which must not exist.

    Raises:
        SetUpError: It cannot be fetched, and a retry would not help; or the disk is full.
        StoreError: The store is unreachable.
    """
    from bundler.bundle.fetch import fetch
    from bundler.copies.checkout import checkout
    from bundler.copies.kept import in_use
    from bundler.errors import BundleError, DamagedError
    from bundler.size import show_size

    def fetched(now: Progress) -> None:
        report(f"fetching its code, {show_size(now.done)} of {show_size(now.total)} so far")

    def kept() -> Path:
        match code:
            case BundleRef():
                return fetch(code.digest, Bundles(store), cache, report=fetched)
            case GitRef():
                return _clone(code, settings, cache, report)
            case _:
                raise SetUpError(f"its code was never uploaded: {code}")

    try:
        for _ in range(_FETCHES):
            with in_use(kept()) as tree:
                if tree is not None:
                    report("copying its code into its folder")
                    checkout(tree, directory)
                    return
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        raise SetUpError("its code left the cache before it could be copied") from full
    except DamagedError as error:
        raise SetUpError(f"{error}; {_sent_anew(code)}") from error
    except BundleError as error:
        raise SetUpError(str(error), hint=error.hint) from error


def _sent_anew(code: BundleRef | GitRef | Code) -> str:
    """
    Return how to restore a damaged bundle: objects are never replaced, so they must be deleted
    first.
    """
    assert isinstance(code, BundleRef)
    manifest = f"{layout.BUNDLES}manifests/{code.digest}"
    return f"delete {manifest} and the damaged objects, then submit it again to upload its code"


def _bring_image(
    code: ImageRef,
    settings: AgentSettings,
    say: Callable[[str], None],
    report: Callable[[str], None],
) -> None:
    from bastion.agent.containers.engine import Engine
    from bastion.agent.setup.image import ImageError, bring_image

    if not settings.engine_socket:
        raise SetUpError(
            f"image {code.ref} cannot be run: this machine is not configured to run containers",
            hint="an admin sets containers = true for a pool whose machines have docker",
        )
    try:
        bring_image(code.ref, Engine(settings.engine_socket), say, report)
    except ImageError as error:
        raise SetUpError(str(error), hint=error.hint) from error


def _clone(
    code: GitRef,
    settings: AgentSettings,
    cache: Path,
    report: Callable[[str], None],
    clock: Clock = _CLOCK,
) -> Path:
    from bundler.errors import UnreachableError
    from bundler.repository.access import Access
    from bundler.repository.clone import fetch_commit
    from bundler.url import redacted

    access = Access(
        key_file=Path(settings.git_key_file) if settings.git_key_file else None,
        known_hosts_file=Path(settings.git_known_hosts) if settings.git_known_hosts else None,
    )
    for pause_s in _PAUSES_S:
        report(f"cloning {redacted(code.url)}")
        with suppress(UnreachableError):
            return fetch_commit(code, cache, access=access)
        clock.sleep(pause_s)
    report(f"cloning {redacted(code.url)}")
    return fetch_commit(code, cache, access=access)
