"""`bastion auth`: log in to the cloud of a bastion's bucket, with the cloud's own program."""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess

from launch import exits
from launch.errors import UsageError
from launch.grammar.parser import Verbs, switch
from launch.screen.notes import note
from launch.session import Session

_GOOGLE_REGISTRIES = (".pkg.dev", "gcr.io")
_AZURE_REGISTRY = ".azurecr.io"


def register(verbs: Verbs) -> None:
    """Add the verb of this file."""
    parser = verbs.add(
        "auth",
        auth,
        text="Uses gcloud, aws or az, whose credentials all other verbs use. Also configures"
        " Docker if the profile's image_repo is a registry of Google or Azure.",
        example="bastion auth",
    )
    switch(parser, "--print", "print the commands instead of running them")


def auth(args: argparse.Namespace) -> int:
    """`bastion auth`."""
    profile = Session(args).profile
    commands = logins(profile.root, profile.image_repo)
    if not commands:
        note(f"{profile.root} is a folder and needs no login")
    for words in commands:
        if args.print:
            print(shlex.join(words))
        elif code := _ran(words):
            return code
    return exits.OK


def logins(root: str, image_repo: str) -> list[tuple[str, ...]]:
    """
    Return the commands that log in to the cloud of `root` and to its image registry.

    Raises:
        SpecError: `root` names no store.
    """
    from bastion.store.open import checked

    asked: list[tuple[str, ...]]
    registry = image_repo.partition("/")[0]
    match checked(root).scheme:
        case "gs":
            asked = [("gcloud", "auth", "login", "--update-adc")]
            if registry.endswith(_GOOGLE_REGISTRIES):
                asked.append(("gcloud", "auth", "configure-docker", registry, "--quiet"))
            return asked
        case "s3":
            return [("aws", "sso", "login")]
        case "az":
            asked = [("az", "login")]
            if registry.endswith(_AZURE_REGISTRY):
                name = registry.removesuffix(_AZURE_REGISTRY)
                asked.append(("az", "acr", "login", f"--name={name}"))
            return asked
        case _:
            return []


def _ran(words: tuple[str, ...]) -> int:
    if shutil.which(words[0]) is None:
        raise UsageError(
            f"{words[0]} is not installed, and is needed to log in to the cloud",
            hint=f"install it, or run this where it is installed: {shlex.join(words)}",
        )
    return exits.of_program(subprocess.run(words, check=False).returncode)
