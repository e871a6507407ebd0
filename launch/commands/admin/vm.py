"""The bastion's own VM: create, start, stop, upgrade, delete."""

from __future__ import annotations

import argparse
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from launch import exits
from launch.commands.admin.quota import read_quota_file
from launch.errors import UsageError
from launch.grammar.parser import Parser, Verbs, number, switch, text
from launch.screen.notes import note
from launch.session import Session

if TYPE_CHECKING:
    from bastion.profile import Profile
    from bastion.vm.bastion_vm import BastionVm

_AGAIN = "bastion create --name=shared-bastion"


def register(verbs: Verbs) -> None:
    """Add the verbs of this file."""
    create = verbs.add(
        "create",
        make,
        text=(
            "Creates a small VM in the cloud of the zone. It runs bastion serve for the root, from"
            " a container image or from the wheel of this program, and restarts it when it ends."
            " The root is --root, or the folder NAME next to the active profile's root. Defaults of"
            " zone, cloud_project, identity and image come from the profile. The quota file is"
            " ROOT/project-quotas/project-quotas.config, the log ROOT/logs/NAME."
        ),
        example=f"""\
{_AGAIN} --zone=us-central1-a --identity=bastion@acme.iam.gserviceaccount.com
{_AGAIN} --zone=us-east-1a --identity=bastion-profile --image=REGISTRY/bastion:v1""",
    )
    _add_name(create)
    _add_what(create)
    _add_shape(create)
    text(create, "--quota_file", "quota file to put into the bucket first", metavar="FILE")
    upgrade = verbs.add(
        "upgrade",
        renew,
        text=(
            "Replaces the running version with this program's, or with --image. Jobs continue while"
            " the bastion is down for a minute or two. Settings without a flag stay as they are:"
            " the image, the URL of the quota file, metrics. If the command is interrupted, the VM"
            " may be off: run it again."
        ),
        example="bastion upgrade --name=shared-bastion --zone=us-central1-a",
    )
    _add_name(upgrade)
    _add_what(upgrade)
    for name in ("start", "stop", "delete"):
        parser = verbs.add(
            name, change, example=f"bastion {name} --name=shared-bastion --zone=us-east-1a"
        )
        _add_name(parser)
        parser.add_argument("job", nargs="?", default="", help=argparse.SUPPRESS)
        if name == "delete":
            switch(parser, "--yes", "confirm the deletion")


def _add_name(parser: Parser) -> None:
    named = "name of the VM and the bastion; must end in -bastion"
    text(parser, "--name", named, metavar="NAME")
    text(parser, "--zone", "zone, such as us-central1-a or us-east-1a", metavar="ZONE")
    project = "Google Cloud project (default: that of your credentials)"
    text(parser, "--cloud_project", project, metavar="ID")


def _add_what(parser: Parser) -> None:
    text(
        parser,
        "--image",
        "container image of this program; without a tag, NAME is its tag (default: the wheel)",
        metavar="REF",
    )
    text(
        parser,
        "--quota_url",
        "URL of a quota file outside the bucket, such as gs://PRIVATE/q.toml",
        metavar="URL",
    )
    number(parser, "--metrics_port", "serve Prometheus metrics on this port")
    host = "address to serve metrics on (default: 127.0.0.1)"
    text(parser, "--metrics_host", host, metavar="ADDRESS")


def _add_shape(parser: Parser) -> None:
    """Add the flags that a VM is created with and keeps."""
    identity = "service account or instance profile of the VM"
    text(parser, "--identity", identity, metavar="ACCOUNT")
    text(parser, "--machine_type", "VM type (default: e2-small or t3.small)", metavar="TYPE")
    text(parser, "--network", "network (Google Cloud) or security group (AWS)", metavar="NAME")
    text(parser, "--subnet", "subnet (default: the zone's)", metavar="NAME")
    number(parser, "--disk", "disk size in GiB", default=20)


