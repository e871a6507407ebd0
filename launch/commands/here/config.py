"""Profiles: which bastion, user and project hold when no flag says."""

from __future__ import annotations

import argparse

from bastion.profile import KEYS, Profile, Settings, config_path, read_settings, unknown_key
from launch import exits
from launch.errors import UsageError
from launch.grammar.parser import Verbs, text
from launch.screen.notes import note
from launch.screen.render import Column
from launch.session import Session
from launch.settings import chosen, write_profile

ACTIONS = ("list", "show", "activate", "set")


def register(verbs: Verbs) -> None:
    """Add the verb of this file."""
    parser = verbs.add(
        "config",
        config,
        "list, show, choose or change profiles",
        prints=True,
        text=f"set takes KEY=TEXT; keys are {', '.join(KEYS)}.",
        example="""\
bastion config set --profile=work root=gs://bucket/shared-bastion project=project1
bastion config activate work""",
    )
    parser.add_argument("action", choices=ACTIONS, metavar="ACTION", help=", ".join(ACTIONS))
    parser.add_argument("words", nargs="*", metavar="WORD", help="a profile, or KEY=TEXT")
    text(parser, "--profile", "which one to set; the active one by default", metavar="NAME")


def config(args: argparse.Namespace) -> int:
    """`bastion config ACTION`."""
    actions = {"list": _list, "show": _show, "activate": _activate, "set": _set}
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
    if name not in settings.profiles:
        known = ", ".join(settings.profiles) or "none"
        raise UsageError(f"config activate: no profile is called {name!r}, profiles are {known}")
    write_profile(name, {}, activate=True)
    note(f"{name} is active")
    return exits.OK


def _set(session: Session) -> int:
    args = session.args
    values = {}
    for word in args.words:
        key, equals, text = word.partition("=")
        if not equals:
            raise UsageError(f"config set: {word!r} is not KEY=TEXT")
        if key not in KEYS:
            raise unknown_key(f"config set: {key}", key)
        values[key] = text
    if not values:
        raise UsageError("config set: nothing to set", hint="bastion config set root=URL")
    name = args.profile or read_settings().active or "default"
    write_profile(name, values, activate=False)
    note(f"profile {name}: {', '.join(values)} set in {config_path()}")
    return exits.OK
