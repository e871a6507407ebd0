"""Prepare a bucket: the permissions in it, and the settings that it needs."""

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

KINDS = {"gcs": "gs", "s3": "s3", "azure": "az"}
PROVIDERS = {"gcs": ("gce", "gcp_tpu"), "s3": ("ec2",), "azure": ("azure_vm",)}
"""The providers in the cloud of a bucket."""


def register(verbs: Verbs) -> None:
    """Add the verb of this file."""
    parser = verbs.add(
        "setup",
        setup,
        prints=True,
        text="Prints the gcloud, aws or az commands that set the permissions. --apply sets them,"
        " and changes only what differs. --make adds the bucket, the named service accounts or"
        " roles (gcs and s3), and the bastion's permission to create machines of --provider."
        " Members of projects are read from the quota file.",
        example="bastion setup gcs --root=gs://bucket/bastion --quota=quota.toml --make"
        " --location=us-central1 --provider=gce"
        " --bastion_account=serviceAccount:b@p.iam.gserviceaccount.com"
        " --agent_account=gpu=serviceAccount:gpu@p.iam.gserviceaccount.com"
        " --users=user:{}@example.com\n"
        "bastion setup s3 --root=s3://bucket/bastion --quota=quota.toml"
        " --bastion_account=arn:aws:iam::123456789012:role/bastion"
        " --users=arn:aws:iam::123456789012:user/{} --apply\n"
        "bastion setup azure --root=az://account/container/bastion --quota=quota.toml"
        " --bastion_account=8f14e45f-ceea-467f-a9d1-c2b2d7a0b1c3 --users={}@example.com",
    )
    parser.add_argument("kind", choices=sorted(KINDS), metavar="KIND", help="gcs, s3 or azure")
    text(parser, "--quota", "quota file (default: the bucket's)", metavar="FILE")
    text(parser, "--bastion_account", "identity of the bastion", metavar="IDENTITY")
    many(
        parser,
        "--agent_account",
        "identity of a pool's machines, such as gpu=IDENTITY; without a pool, of all machines",
        metavar="[POOL=]IDENTITY",
    )
    many(parser, "--admin", "identity of an admin", metavar="IDENTITY")
    text(
        parser,
        "--users",
        "pattern of user identities, with {} for the user name",
        metavar="PATTERN",
    )
    many(
        parser, "--user", "identity of one user, such as ada=user:a@x.org", metavar="NAME=IDENTITY"
    )
    switch(parser, "--make", "also create what is missing in the bucket's cloud")
    text(parser, "--location", "location of a new bucket, such as us-central1", metavar="PLACE")
    several(
        parser,
        "--provider",
        "provider of machines that the bastion creates: gce, gcp_tpu, ec2 or azure_vm",
        metavar="NAME",
    )
    text(parser, "--resource_group", "Azure resource group of the machines", metavar="NAME")
    text(
        parser,
        "--cloud_project",
        "Google Cloud project (default: that of your credentials)",
        metavar="ID",
    )
    switch(parser, "--apply", "make the changes instead of printing commands")
    switch(parser, "--yes", "the same as --apply")


def setup(args: argparse.Namespace) -> int:
    """`bastion setup gcs|s3|azure`."""
    from bastion.admin import Admin, granted, members
    from bastion.service.access.grants import unknown
    from bastion.service.access.place import place_of

    session = Session(args)
    if not args.bastion_account:
        raise UsageError(
            "--bastion_account is missing",
            hint="give the identity that runs bastion serve",
        )
    quota = _quota(session)
    people = _people(args, quota)
    projects = members(quota, people.users)
    _check_users(args, {user for users in projects.values() for user in users})
    for user in unknown(people, projects):
        note(f"{user} gets no permissions: add --users, or --user={user}=IDENTITY")
    if people.agents:
        note(
            f"{', '.join(people.agents)} can act for the machines of every pool;"
            " to limit an identity to one pool: --agent_account=POOL=IDENTITY"
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
                " put the url into a file on the bastion's machine, and set url_file to that file"
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
    """Return what `--make` creates besides permissions in the bucket; empty without it."""
    from bastion.account.needs import Needs
    from bastion.account.open import steps_of
    from bastion.clock import SystemClock
    from bastion.service.access.place import place_of

    args, kind = session.args, KINDS[session.args.kind]
    beside = {
        "--location": args.location,
        "--provider": args.provider,
        "--resource_group": args.resource_group,
    }
    if not args.make:
        if given := [flag for flag, said in beside.items() if said]:
            raise UsageError(f"{', '.join(given)} needs --make", hint="add --make")
        return []
    if args.kind == "azure" and not args.provider:
        raise UsageError(
            "--make is not for setup azure without --provider",
            hint="create the storage account, the container and the identities with az first:"
            " bastion help run-on-azure",
        )
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
        resource_group=args.resource_group,
        endpoint_url=place.settings.get("endpoint_url", ""),
    )
    return list(steps_of(kind, needs, SystemClock()))


def _quota(session: Session) -> Quota:
    from bastion.client.change.quota_file import checked_quota
    from launch.commands.admin.quota import read_quota_file

    if not session.args.quota:
        return session.client.quota()
    file = session.args.quota
    return checked_quota(read_quota_file(file), source=file)


def _people(args: argparse.Namespace, quota: Quota) -> People:
    from bastion.admin import names
    from bastion.service.access.grants import People

    if args.users and "{}" not in args.users:
        raise UsageError(
            f"--users: {args.users!r} has no {{}} for the user name",
            hint="such as user:{}@example.com, arn:aws:iam::123456789012:user/{}, {}@example.com",
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
    """Refuse identities that the policy of a bucket would not accept, before a cloud does."""
    from bastion.service.access.identity import EXAMPLES, wrong_identities

    for flag, identity in wrong_identities(KINDS[kind], said):
        raise UsageError(
            f"{flag}: {identity!r} is not an identity for setup {kind}",
            hint=f"give its full name, such as {EXAMPLES[KINDS[kind]]}",
        )


def _check_users(args: argparse.Namespace, known: Collection[str]) -> None:
    """Refuse an identity of a user that is in no project: it would get no permissions."""
    from quota.choice import choose

    for name in (each.partition("=")[0] for each in args.user):
        if name not in known:
            raise UsageError(
                f"--user: {name!r} is in no project of the quota file, {choose(name, known)}",
                hint="correct the name, or add the user to the quota file first",
            )


def _pool_of(account: str) -> tuple[str, str]:
    """Return (pool, identity) of an `--agent_account`; the pool is empty for all pools."""
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
