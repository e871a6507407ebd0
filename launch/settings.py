"""
The bastion, user and project of a command: flags override environment and active profile.

`bastion.profile` reads the environment and profiles. This file applies flags and writes profiles.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from errno import ENOTDIR
from typing import TYPE_CHECKING

from bastion.errors import BastionError
from bastion.profile import (
    ELSEWHERE,
    Profile,
    Settings,
    as_url,
    config_path,
    over_environment,
    read_settings,
)
from bastion.value import replace
from launch.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path


def write_profile(name: str, values: Mapping[str, str], *, activate: bool) -> None:
    """
    Add `values` to a profile, and make it active on request; comments are kept.

    Raises:
        BastionError: The file cannot be written.
    """
    import fcntl

    path = config_path()
    new = path.with_suffix(f".{os.getpid()}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.with_suffix(".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # released when it is closed
            new.write_text(_changed(path, name, values, activate=activate), encoding="utf-8")
            new.replace(path)
    except OSError as error:
        with suppress(OSError):
            new.unlink()
        where = error.filename or new
        why = "is not a folder" if error.errno == ENOTDIR else (error.strerror or "")
        raise BastionError(f"{path} cannot be written: {where}: {why}", hint=ELSEWHERE) from None


def _changed(path: Path, name: str, values: Mapping[str, str], *, activate: bool) -> str:
    """Return the text of the file at `path` with `values` in the profile `name`."""
    import tomlkit

    file = tomlkit.parse(path.read_text(encoding="utf-8")) if path.exists() else tomlkit.document()
    if activate or "active" not in file:
        file["active"] = name
    profiles = file.setdefault("profiles", tomlkit.table(is_super_table=True))
    profile = profiles.setdefault(name, tomlkit.table())
    for key, text in values.items():
        profile[key] = text
    return tomlkit.dumps(file)


def chosen(*, root: str, bastion: str, user: str, project: str) -> Profile:
    """
    Return the settings of this command: flags, then the environment, then the profile.

    Args:
        root: `--root`.
        bastion: `--bastion`: a profile, or the name of a folder next to the active profile's root.
        user: `--user_id`.
        project: `--project_id`.

    Raises:
        UsageError: `--bastion` names neither a profile nor a folder.
    """
    settings = read_settings()
    found = over_environment(settings.profile)
    if bastion:
        named = _of_bastion(bastion, settings, found.root)
        found = replace(over_environment(named), root=as_url(named.root))
    return replace(
        found,
        root=as_url(root) or found.root,
        user=user or found.user,
        project=project or found.project,
    )


def _of_bastion(name: str, settings: Settings, root: str) -> Profile:
    if name in settings.profiles:
        return settings.profiles[name]
    beside = (root or settings.profile.root).rstrip("/")
    if not beside:
        known = ", ".join(settings.profiles) or "none"
        raise UsageError(
            f"--bastion: no profile is named {name!r}; profiles are {known}",
            hint=f"bastion config set --profile={name} root=URL",
        )
    parent = as_url(beside).rpartition("/")[0]
    old = settings.profile
    return replace(old, root=f"{parent}/{name}")
