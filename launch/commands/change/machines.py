"""What admins do to machines: cordon, uncordon, drain, check; and uninstall their hosts."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from launch import exits
from launch.errors import UsageError
from launch.grammar.parser import Parser, Run, Verbs, switch, text
from launch.screen.notes import note
from launch.screen.render import Column, write_lines
from launch.session import Session

if TYPE_CHECKING:
    from bastion.client import MachineView

_WHO = "For admins: it takes the right to write into inbox/_admin/ of the bucket."
ACTIONS = ("check", "uninstall")
BY: tuple[Literal["hello", "burn"], ...] = ("hello", "burn")


def register(verbs: Verbs) -> None:
    """Add the verbs of this file."""
    why = ' --reason="new driver"'
    _add(verbs, "cordon", cordon, flags=why)
    _add(verbs, "uncordon", uncordon)
    parser = _add(verbs, "drain", empty, flags=why)
    text(
        parser,
        "--deadline",
        "preempt what runs longer than that, as 0s, 30m, 8h; by default jobs run to their end",
        metavar="TIME",
    )
    switch(parser, "--wait", "until nothing runs there any more")
    parser = verbs.add(
        "machine",
        machine,
        prints=True,
        text=(
            "check hello: its agent describes the machine; nothing is disturbed. check burn: a load"
            " on processors and GPUs, the pool's own burn where it names one; it takes a machine on"
            " which nothing runs, and cordons one that does not bear it. uninstall: everything of"
            " Bastion's is removed from a host of your own that no pool names any more, over"
            " OpenSSH as it is configured for you. For admins: check takes the right to write into"
            " inbox/_admin/ of the bucket."
        ),
        example="""\
bastion machine check gpu-12-0 hello
bastion machine check gpu-12-0 burn
bastion machine uninstall gpu1""",
    )
    parser.add_argument("action", choices=ACTIONS, metavar="ACTION", help=", ".join(ACTIONS))
    parser.add_argument(
        "machine", metavar="MACHINE", help="as bastion machines has it; to uninstall, a host"
    )
    parser.add_argument(
        "by", nargs="?", choices=BY, metavar="BY", help="to check: hello (default) or burn"
    )
    text(parser, "--pool", "to uninstall: the pool whose settings lead to the host", metavar="NAME")


def _add(verbs: Verbs, name: str, run: Run, *, flags: str = "") -> Parser:
    parser = verbs.add(name, run, prints=True, text=_WHO, example=f"bastion {name} gpu-12-0{flags}")
    parser.add_argument("machine", nargs="+", metavar="MACHINE", help="as bastion machines has it")
    if flags:
        text(parser, "--reason", "shown with the machine, and to jobs that wait for it")
    return parser


def cordon(args: argparse.Namespace) -> int:
    """`bastion cordon MACHINE...`."""
    session = Session(args)
    session.client.operator.cordon(*args.machine, reason=args.reason)
    return _changed(session, args.machine, "cordoned")


def uncordon(args: argparse.Namespace) -> int:
    """`bastion uncordon MACHINE...`."""
    session = Session(args)
    session.client.operator.uncordon(*args.machine)
    return _changed(session, args.machine, "uncordoned")


def empty(args: argparse.Namespace) -> int:
    """`bastion drain MACHINE...`."""
    session = Session(args)
    drain = session.client.operator.drain(
        *args.machine, reason=args.reason, deadline=args.deadline or None
    )
    if not args.wait:
        code = _changed(session, args.machine, "draining")
        note(f"bastion drain {' '.join(args.machine)} --wait tells when they are drained")
        return code
    try:
        became = dict(drain.over(_Progress()))
    except KeyboardInterrupt:
        note("the drain goes on; bastion uncordon ends it")
        return exits.DETACHED
    _changed(session, args.machine, became)
    taken_back = [name for name in args.machine if became[name] == "uncordoned"]
    if taken_back:
        note(f"not empty: the drain of {', '.join(taken_back)} was taken back meanwhile")
    return exits.FAILED if taken_back else exits.OK


def machine(args: argparse.Namespace) -> int:
    """`bastion machine ACTION MACHINE`."""
    if args.action == "check":
        if args.pool:
            raise UsageError("machine check: --pool is for uninstall; leave it out")
        return _check(args)
    if args.by:
        raise UsageError(f"machine uninstall: {args.by!r} is for check; leave it out")
    return _uninstall(args)


def _uninstall(args: argparse.Namespace) -> int:
    """`bastion machine uninstall HOST`."""
    from bastion.admin import Admin

    session = Session(args)
    kept = Admin(session.profile.root).uninstall(args.machine, pool=args.pool)
    if session.out.format == "json":
        session.out.json({"host": args.machine, "kept": kept})
    else:
        note(f"{args.machine}: {kept or 'nothing of Bastion is left there'}")
    return exits.FAILED if kept else exits.OK


def _check(args: argparse.Namespace) -> int:
    """`bastion machine check MACHINE [hello|burn]`."""
    session = Session(args)
    by = args.by or BY[0]

    def on_begun() -> None:
        if not session.is_quiet:
            note(f"waiting for the agent of {args.machine}")

    found = session.client.operator.check(args.machine, by, on_begun=on_begun)
    if session.out.format == "json":
        more = {"problem": found.problem, "undone": found.undone}
        session.out.json({"machine": args.machine, "lines": list(found.lines), **more})
    else:
        write_lines(found.lines)
    if found.undone:
        note(f"{args.machine} was not checked: {found.undone}")
    elif found.problem:
        cordoned = "; it is cordoned" if by == "burn" else ""
        note(f"{args.machine}: {found.problem}{cordoned}")
    return exits.FAILED if found.undone or found.problem else exits.OK


class _Progress:
    """Tells on which jobs a drain waits, when that changes."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[str, ...]] = {}

    def __call__(self, left: Sequence[MachineView]) -> None:
        for machine in left:
            if machine.jobs and self._told.get(machine.name) != machine.jobs:
                note(f"{machine.name}: still runs {', '.join(machine.jobs)}")
            self._told[machine.name] = machine.jobs


def _changed(session: Session, machines: Sequence[str], what: str | dict[str, str]) -> int:
    done = {name: what if isinstance(what, str) else what[name] for name in machines}
    columns: list[Column[str]] = [
        Column(title="MACHINE", text=str),
        Column(title="DONE", text=done.__getitem__),
    ]
    if session.out.format == "json":
        session.out.json({"machines": done})
    else:
        session.out.show("machines", list(done), columns, name=str)
    return exits.OK
