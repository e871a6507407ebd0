"""
The default bastion, user and project: environment variables, then the active profile.

Profiles are in `$XDG_CONFIG_HOME/bastion/config.toml`:

    active = "work"
    [profiles.work]
    root = "gs://bucket/shared-bastion"
    user = "ada"
    project = "project1"
    code = "."
    image_repo = "europe-docker.pkg.dev/acme/images"
    zone = "us-central1-a"
    cloud_project = "acme"
    identity = "bastion@acme.iam.gserviceaccount.com"
    bastion_image = "base"

Only `bastion create` and related commands use the last four; their flags override them.

The command line and `Client()` read them here, so both use the same bastion.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from bastion.errors import SpecError
from bastion.value import fields, replace, value

if TYPE_CHECKING:
    from pathlib import Path

ENVIRONMENT = {
    "root": "BASTION_ROOT",
    "user": "BASTION_USER",
    "project": "BASTION_PROJECT",
    "image_repo": "BASTION_IMAGE_REPO",
}
"""Variables that override the active profile; flags override them."""


@value
class Profile:
    """The settings of one profile; an empty one is not set."""

    root: str = ""
    user: str = ""
    project: str = ""
    image_repo: str = ""
    """Where images without a registry in their name are pushed."""
    code: str = ""
    """The folder whose tree is sent by a launch that names no code."""
    zone: str = ""
    """Of the bastion's own VM, like the following settings."""
    cloud_project: str = ""
    identity: str = ""
    bastion_image: str = ""
    """The image that it runs, as for `bastion create --image`."""


ELSEWHERE = "XDG_CONFIG_HOME names another folder for settings"
"""The hint if the file cannot be read or written."""

KEYS = tuple(field.name for field in fields(Profile))


@value
class Settings:
    """The contents of the file: profiles by name, and the name of the active one."""

    active: str
    profiles: Mapping[str, Profile]

    @property
    def profile(self) -> Profile:
        """The active profile, or an empty one."""
        return self.profiles.get(self.active, Profile())


def config_path() -> Path:
    """Return the path of the file."""
    from pathlib import Path

    return Path(_config_file())


def _config_file() -> str:
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(home, "bastion", "config.toml")


def read_settings() -> Settings:
    """
    Read the file; without a file there are no profiles.

    There are also none if its folder is not a folder: some users have `/dev/null` as their home.

    Raises:
        SpecError: It cannot be read, is not TOML, or has unknown keys.
    """
    path = _config_file()
    try:
        with open(path) as file:
            text = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return Settings(active="", profiles={})
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror}", hint=ELSEWHERE) from None
    except ValueError as error:
        raise SpecError(f"{path}: {error}") from None
    return _settings(path, text)


@lru_cache(maxsize=1)
def _settings(path: str, text: str) -> Settings:
    """Return the settings in the file at `path`; cached, because a command reads them often."""
    import tomllib

    try:
        table = tomllib.loads(text)
    except ValueError as error:
        raise SpecError(f"{path}: {error}") from None
    written = table.get("profiles", {})
    if not isinstance(written, dict):
        raise SpecError(f"{path}: profiles is not a table")
    profiles = {name: _profile(path, name, keys) for name, keys in written.items()}
    return Settings(active=str(table.get("active", "")), profiles=profiles)


def _profile(path: str, name: str, keys: object) -> Profile:
    if not isinstance(keys, dict):
        raise SpecError(f"{path}: profiles.{name} is not a table")
    for key, text in keys.items():
        if key not in KEYS:
            raise unknown_key(f"{path}: profiles.{name}.{key}", key)
        if not isinstance(text, str):
            raise SpecError(f"{path}: profiles.{name}.{key}: {text!r} is not text")
    return Profile(**keys)


def unknown_key(where: str, key: str) -> SpecError:
    """Return the error for an unknown key."""
    import difflib

    near = difflib.get_close_matches(key, KEYS, n=1)
    nearest = f", nearest is {near[0]}" if near else ""
    return SpecError(f"{where}: unknown{nearest}", hint=f"keys are {', '.join(KEYS)}")


def surrounding() -> Profile:
    """
    Return the default settings: environment variables, then the active profile.

    Raises:
        SpecError: The file is not TOML, or has unknown keys.
    """
    return over_environment(read_settings().profile)


def over_environment(profile: Profile) -> Profile:
    """Return `profile` with environment variables applied over it, and its root as a URL."""
    environment = {key: os.environ.get(variable, "") for key, variable in ENVIRONMENT.items()}
    return replace(
        profile,
        root=as_url(environment["root"] or profile.root),
        user=environment["user"] or profile.user,
        project=environment["project"] or profile.project,
        image_repo=environment["image_repo"] or profile.image_repo,
    )


def as_url(root: str | os.PathLike[str]) -> str:
    """Return `root` as a URL: a plain path is a folder on this machine."""
    root = os.fspath(root)
    if not root or ":" in root.partition("/")[0]:
        return root
    from pathlib import Path

    return Path(os.path.expanduser(root)).resolve().as_uri()