def make(args: argparse.Namespace) -> int:
    """`bastion create`."""
    from bastion.client.change.quota_file import checked_quota
    from bastion.records.keys.layout import bastion_log
    from bastion.vm.open import open_vm

    session = Session(args)
    vm = _checked(_shaped(session))
    if args.quota_file:
        written = read_quota_file(args.quota_file)
        checked_quota(written, source=args.quota_file)
        session.client.apply_quota(written)
        note(f"{args.quota_file} is the quota file of {vm.root_url}")
    vm = _ready(session, vm)
    open_vm(vm, session.client.clock).create()
    note(f"{vm.name} is booting in {vm.zone} and leads in a minute or two: bastion status")
    note(f"its log is {vm.root_url}/{bastion_log(vm.name)}")
    return exits.OK


def renew(args: argparse.Namespace) -> int:
    """`bastion upgrade`."""
    from bastion.vm.open import open_vm

    session = Session(args)
    # It keeps the identity that it was made with.
    named = _checked(replace(_described(session), identity="-"))
    vm = open_vm(_ready(session, named), session.client.clock).upgrade()
    what = vm.image or f"version {_version()}"
    note(f"{vm.name} is restarting with {what}; jobs continue in the meantime")
    return exits.OK


def change(args: argparse.Namespace) -> int:
    """`bastion start|stop|delete`."""
    from bastion.clock import SystemClock
    from bastion.vm.open import open_vm

    if args.job:
        verb = "launch -- COMMAND" if args.verb_name == "start" else f"cancel {args.job}"
        raise UsageError(
            f"{args.verb_name} is about the bastion's own VM and takes no job",
            hint=f"bastion {verb}",
        )
    # The verb neither needs nor changes the identity and the image.
    named = replace(_named(Session(args)), identity="-", image="x")
    vm = open_vm(_checked(named), SystemClock())
    if args.verb_name == "delete" and not args.yes:
        raise UsageError(
            f"delete needs --yes: it deletes {named.name} and its disk; bucket and machines remain",
            hint=f"bastion delete --name={named.name} --zone={named.zone} --yes",
        )
    {"start": vm.start, "stop": vm.stop, "delete": vm.delete}[args.verb_name]()
    said = {"start": "is starting", "stop": "is stopped; jobs continue", "delete": "is deleted"}
    note(f"{named.name} {said[args.verb_name]}")
    return exits.OK


def _named(session: Session) -> BastionVm:
    """Return the VM that the flags name."""
    from bastion.vm.bastion_vm import BastionVm

    args = session.args
    if args.name and not args.root and not args.bastion:
        args.bastion = args.name
    return BastionVm(
        name=args.name,
        root_url=session.profile.root,
        zone=args.zone or session.profile.zone,
        project=args.cloud_project or session.profile.cloud_project,
    )


def _described(session: Session) -> BastionVm:
    """Return the VM with what it runs, as the flags describe it."""
    args = session.args
    return replace(
        _named(session),
        image=_image(args.image, session.profile, args.name),
        quota_url=args.quota_url,
        metrics_port=args.metrics_port,
        metrics_host=args.metrics_host,
    )


def _shaped(session: Session) -> BastionVm:
    """The same with what it is made with."""
    args = session.args
    return replace(
        _described(session),
        identity=args.identity or session.profile.identity,
        machine_type=args.machine_type,
        network=args.network,
        subnet=args.subnet,
        disk_gib=args.disk,
    )


def _ready(session: Session, vm: BastionVm) -> BastionVm:
    """Return `vm` with the wheel of this program in its bucket, unless it runs an image."""
    if vm.image:
        return vm
    from bastion.provider.boot import own_wheel
    from bastion.records.code.wheel import ensure_wheel

    wheel = own_wheel()
    key = ensure_wheel(session.client.store, wheel.digest, wheel.name, wheel.data)
    return replace(vm, wheel=key, digest=wheel.digest)


def _image(asked: str, profile: Profile, name: str) -> str:
    """Return the image with its registry and tag; `bastion bundle --name` sets the tag."""
    image = asked or profile.bastion_image
    if not image:
        return ""
    if "/" not in image and profile.image_repo:
        image = f"{profile.image_repo.rstrip('/')}/{image}"
    return image if re.search(r"[:@][^/]*$", image) else f"{image}:{name}"


def _checked(vm: BastionVm) -> BastionVm:
    from bastion.errors import SpecError
    from bastion.vm.bastion_vm import problems

    if wrong := problems(vm):
        raise SpecError(*wrong)
    return vm


def _version() -> str:
    from bastion.version import VERSION

    return VERSION
