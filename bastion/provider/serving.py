"""
Notes in a folder of machines: which bastions and machines of this host serve a bucket.

The bucket itself names its leader and its machines. These notes remain after it was deleted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from bastion.provider.machine_folder import started, words, write
from bastion.store.keys import file_name

_PREFIX = "bastion-"


def keep_from_code(machines_dir: Path) -> None:
    """
    Exclude a new folder of machines from any repository and bundle that contains it.

    It holds jobs, their secrets and their logs, and all of it keeps changing. An existing folder
    may contain the user's files, so nothing is written for it.
    """
    (machines_dir / ".gitignore").write_text("*\n")


@contextmanager
def noted(machines_dir: Path, name: str, root_url: str) -> Iterator[None]:
    """
    Keep a note that this process, the bastion `name`, serves `root_url`.

    Bastions of several buckets may share a name, that of their host, and a folder of machines.
    """
    bucket = sha256(root_url.encode()).hexdigest()[:12]
    path = machines_dir / f"{_PREFIX}{file_name(name)}-{bucket}"
    pid = os.getpid()
    with suppress(OSError):
        is_new = not machines_dir.exists()
        machines_dir.mkdir(parents=True, exist_ok=True)
        if is_new:
            keep_from_code(machines_dir)
        write(path, f"{pid} {started(pid)} {root_url}")
    try:
        yield
    finally:
        with suppress(OSError):
            if words(path)[:1] == (str(pid),):
                path.unlink()


def bastions_of(machines_dir: Path, root_url: str) -> tuple[int, ...]:
    """Return the live processes of the bastions that serve `root_url`."""
    found = []
    for path in sorted(machines_dir.glob(f"{_PREFIX}*")):
        noted = words(path)
        if len(noted) != 3 or noted[2] != root_url or not noted[0].isdecimal():
            continue
        pid = int(noted[0])
        if started(pid) and str(started(pid)) == noted[1]:
            found.append(pid)
    return tuple(found)


def machines_of(machines_dir: Path, root_url: str, *, is_own: bool) -> list[Path]:
    """
    Return the folders of the local machines that serve `root_url`, in order.

    A machine of an older version does not record its bucket: with `is_own` it serves `root_url`.
    """
    found = [*machines_dir.glob("*/*/machine"), *machines_dir.glob("*/*/*/machine")]
    folders = sorted(path.parent for path in found)
    otherwise = root_url if is_own else ""
    return [folder for folder in folders if _root_of(folder, otherwise) == root_url]


def is_standing(folder: Path) -> bool:
    """Whether the machine in `folder` has not ended."""
    return not (folder / "gone").exists()


def _root_of(folder: Path, otherwise: str) -> str:
    try:
        return (folder / "root").read_text().strip()
    except FileNotFoundError:
        return otherwise
