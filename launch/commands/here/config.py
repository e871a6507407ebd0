"""Profiles: the bastion, user and project to use if no flag names them."""

from __future__ import annotations

import argparse
from pathlib import Path

from bastion.profile import (
    KEYS,
    Profile,
    Settings,
    as_url,
    config_path,
    read_settings,
    unknown_key,
)
from launch import exits
from launch.errors import UsageError
from launch.grammar.parser import Verbs, text
from launch.screen.notes import note
from launch.screen.render import Column
from launch.session import Session
from launch.settings import chosen, write_profile

ACTIONS = ("list", "show", "activate", "set", "check")
_FLAGS = {"project_id": "project", "user_id": "user"}
"""Names of flags that are accepted as keys with the same meaning."""
_ONE_BUCKET = "one bucket holds jobs, logs and quotas: bastion config set root=TEXT"
_OF_A_POOL = "omit it: each pool sets it, in the bucket's config/bastion.toml"
_THEIRS = {
    **dict.fromkeys(("bucket", "private_bucket", "permanent_bucket", "ttl_bucket"), _ONE_BUCKET),
    "docker_repo": "bastion config set image_repo=TEXT",
    "default_dockerfile": "each launch sets it: --bundler_spec=dockerfile=TEXT",
    "service_account_email": "bastion config set identity=TEXT",
    **dict.fromkeys(("network", "subnetwork", "region", "reservation"), _OF_A_POOL),
    "labels": "omit it: a profile is selected by name, bastion config activate NAME",
}
"""Settings of AXLearn's CLI, and ours for them. Source: its `.axlearn.default.config`."""


def register(verbs: Verbs) -> None:
    """Add the verb of this file."""
    parser = verbs.add(
        "config",
        config,
        prints=True,
        text=f"set takes KEY=TEXT; keys are {', '.join(KEYS)}. check reports every problem in a"
        " file that is to become the bucket's config/bastion.toml.",
        example="""\
bastion config set --profile=work root=gs://bucket/shared-bastion project=project1
bastion config activate work
bastion config check bastion.toml""",
    )
    parser.add_argument("action", choices=ACTIONS, metavar="ACTION", help=", ".join(ACTIONS))
    parser.add_argument("words", nargs="*", metavar="WORD", help="a profile, KEY=TEXT, or a file")
    text(parser, "--profile", "profile to set (default: the active one)", metavar="NAME")


def config(args: argparse.Namespace) -> int:
    """`bastion config ACTION`."""
    actions = {
        "list": _list,
        "show": _show,
        "activate": _activate,
        "set": _set,
        "check": _check,
    }
    if args.profile and args.action != "set":
        raise UsageError(
            f"--profile: only config set takes it, not config {args.action}",
            hint="to use another profile: --bastion=NAME",
        )
    return actions[args.action](Session(args))


def _list(session: Session) -> int:
    settings = read_settings()
    columns: list[Column[str]] = [
        Column(title="PROFILE", text=str),
        Column(title="ACTIVE", text=lambda name: "yes" if name == settings.active else ""),
        Column(title="ROOT", text=lambda name: settings.profiles[name].root),
        Column(title="USER", text=lambda name: settings.profiles[name].user),
        Column(title="PROJECT", text=lambda name: settings.profiles[name].project),
    ]
    session.out.show("profiles", list(settings.profiles), columns, name=str)
    return exits.OK


def _show(session: Session) -> int:
    args = session.args
    found: Profile = chosen(
        root=args.root, bastion=args.bastion, user=args.user_id, project=args.project_id
    )
    if session.out.format == "json":
        session.out.json({key: getattr(found, key) for key in KEYS})
        return exits.OK
    session.out.fields((key, getattr(found, key)) for key in KEYS)
    note(f"from flags, environment and {config_path()}")
    return exits.OK


def _activate(session: Session) -> int:
    settings: Settings = read_settings()
    name = " ".join(session.args.words)
    known = ", ".join(settings.profiles) or "none"
    if not name:
        raise UsageError(
            f"config activate: no profile given; profiles are {known}",
            hint="to see them: bastion config list",
        )
    if name not in settings.profiles:
        raise UsageError(f"config activate: no profile is named {name!r}; profiles are {known}")
    write_profile(name, {}, activate=True)
    if session.out.format == "json":
        session.out.json({"profile": name, "active": True})
    note(f"{name} is active")
    return exits.OK


def _check(session: Session) -> int:
    """Report every problem in a file of pools, secrets and webhooks."""
    from bastion.errors import SpecError
    from bastion.service.config.inventory import inventories_of, whole_config
    from bastion.service.config.pool_config import parse_config

    name = " ".join(session.args.words)
    if not name:
        raise UsageError("config check: no file given", hint="bastion config check bastion.toml")
    text = _text_of(Path(name))
    beside = {each: Path(name).parent / each for each in inventories_of(text)}
    here = {"config/bastion.toml": name}
    here |= {f"config/{each}": str(path) for each, path in beside.items()}

    def own(problem: str) -> str:
        key = next((each for each in here if problem.startswith(each)), "")
        return problem.replace(key, here[key], 1) if key else problem

    try:
        found = parse_config(whole_config(text, lambda each: _text_of(beside[each])))
    except SpecError as error:
        hint = "bastion help config-file describes every key"
        raise SpecError(*map(own, error.problems), hint=hint) from None
    pools = sorted(found.pools)
    if session.out.format == "json":
        session.out.json({"file": name, "pools": pools})
    elif not session.is_quiet:
        note(f"{name} is valid; its pools: {', '.join(pools) or 'none'}")
        for each in found.spare_hosts:
            note(own(each))
    return exits.OK


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")  # as a bastion reads it
    except UnicodeDecodeError:
        raise UsageError(f"{path}: is not UTF-8 text") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None


def _set(session: Session) -> int:
    args = session.args
    values = {}
    for word in args.words:
        key, equals, text = word.partition("=")
        if not equals:
            raise UsageError(f"config set: {word!r} is not KEY=TEXT")
        key = _FLAGS.get(key, key)
        if key in _THEIRS:
            ours = _THEIRS[key].replace("TEXT", text or "TEXT")
            raise UsageError(f"config set: {key}: unknown key", hint=ours)
        if key not in KEYS:
            raise unknown_key(f"config set: {key}", key)
        values[key] = _root(text) if key == "root" else text
    if not values:
        raise UsageError("config set: nothing to set", hint="bastion config set root=URL")
    name = args.profile or read_settings().active or "default"
    write_profile(name, values, activate=False)
    if session.out.format == "json":
        session.out.json({"profile": name, "set": values, "file": str(config_path())})
    note(f"profile {name}: {', '.join(values)} set in {config_path()}")
    return exits.OK


def _root(text: str) -> str:
    """Return a root as a URL, so that a path works from every folder. Empty unsets it."""
    from bastion.store.open import checked

    url = as_url(text)
    if url:
        checked(url)
    return url
