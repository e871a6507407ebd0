"""Preparing a bucket: the rights in it, and the settings it needs."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from launch import exits
from launch.errors import UsageError
from launch.grammar.parser import Verbs, many, several, switch, text
from launch.screen.notes import note
from launch.screen.render import plain, write_lines
from launch.session import Session

if TYPE_CHECKING:
    from bastion.account.needs import Step
    from bastion.service.access.grants import People
    from quota.tree import Quota

KINDS = {"gcs": "gs", "s3": "s3"}
PROVIDERS = {"gcs": ("gce", "gcp_tpu"), "s3": ("ec2",)}
"""What machines there are in the cloud of a bucket."""


def register(verbs: Verbs) -> None:
    """Add the verb of this file."""
    parser = verbs.add(
        "setup",
        setup,
        prints=True,
        text="Prints the commands of gcloud or aws that would do it; --apply does it, and changes"
        " nothing that is as it should be. With --make, also the bucket, the service accounts or"
        " roles that are named, and the bastion's right to make machines of --provider. Members of"
        " projects are read from the quota file.",
        example="bastion setup gcs --root=gs://bucket/bastion --quota=quota.toml --make"
        " --location=us-central1 --provider=gce"
        " --bastion_account=serviceAccount:b@p.iam.gserviceaccount.com"
        " --agent_account=gpu=serviceAccount:gpu@p.iam.gserviceaccount.com"
        " --users=user:{}@example.com\n"
        "bastion setup s3 --root=s3://bucket/bastion --quota=quota.toml"
        " --bastion_account=arn:aws:iam::123456789012:role/bastion"
        " --users=arn:aws:iam::123456789012:user/{} --apply",
    )
    parser.add_argument("kind", choices=sorted(KINDS), metavar="KIND", help="gcs or s3")
    text(parser, "--quota", "the quota file; the bucket's by default", metavar="FILE")
    text(parser, "--bastion_account", "identity of the bastion", metavar="IDENTITY")
    many(
        parser,
        "--agent_account",
        "identity of a pool's machines, as gpu=IDENTITY; without a pool, of those of every pool",
        metavar="[POOL=]IDENTITY",
    )
    many(parser, "--admin", "identity of an admin", metavar="IDENTITY")
    text(parser, "--users", "identity of a user, with {} for the name", metavar="PATTERN")
    many(parser, "--user", "identity of one user, as ada=user:a@x.org", metavar="NAME=IDENTITY")
    switch(parser, "--make", "also what the bucket's cloud does not have yet")
    text(parser, "--location", "where to make the bucket, as us-central1", metavar="PLACE")
    several(parser, "--provider", "what machines it makes: gce, gcp_tpu or ec2", metavar="NAME")
    text(parser, "--cloud_project", "Google's; by default the account's", metavar="ID")
    switch(parser, "--apply", "do it")
    switch(parser, "--yes", "the same")


def setup(args: argparse.Namespace) -> int:
    """`bastion setup gcs|s3`."""
    from bastion.admin import Admin, granted, members
    from bastion.service.access.grants import unknown
    from bastion.service.access.place import place_of

    session = Session(args)
    if not args.bastion_account:
        raise UsageError(
            "--bastion_account: which identity is the bastion?",
            hint="the identity that runs bastion serve",
        )
    quota = _quota(session)
    people = _people(args, quota)
    projects = members(quota, people.users)
    _check_users(args, {user for users in projects.values() for user in users})
    for user in unknown(people, projects):
        note(f"{user} gets no rights: name an identity with --users or --user={user}=IDENTITY")
    if people.agents:
        note(
            f"{', '.join(people.agents)}: may act for the machines of every pool:"
            " --agent_account=POOL=IDENTITY keeps it to one"
        )
    place_of(session.profile.root, kind=KINDS[args.kind])
    admin = Admin(session.profile.root)
    steps = _steps(session, people)
    if args.apply or args.yes:
        for step in steps:
            if done := step.take():
                note(done)
        for line in admin.setup(people, quota):
            note(line)
        for name in admin.exposed_webhooks():
            note(
                f"webhook {name}: every user can read its url in config/bastion.toml and in root;"
                " put it into a file on the bastion's machine, and name that by url_file"
            )
        return exits.OK
    made = tuple(line for step in steps for line in step.commands)
    lines = (*made, *admin.setup_commands(people, quota))
    if session.out.format == "json":
        session.out.json({"grants": plain(granted(people, quota)), "commands": lines})
    else:
        write_lines(lines)
    return exits.OK


def _steps(session: Session, people: People) -> list[Step]:
    """What `--make` makes beside the rights in the bucket; nothing without it."""
    from bastion.account.needs import Needs
    from bastion.account.open import steps_of
    from bastion.clock import SystemClock
    from bastion.service.access.place import place_of

    args, kind = session.args, KINDS[session.args.kind]
    beside = {"--location": args.location, "--provider": args.provider}
    if not args.make:
        if given := [flag for flag, said in beside.items() if said]:
            raise UsageError(f"{', '.join(given)}: of what is made", hint="add --make")
        return []
    if wrong := [each for each in args.provider if each not in PROVIDERS[args.kind]]:
        known = " or ".join(PROVIDERS[args.kind])
        raise UsageError(
            f"--provider: {wrong[0]!r} is not a provider of this cloud; must be {known}"
        )
    place = place_of(session.profile.root, kind=kind)
    agents = (*people.agents, *(each for group in people.pool_agents.values() for each in group))
    needs = Needs(
        bucket=place.bucket,
        location=args.location,
        bastion=people.bastion,
        agents=tuple(dict.fromkeys(agents)),
        providers=tuple(dict.fromkeys(args.provider)),
        project=args.cloud_project or session.profile.cloud_project,
        endpoint_url=place.settings.get("endpoint_url", ""),
    )
    return list(steps_of(kind, needs, SystemClock()))


def _quota(session: Session) -> Quota:
    from bastion.client.change.quota_file import parsed_quota
    from launch.commands.admin.quota import read_quota_file

    if not session.args.quota:
        return session.client.quota()
    file = session.args.quota
    return parsed_quota(read_quota_file(file), source=file)


def _people(args: argparse.Namespace, quota: Quota) -> People:
    from bastion.admin import names
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
    accounts = [_pool_of(each) for each in args.agent_account]
    _check_identities(
        args.kind,
        {
            "--bastion_account": [args.bastion_account],
            "--agent_account": [identity for _, identity in accounts],
            "--admin": args.admin,
            "--users": [args.users] if args.users else [],
            "--user": [identity for _, _, identity in named],
        },
    )
    written = {name for project in quota.projects.values() for name in names(project)}
    pattern = {name: args.users.replace("{}", name) for name in written} if args.users else {}
    return People(
        bastion=args.bastion_account,
        agents=tuple(identity for pool, identity in accounts if not pool),
        pool_agents={
            pool: tuple(identity for of, identity in accounts if of == pool)
            for pool, _ in accounts
            if pool
        },
        admins=tuple(args.admin),
        users={**pattern, **{name: identity for name, _, identity in named}},
    )


def _check_identities(kind: str, said: Mapping[str, Sequence[str]]) -> None:
    """Refuse what the policy of a bucket would not take: a cloud's own words come late."""
    from bastion.service.access.identity import EXAMPLES, wrong_identities

    for flag, identity in wrong_identities(KINDS[kind], said):
        raise UsageError(
            f"{flag}: {identity!r} is no identity for setup {kind}",
            hint=f"write it whole, as {EXAMPLES[KINDS[kind]]}",
        )


def _check_users(args: argparse.Namespace, known: Collection[str]) -> None:
    """Refuse an identity of a user that is in no project: it would get no right."""
    from quota.choice import choose

    for name in (each.partition("=")[0] for each in args.user):
        if name not in known:
            raise UsageError(
                f"--user: {name!r} is in no project of the quota file, {choose(name, known)}",
                hint="correct the name, or put the user into the quota file first",
            )


def _pool_of(account: str) -> tuple[str, str]:
    """(pool, identity) of an `--agent_account`; no pool where it is for those of all."""
    from bastion.spec.names import NAME

    pool, equals, identity = account.partition("=")
    if not equals:
        return "", account
    if not NAME.fullmatch(pool) or not identity:
        raise UsageError(
            f"--agent_account: {account!r} is not POOL=IDENTITY",
            hint="--agent_account=gpu=serviceAccount:gpu@project.iam.gserviceaccount.com",
        )
    return pool, identity
