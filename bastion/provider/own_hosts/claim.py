"""
The claim of a host: only one machine has it, across all pools, buckets, login users and folders.

    /run/lock/bastion-host-<boot id>    the machine, its home, and its owner, as JSON

Every user of the host finds this file, and only its owner can remove it. It is written as a whole
before a machine's agent is started, again whenever the machine is listed, and removed once nothing
of the machine runs. A reboot ends all claims, because it ends all processes.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import mkstemp
from typing import Any

from bastion.provider.machine_folder import explained
from bastion.value import value

CLAIMS = "BASTION_HOST_CLAIMS"
"""Names another folder for the claim, if one kernel is several hosts with their own devices."""
_FOLDERS = (Path("/run/lock"), Path("/tmp"))  # noqa: S108 - a place that all users of a host share
_SHARED = stat.S_ISVTX | stat.S_IWOTH
"""Every user can write there, and none can remove another user's file."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_MAX_BYTES = 4096
_MAX_CHARACTERS = 500
_NAMES = ("machine", "pool", "bucket", "user", "home")


@value
class Claim:
    """Which machine has a host."""

    machine: str
    pool: str
    bucket: str
    user: str
    home: str
    """The agent's folder there."""

    @property
    def owner(self) -> str:
        """Describes whose machine it is."""
        return f"pool {self.pool} of bucket {self.bucket}, user {self.user}, in {self.home}"


def take_host(claim: Claim, environ: Mapping[str, str]) -> Claim | None:
    """
    Claim this host, or confirm the claim; return the claim of another machine, or None.

    Raises:
        ProviderUnavailableError: The claim can be neither read nor written.
    """
    path = _path(environ)
    with explained(path):
        descriptor, name = mkstemp(prefix=".bastion-host-", dir=path.parent)
        mine = Path(name)
        try:
            with os.fdopen(descriptor, "w") as file:
                json.dump(_written(claim), file)
                file.flush()
                os.fsync(file.fileno())
            mine.chmod(0o644)
            return _link(mine, path, claim)
        finally:
            mine.unlink(missing_ok=True)


def claims_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of the claim, the same for every user."""
    told = environ.get(CLAIMS, "")
    shared = (each for each in _FOLDERS if _is_shared(each))
    return Path(told) if told else next(shared, _FOLDERS[-1])


def free_host(home: Path, environ: Mapping[str, str]) -> None:
    """Give this host up, if the machine with this home has it."""
    path = _path(environ)
    with explained(path):
        held = _read(path)
        if held is not None and held.home == str(home):
            path.unlink(missing_ok=True)


def _link(mine: Path, path: Path, claim: Claim) -> Claim | None:
    for _ in range(2):
        with suppress(FileExistsError):
            os.link(mine, path)
            return None
        held = _read(path)
        if held is None:
            continue
        if held.home == claim.home:
            with suppress(OSError):
                os.utime(path)  # programs that clean up old files leave those in use
            return None
        if not _is_over(path, held):
            return held
        path.unlink(missing_ok=True)
    return _read(path)


def _is_over(path: Path, held: Claim) -> bool:
    """Whether the machine's folder was removed or ended manually, as far as its owner can see."""
    if path.stat().st_uid != os.getuid():
        return False
    return not Path(held.home).parent.exists() or (Path(held.home) / "ended").exists()


def _path(environ: Mapping[str, str]) -> Path:
    return claims_folder(environ) / f"bastion-host-{_BOOT_ID.read_text().strip()}"


def _is_shared(folder: Path) -> bool:
    try:
        return folder.stat().st_mode & _SHARED == _SHARED
    except OSError:
        return False


def _read(path: Path) -> Claim | None:
    """Return the existing claim; one that cannot be understood belongs to an unknown machine."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(_MAX_BYTES)
    try:
        said: Any = json.loads(data)
    except (ValueError, RecursionError):
        said = None
    told = said if isinstance(said, dict) else {}
    words = {name: str(told.get(name, "unknown"))[:_MAX_CHARACTERS] for name in _NAMES}
    return Claim(**words)


def _written(claim: Claim) -> dict[str, str]:
    return {name: getattr(claim, name) for name in _NAMES}
