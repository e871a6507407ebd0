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
            "One small VM in the cloud that the zone is of. It runs bastion serve for the root,"
            " from a container image, or from the wheel of this program, and starts it again when"
            " it ends. The root is --root, or the folder NAME beside the active profile's. Zone,"
            " cloud_project, identity and bastion_image of the profile hold where no flag says."
            " The quota file is ROOT/project-quotas/project-quotas.config, its log ROOT/logs/NAME."
        ),
        example=f"""\
{_AGAIN} --zone=us-central1-a --identity=bastion@acme.iam.gserviceaccount.com
{_AGAIN} --zone=us-east-1a --identity=bastion-profile --image=REGISTRY/bastion:v1""",
    )
    _add_name(create)
    _add_what(create)
    _add_shape(create)
    text(create, "--quota_file", "a quota file, put into the bucket first", metavar="FILE")
    upgrade = verbs.add(
        "upgrade",
        renew,
        text=(
            "Jobs go on while it is away, a minute or two. What no flag says stays as it is: an"
            " image, where its quota file is, metrics. Interrupted, it may be off: type it again."
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
            switch(parser, "--yes", "do not ask")


def _add_name(parser: Parser) -> None:
    text(parser, "--name", "of the VM and the bastion; it ends in -bastion", metavar="NAME")
    text(parser, "--zone", "where, as us-central1-a or us-east-1a", metavar="ZONE")
    text(parser, "--cloud_project", "Google's; by default that of your credentials", metavar="ID")


def _add_what(parser: Parser) -> None:
    text(
        parser,
        "--image",
        "of this program, tagged NAME if it has no tag; by default its wheel",
        metavar="REF",
    )
    text(
        parser,
        "--quota_url",
        "of a quota file elsewhere, as gs://PRIVATE/q.toml",
        metavar="URL",
    )
    number(parser, "--metrics_port", "the bastion answers Prometheus there")
    text(parser, "--metrics_host", "the address for that; 127.0.0.1 by default", metavar="ADDRESS")


def _add_shape(parser: Parser) -> None:
    """What a VM is made with, and keeps for as long as it is."""
    text(parser, "--identity", "service account or instance profile it acts as", metavar="ACCOUNT")
    text(parser, "--machine_type", "by default e2-small or t3.small", metavar="TYPE")
    text(parser, "--network", "network at Google, security group at Amazon", metavar="NAME")
    text(parser, "--subnet", "by default the zone's", metavar="NAME")
    number(parser, "--disk", "GiB of its disk", default=20)


def make(args: argparse.Namespace) -> int:
    """`bastion create`."""
    from bastion.client.change.quota_file import parsed_quota
    from bastion.records.keys.layout import bastion_log
    from bastion.vm.open import open_vm

    session = Session(args)
    vm = _checked(_shaped(session))
    if args.quota_file:
        written = read_quota_file(args.quota_file)
        parsed_quota(written, source=args.quota_file)
        session.client.apply_quota(written)
        note(f"{args.quota_file} is the quota file of {vm.root_url}")
    vm = _ready(session, vm)
    open_vm(vm, session.client.clock).create()
    note(f"{vm.name} boots in {vm.zone}; it leads in a minute or two: bastion status")
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
    note(f"{vm.name} starts anew with {what}; jobs go on meanwhile")
    return exits.OK


def change(args: argparse.Namespace) -> int:
    """`bastion start|stop|delete`."""
    from bastion.clock import SystemClock
    from bastion.vm.open import open_vm

    if args.job:
        verb = "launch -- COMMAND" if args.verb_name == "start" else f"cancel {args.job}"
        raise UsageError(
            f"{args.verb_name}: is about the bastion's own VM, and takes no job",
            hint=f"bastion {verb}",
        )
    # Neither is asked for again, nor changed.
    named = replace(_named(Session(args)), identity="-", image="x")
    vm = open_vm(_checked(named), SystemClock())
    if args.verb_name == "delete" and not args.yes:
        raise UsageError(
            f"delete: {named.name} is deleted with its disk; its bucket and machines stay",
            hint=f"bastion delete --name={named.name} --zone={named.zone} --yes",
        )
    {"start": vm.start, "stop": vm.stop, "delete": vm.delete}[args.verb_name]()
    said = {"start": "starts", "stop": "is stopped; jobs go on", "delete": "is deleted"}
    note(f"{named.name} {said[args.verb_name]}")
    return exits.OK


def _named(session: Session) -> BastionVm:
    """The VM that the flags name."""
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
    """The VM with what the flags say that it runs."""
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
    """`vm` with the wheel of this program in its bucket, unless it runs an image."""
    if vm.image:
        return vm
    from bastion.provider.boot import own_wheel
    from bastion.records.code.wheel import ensure_wheel

    wheel = own_wheel()
    key = ensure_wheel(session.client.store, wheel.digest, wheel.name, wheel.data)
    return replace(vm, wheel=key, digest=wheel.digest)


def _image(asked: str, profile: Profile, name: str) -> str:
    """The image with its registry and its tag, which `bastion bundle --name` gave it."""
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
