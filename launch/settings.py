"""
Which bastion, which user, which project: flag over environment over active profile.

Profiles lie in `$XDG_CONFIG_HOME/bastion/config.toml`:

    active = "work"
    [profiles.work]
    root = "gs://bucket/shared-bastion"
    user = "ada"
    project = "project1"
    image_repo = "europe-docker.pkg.dev/acme/images"

This is the only file that reads the environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

from launch.errors import UsageError

ENVIRONMENT = {
    "root": "BASTION_ROOT",
    "user": "BASTION_USER",
    "project": "BASTION_PROJECT",
    "image_repo": "BASTION_IMAGE_REPO",
}
"""Variables that stand between flags and the active profile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What one profile says; empty is unsaid."""

    root: str = ""
    user: str = ""
    project: str = ""
    image_repo: str = ""
    """Where images are pushed that name no registry themselves."""


KEYS = tuple(field.name for field in fields(Profile))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The file: profiles by name, and which one is active."""

    active: str
    profiles: Mapping[str, Profile]

    @property
    def profile(self) -> Profile:
        """The active profile, or an empty one."""
        return self.profiles.get(self.active, Profile())


def config_path() -> Path:
    """Where the file lies."""
    home = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(home) / "bastion" / "config.toml"


def read_settings() -> Settings:
    """
    The file's content; nothing when there is none.

    Raises:
        UsageError: It is not TOML, or holds what is not known.
    """
    import tomllib

    path = config_path()
    try:
        table = tomllib.loads(path.read_text())
    except FileNotFoundError:
        return Settings(active="", profiles={})
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {error}") from None
    written = table.get("profiles", {})
    if not isinstance(written, dict):
        raise UsageError(f"{path}: profiles is not a table")
    profiles = {name: _profile(path, name, keys) for name, keys in written.items()}
    return Settings(active=str(table.get("active", "")), profiles=profiles)


def _profile(path: Path, name: str, keys: object) -> Profile:
    if not isinstance(keys, dict):
        raise UsageError(f"{path}: profiles.{name} is not a table")
    for key, text in keys.items():
        if key not in KEYS:
            raise unknown_key(f"{path}: profiles.{name}.{key}", key)
        if not isinstance(text, str):
            raise UsageError(f"{path}: profiles.{name}.{key}: {text!r} is not text")
    return Profile(**keys)


def unknown_key(where: str, key: str) -> UsageError:
    """What to say about a key that is none."""
    import difflib

    near = difflib.get_close_matches(key, KEYS, n=1)
    nearest = f", nearest is {near[0]}" if near else ""
    return UsageError(f"{where}: unknown{nearest}", hint=f"keys are {', '.join(KEYS)}")


def write_profile(name: str, values: Mapping[str, str], *, activate: bool) -> None:
    """Add `values` to a profile, make it the active one when asked; comments stay."""
    import tomlkit

    path = config_path()
    file = tomlkit.parse(path.read_text()) if path.exists() else tomlkit.document()
    if activate or "active" not in file:
        file["active"] = name
    profiles = file.setdefault("profiles", tomlkit.table(is_super_table=True))
    profile = profiles.setdefault(name, tomlkit.table())
    for key, text in values.items():
        profile[key] = text
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(tomlkit.dumps(file))
    new.replace(path)


def chosen(*, root: str, bastion: str, user: str, project: str) -> Profile:
    """
    What holds for this command: flags, then the environment, then the profile.

    Args:
        root: `--root`.
        bastion: `--bastion`: a profile's name, or the folder beside the active profile's root.
        user: `--user_id`.
        project: `--project_id`.

    Raises:
        UsageError: `--bastion` names nothing that can be found.
    """
    settings = read_settings()
    profile = settings.profile
    named = {key: os.environ.get(variable, "") for key, variable in ENVIRONMENT.items()}
    if bastion:
        profile, named["root"] = _of_bastion(bastion, settings, named["root"]), ""
    return Profile(
        root=as_url(root or named["root"] or profile.root),
        user=user or named["user"] or profile.user,
        project=project or named["project"] or profile.project,
        image_repo=named["image_repo"] or profile.image_repo,
    )


def _of_bastion(name: str, settings: Settings, root: str) -> Profile:
    if name in settings.profiles:
        return settings.profiles[name]
    beside = (root or settings.profile.root).rstrip("/")
    if not beside:
        known = ", ".join(settings.profiles) or "none"
        raise UsageError(
            f"--bastion: no profile is called {name!r}, profiles are {known}",
            hint=f"bastion config set --profile={name} root=URL",
        )
    parent = as_url(beside).rpartition("/")[0]
    old = settings.profile
    return replace(old, root=f"{parent}/{name}")


def as_url(root: str) -> str:
    """`root` as a URL: a plain path is a folder on this machine."""
    if not root or ":" in root.partition("/")[0]:
        return root
    return Path(root).expanduser().resolve().as_uri()
