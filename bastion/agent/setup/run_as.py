"""The user that jobs run as, if it is not the agent's, and its access to their folders."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

from bastion.agent.keeper.port import RunAs
from bastion.agent.machine.job_files import give_away
from bastion.errors import SpecError

_PASSED_THROUGH = 0o711
"""Mode of a folder that other users may pass through, but not list."""


def user_of(name: str) -> RunAs:
    """
    Look up the user that jobs run as.

    Raises:
        SpecError: There is no such user, it is root, or this process is not root.
    """
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise SpecError(
            f"run_as: this machine has no user {name!r}",
            hint="create it, for example with useradd --system",
        ) from None
    if found.pw_uid == 0:
        raise SpecError(f"run_as: {name!r} is root; name another user, or none")
    if os.geteuid() != 0:
        raise SpecError(
            f"run_as: {name!r} is another user than the agent, which is not root",
            hint="only an agent that runs as root can start jobs as another user",
        )
    groups = os.getgrouplist(name, found.pw_gid)
    return RunAs(uid=found.pw_uid, gid=found.pw_gid, groups=tuple(groups))


def open_home(home: Path, user: RunAs) -> None:
    """
    Let `user` pass through the agent's home to the folders that will be its own.

    The folders beside them stay root's: the keeper's folder, the numbers, code of other jobs.

    Raises:
        SpecError: A folder above the home does not let the user pass.
        OSError: The folders of the home cannot be made.
    """
    (home / "numbers").mkdir(exist_ok=True)
    passed = (home, home / "work", home / "cache", home / "cache" / "python")
    for entry in home.iterdir():
        if entry not in passed:  # running jobs use these now
            entry.chmod(0o700 if entry.is_dir() else 0o600)
    for folder in passed:
        folder.mkdir(exist_ok=True)
        folder.chmod(_PASSED_THROUGH)
    for above in home.parents:
        found = above.stat()
        if not _may_pass(found, user):
            mode = stat.S_IMODE(found.st_mode)
            raise SpecError(
                f"run_as: user {user.uid} cannot reach {home}: {above} has mode {mode:o}",
                hint="keep machines elsewhere: serve --machines_dir=/var/lib/bastion",
            )


def closed_above(path: str, user: RunAs) -> str:
    """Return the folder above `path` through which `user` may not pass, or an empty string."""
    above = reversed(Path(path).parents)
    return next((str(folder) for folder in above if not _may_pass(folder.stat(), user)), "")


def give_contents(base: str, user: RunAs) -> None:
    """
    Give `user` the contents of a host's folder, which itself stays closed to all but root.

    Raises:
        OSError: The owner cannot be changed.
    """
    give_away(base, user.uid, user.gid)


def hand_over(base: str, user: RunAs) -> None:
    """
    Give `user` the folder of a host; the agent treats it as untrusted from now on.

    Raises:
        OSError: The owner cannot be changed.
    """
    os.chown(base, user.uid, user.gid, follow_symlinks=False)


def _may_pass(found: os.stat_result, user: RunAs) -> bool:
    if found.st_uid == user.uid:
        return bool(found.st_mode & stat.S_IXUSR)
    if found.st_gid in (user.gid, *user.groups):
        return bool(found.st_mode & stat.S_IXGRP)
    return bool(found.st_mode & stat.S_IXOTH)
