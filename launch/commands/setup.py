"""Preparing a bucket: who may do what in it, and the settings it needs."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from launch import exits
from launch.errors import UsageError, note
from launch.parser import Verbs, many, switch, text
from launch.render import plain, write_lines
from launch.session import Session

if TYPE_CHECKING:
    from bastion.service.access.grants import Grant, People
    from quota.tree import Project, Quota

KINDS = {"gcs": "gs", "s3": "s3"}


def register(verbs: Verbs) -> None:
    """Add the verb of this file."""
    parser = verbs.add(
        "setup",
        setup,
        "print or make a bucket's access rights and settings",
        prints=True,
        text="Prints the commands of gcloud or aws that would do it; --apply does it. Members of"
        " projects are read from the quota file.",
        example="bastion setup gcs --root=gs://bucket/bastion --quota=quota.toml"
        " --bastion_account=serviceAccount:b@p.iam.gserviceaccount.com"
        " --users=user:{}@example.com\n"
        "bastion setup s3 --root=s3://bucket/bastion --quota=quota.toml"
        " --bastion_account=arn:aws:iam::123456789012:role/bastion"
        " --users=arn:aws:iam::123456789012:user/{} --apply",
    )
    parser.add_argument("kind", choices=sorted(KINDS), metavar="KIND", help="gcs or s3")
    text(parser, "--quota", "the quota file; the bucket's by default", metavar="FILE")
    text(parser, "--bastion_account", "identity of the bastion", metavar="IDENTITY")
    many(parser, "--agent_account", "identity of the machines of a pool", metavar="IDENTITY")
    many(parser, "--admin", "identity of an admin", metavar="IDENTITY")
    text(parser, "--users", "identity of a user, with {} for the name", metavar="PATTERN")
    many(parser, "--user", "identity of one user, as ada=user:a@x.org", metavar="NAME=IDENTITY")
    switch(parser, "--apply", "do it")


def setup(args: argparse.Namespace) -> int:
    """`bastion setup gcs|s3`."""
    from bastion.service.access.grants import grants, unknown

    session = Session(args)
    if not args.bastion_account:
        raise UsageError(
            "--bastion_account: who is the bastion?", hint="the identity that runs bastion serve"
        )
    quota = _quota(session)
    people = _people(args, quota)
    members = _members(quota, people.users)
    wanted = grants(people, members)
    for user in unknown(people, members):
        note(f"{user} gets no rights: name his identity with --users or --user={user}=IDENTITY")
    if args.apply:
        for line in _apply(session, wanted):
            note(line)
        return exits.OK
    lines = _commands(session, wanted)
    if session.out.format == "json":
        session.out.json({"grants": plain(wanted), "commands": lines})
    else:
        write_lines(lines)
    return exits.OK


def _commands(session: Session, wanted: Iterable[Grant]) -> list[str]:
    from bastion.service.access import gcs, s3
    from bastion.service.access.place import place_of

    kind = session.args.kind
    place = place_of(session.profile.root, kind=KINDS[kind])
    return list((gcs if kind == "gcs" else s3).commands(place, wanted))


def _apply(session: Session, wanted: Iterable[Grant]) -> Iterable[str]:
    from bastion.service.access import gcs, s3
    from bastion.service.access.place import place_of

    kind = session.args.kind
    place = place_of(session.profile.root, kind=KINDS[kind])
    if kind == "gcs":
        return gcs.open_access(place).apply(wanted)
    return s3.apply(place, wanted, client=s3.open_client(place))


def _quota(session: Session) -> Quota:
    from bastion.client.quota_file import parsed_quota

    if not session.args.quota:
        return session.client.quota()
    try:
        return parsed_quota(Path(session.args.quota).read_text())
    except OSError as error:
        raise UsageError(f"{session.args.quota}: {error.strerror}") from None


def _people(args: argparse.Namespace, quota: Quota) -> People:
    from bastion.service.access.grants import People

    if args.users and "{}" not in args.users:
        raise UsageError(
            f"--users: {args.users!r} has no {{}}, the place of the name",
            hint="user:{}@example.com, or arn:aws:iam::123456789012:user/{}",
        )
    named = [each.partition("=") for each in args.user]
    for name, equals, identity in named:
        if not (name and equals and identity):
            raise UsageError(f"--user: {name + equals!r} is not NAME=IDENTITY")
    written = {name for project in quota.projects.values() for name in _names(project)}
    pattern = {name: args.users.replace("{}", name) for name in written} if args.users else {}
    return People(
        bastion=args.bastion_account,
        agents=tuple(args.agent_account),
        admins=tuple(args.admin),
        users={**pattern, **{name: identity for name, _, identity in named}},
    )


def _members(quota: Quota, known: Iterable[str]) -> Mapping[str, list[str]]:
    """The users of each project: those named, and those known whom an expression matches."""
    known = set(known)
    return {
        project.name: sorted(
            {*_names(project), *(user for user in known if project.members.has(user))}
        )
        for project in quota.projects.values()
    }


def _names(project: Project) -> list[str]:
    """The members that the quota file names, not those that an expression stands for."""
    return [word for word in project.members.written if re.fullmatch(r"[\w.@-]+", word)]
